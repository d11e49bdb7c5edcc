"""Cassettes with the real CLI: a scripted model stands in for the real one while they are recorded."""

import json
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anyio
import pytest

from claude_agent_py import Client, OptionsError, RunError
from claude_agent_py.testing import Cassette, CassetteMismatch, Failure, Gate, Reply, ScriptedModel, tool_use
from claude_agent_py.testing.upstream import join_events

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

KEY = "sk-ant-this-is-the-real-key-0123456789"
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("DATABASE_PASSWORD", PASSWORD)


def post(cassette: Cassette) -> int:
    """Send a request as the CLI does, and return the status of the answer."""
    env = cassette.options().env
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    url = f"{env['ANTHROPIC_BASE_URL']}/v1/messages"
    headers = {"authorization": f"Bearer {env.get('CLAUDE_CODE_OAUTH_TOKEN')}"}
    try:
        with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=60) as answer:
            return int(answer.status)
    except HTTPError as refused:
        with refused:
            return refused.code


async def ask(cassette: Cassette, *prompts: str, until: Any = "result") -> list[str]:
    async with Client(cassette.options()) as client:
        return [(await client.query(prompt, until=until, timeout=120)).text for prompt in prompts]


async def test_a_session_is_recorded_once_and_replayed_elsewhere_without_secrets(tmp_path: Path) -> None:
    """With the calls of its tools, and a failure of the API."""
    path = tmp_path / "cassettes" / "tools.json"
    seen_keys = []

    def real(request: Any) -> Any:
        seen_keys.append(request.headers.get("x-api-key"))
        found = request.tool_result("toolu_pwd")
        cwd = found["content"].splitlines()[0] if found else ""
        if request.last_user_text == "Twice":
            return "Double."
        if request.last_user_text == "Curse":
            return Failure(400, "these words are bad")
        if not cwd:
            return tool_use("Bash", {"command": "pwd; touch seen; date"}, id="toolu_pwd")
        if len(request.messages) < 6:
            return tool_use("Write", {"file_path": f"{cwd}/note.txt", "content": f"{PASSWORD} {KEY}"})
        return f"It is in {cwd}."

    async def talk(cassette: Cassette) -> list[str]:
        async with Client(cassette.options()) as client:
            with anyio.fail_after(120):
                answers = [(await client.query(prompt)).text for prompt in ("Where\nis it?", "Twice")]
                with pytest.raises(RunError, match="these words are bad"):
                    await client.query("Curse")
        return answers

    with ScriptedModel(real) as upstream:
        async with Cassette(path, mode="once", upstream=upstream.url) as recording:
            assert recording.is_recording
            cwd = Path(recording.options().cwd or "")
            first = await talk(recording)
            assert (cwd / "seen").exists()
            assert (cwd / "note.txt").read_text() == f"{PASSWORD} {KEY}"
    assert first == [f"It is in {cwd}.", "Double."]
    assert set(seen_keys) == {KEY}

    stored = path.read_text()
    for secret in (KEY, PASSWORD, str(cwd), "sk-ant", str(Path.home()) + "/"):
        assert secret not in stored

    async with Cassette(path) as replay:  # no upstream any more
        there = Path(replay.options().cwd or "")
        assert await talk(replay) == [f"It is in {there}.", "Double."]
        assert (there / "note.txt").read_text() == "<DATABASE_PASSWORD> <ANTHROPIC_API_KEY>"
    assert there != cwd
    replay.check()

    async with Cassette(path) as other:
        with pytest.raises(RunError, match="the main agent sent a request that is not in"):
            await ask(other, "Where\nwas it?")
    with pytest.raises(CassetteMismatch) as caught:
        other.check()
    assert " user: Where\n-is it?\n+was it?\n" in str(caught.value)


@pytest.mark.long
async def test_secrets_of_the_options_are_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "cassette.json"
    key = (
        "-----BEGIN PRIVATE KEY-----\nthe first line of the key\nthe second line of the key\n-----END PRIVATE KEY-----"
    )
    env = {"GH_PAT": "of-a-person", "DATABASE_URL": "postgres://app:of-a-database@db/app", "SIGNING_KEY": key}
    command = 'echo $GH_PAT $DATABASE_URL; echo postgres; echo "$SIGNING_KEY" | cat -n'
    prompts = ["Show them", "And the password: of-a-database"]

    def real(request: Any) -> Any:
        return "Shown." if request.tool_results else tool_use("Bash", {"command": command})

    async def talk(cassette: Cassette, env: Any) -> list[str]:
        async with Client(cassette.options(env=env)) as client:
            return [(await client.query(prompt, timeout=120)).text for prompt in prompts]

    with ScriptedModel(real) as upstream:
        async with Cassette(path, mode="once", upstream=upstream.url) as recording:
            assert await talk(recording, env) == ["Shown.", "Shown."]
    stored = path.read_text()
    assert [text for text in ("of-a-", "line of the key") if text in stored] == []
    assert "postgres\\n" in stored
    async with Cassette(path) as replay:
        assert await talk(replay, {**env, "GH_PAT": "of-another-person"}) == ["Shown.", "Shown."]


TOKEN = "sk-ant-oat01-of-a-subscription-0123456789"


@pytest.mark.parametrize(
    "where", [pytest.param(each, marks=pytest.mark.long) for each in ("login", "ANTHROPIC_AUTH_TOKEN")]
)
async def test_a_subscription_is_recorded_without_its_token(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = TOKEN if where != "ANTHROPIC_AUTH_TOKEN" else "opaque/token:of-a-gateway"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    if where == "login":
        ends = (time.time() + 3600) * 1000
        login = {"accessToken": token, "refreshToken": "sk-ant-ort01-renews", "expiresAt": ends}
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / ".credentials.json").write_text(json.dumps({"claudeAiOauth": login}))
    else:
        monkeypatch.setenv(where, token)
    path = tmp_path / "recorded.json"

    def real(request: Any) -> Any:
        if not request.tool_results:
            return tool_use("Bash", {"command": "env | grep -E 'OAUTH|AUTH_TOKEN'; true"})
        assert token not in str(request.messages)  # the CLI and its tools do not have it
        return f"The token is {token}."

    with ScriptedModel(real) as upstream:
        async with Cassette(path, mode="once", upstream=upstream.url) as recording:
            assert await ask(recording, "Say it") == [f"The token is {token}."]
        [asked, *_] = upstream.requests_of("main")
    assert asked.headers["authorization"] == f"Bearer {token}"
    assert "x-api-key" not in asked.headers
    assert ("oauth-" in asked.headers["anthropic-beta"]) is (where != "ANTHROPIC_AUTH_TOKEN")
    assert not [secret for secret in (token, "sk-ant", "ort01") if secret in path.read_text()]
    if where == "login":  # the other is recorded alike
        (tmp_path / "config" / ".credentials.json").unlink()
        async with Cassette(path) as replay:
            assert await ask(replay, "Say it") != []
        replay.check()


def test_a_token_of_the_environment_is_used_like_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", TOKEN)
    path = tmp_path / "recorded.json"
    with ScriptedModel([f"It is {TOKEN}."]) as upstream:
        with Cassette(path, mode="once", upstream=upstream.url) as recording:
            assert TOKEN not in str(recording.options().env)
            assert post(recording) == 200
        [asked] = upstream.requests
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert "sk-ant" not in path.read_text()


def test_a_login_that_has_expired_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    login = {"accessToken": TOKEN, "expiresAt": 1_700_000_000_000}
    (tmp_path / ".credentials.json").write_text(json.dumps({"claudeAiOauth": login}))
    with pytest.raises(OptionsError, match="has expired: run `claude` once") as caught:
        Cassette(tmp_path / "x.json", mode="all")
    assert TOKEN not in str(caught.value)


@pytest.mark.long
async def test_parallel_subagents_are_replayed_in_the_recorded_order(tmp_path: Path) -> None:
    path = tmp_path / "agents.json"

    def launch(name: str) -> Any:
        return tool_use("Agent", {"description": name, "prompt": f"Do {name}", "subagent_type": "general-purpose"})

    gate = Gate()

    def main(request: Any) -> Any:
        if request.contains("b is done"):
            gate.open()
        ended = request.contains("b is done"), request.contains("a is done")
        return {
            (False, False): "Started." if request.tool_results else Reply([launch("a"), launch("b")]),
            (True, False): "Half.",
        }.get(ended, "Both.")

    last = Reply("a is done", after=gate)
    with ScriptedModel(main, agents={"Do a": last, "Do b": [tool_use("Bash", {"command": "pwd"}), "b is done"]}) as up:
        async with Cassette(path, mode="all", upstream=up.url) as recording:
            assert await ask(recording, "go", until="idle") == ["Both."]
        asked = [request.contains("b is done") for request in up.requests_of("main")]
    async with Cassette(path) as replay:
        assert await ask(replay, "go", until="idle") == ["Both."]
    replay.check()
    main_again = [request for request in replay.requests if request.conversation == "main"]
    assert [request.contains("b is done") for request in main_again] == asked


def test_a_key_that_is_refused_leaves_no_cassette(tmp_path: Path) -> None:
    with ScriptedModel([Failure(403, "no such key")]) as upstream:
        with Cassette(tmp_path / "none.json", mode="once", upstream=upstream.url) as recording:
            assert post(recording) == 403
    assert not list(tmp_path.iterdir())


def test_an_api_that_is_not_there_leaves_no_cassette(tmp_path: Path) -> None:
    recording = Cassette(tmp_path / "none.json", mode="once", upstream="http://127.0.0.1:9")
    recording.__enter__()
    assert post(recording) >= 400
    with pytest.raises(OSError, match="refused"):
        recording.__exit__(None, None, None)
    assert not list(tmp_path.iterdir())


def test_a_cassette_error_names_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionsError, match="run pytest with --cassette-mode=once"):
        Cassette(tmp_path / "missing.json")
    (tmp_path / "bad.json").write_text(json.dumps({"cassette": 99, "entries": []}))
    with pytest.raises(OptionsError, match="has the format 99"):
        Cassette(tmp_path / "bad.json")
    with pytest.raises(OptionsError, match="model, tools, system"):
        Cassette(tmp_path / "x.json", mode="all", match=["modle"])
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))  # without a login
    with pytest.raises(OptionsError, match=r"claude setup-token.*replaying needs no key"):
        Cassette(tmp_path / "x.json", mode="all")


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    with pytest.raises(ConnectionError):
        join_events(iter([{"type": "message_start", "message": {"content": []}}]))

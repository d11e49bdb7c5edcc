"""Sessions with a private home, on the real CLI: nothing of a hostile `~/.claude` reaches them."""

import json
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from installed_cli import find_cli

from claude_agent_py import Client, ClientOptions, OptionsError
from claude_agent_py.testing import ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

HOME_VARIABLES = ("HOME", "USERPROFILE", "CLAUDE_CONFIG_DIR", "CLAUDE_SECURESTORAGE_CONFIG_DIR")
MARK = "HOSTILE-MARK"
MCP_SERVER = str(Path(__file__).with_name("stdio_mcp_server.py"))


class HostileHome:
    """A user's home whose configuration wants to be everywhere."""

    def __init__(self, root: Path) -> None:
        self.path = root / "user"
        self.traces = root / "traces"
        self.work = self.path / "projects/shop"
        for directory in (self.work, self.traces):
            directory.mkdir(parents=True)
        config = self.path / ".claude"
        self._write(config / "CLAUDE.md", f"{MARK} in CLAUDE.md")
        self._write(config / "rules/all.md", f"{MARK} in a rule")
        agent = f"---\nname: evil\ndescription: {MARK} agent\n---\n{MARK}\n"
        self._write(config / "agents/evil.md", agent)
        self._write(config / "skills/evil/SKILL.md", agent.replace("agent", "skill"))
        self._write(config / "commands/evil.md", agent.replace("agent", "command"))
        hooks = {
            event: [{"hooks": [{"type": "command", "command": f"touch {shlex.quote(str(self.traces))}/hook-{event}"}]}]
            for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop")
        }
        self._write(config / "settings.json", json.dumps({"hooks": hooks, "env": {"EVIL": MARK}}))
        server = {"command": "sh", "args": ["-c", f"touch {self.traces}/mcp; exec {sys.executable} {MCP_SERVER}"]}
        for place in (self.path, config):
            self._write(place / ".claude.json", json.dumps({"mcpServers": {"evil": server}}))

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.path.rglob("*") if path.is_file()}


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostileHome:
    cli = find_cli()
    made = HostileHome(tmp_path)
    monkeypatch.setenv("CLAUDE_AGENT_CLI", str(cli))
    for name in HOME_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made.path))
    monkeypatch.setenv("USERPROFILE", str(made.path))
    return made


def options_for(model: ScriptedModel, cwd: Path, **options: Any) -> ClientOptions:
    """Return options that inherit this process's environment, home and all, as a program's own would."""
    env = {name: value for name, value in model.environment().items() if name not in HOME_VARIABLES}
    return ClientOptions(**{"env": env, "cwd": cwd, "permission_mode": "bypassPermissions", **options})


def shown(model: ScriptedModel) -> list[str]:
    return [str(request.body) for request in model.requests if MARK in str(request.body)]


async def run_once(options: ClientOptions) -> tuple[list[str], list[str]]:
    async with Client(options) as client:
        servers = [server.name for server in await client.mcp.ready(timeout=60)]
        await client.query("hi")
        return servers, [agent.name for agent in client.info.agents or ()]


@pytest.mark.long
async def test_the_hostile_home_shows_in_a_session_that_is_not_isolated(hostile: HostileHome) -> None:
    async with ScriptedModel([tool_use("Bash", {"command": "true"}), "done"]) as model:
        servers, agents = await run_once(options_for(model, hostile.work))
    assert shown(model)
    assert "evil" in servers
    assert "evil" in agents
    assert len(list(hostile.traces.iterdir())) == 5


async def test_a_private_home_shows_nothing_of_the_users(hostile: HostileHome) -> None:
    """In the user's home itself; the next test is below it."""
    before = hostile.files()
    command = "echo $HOME $CLAUDE_CONFIG_DIR $EVIL"
    async with ScriptedModel([tool_use("Bash", {"command": command}), "done"]) as model:
        servers, agents = await run_once(options_for(model, hostile.path, home=True))
    assert not shown(model)
    assert "evil" not in servers
    assert "evil" not in agents
    assert not list(hostile.traces.iterdir())
    assert hostile.files() == before
    home, config = str(model.requests[-1].tool_results[0]["content"]).split()
    assert not Path(home).is_relative_to(hostile.path)
    assert config == str(Path(home, ".claude"))
    assert not Path(home).exists()


async def test_a_named_home_is_kept_for_this_user_only_and_its_session_continues(
    hostile: HostileHome, tmp_path: Path
) -> None:
    home = tmp_path / "homes/one"
    before = hostile.files()
    async with ScriptedModel([tool_use("Bash", {"command": "echo $EVIL"}), "one", "two"]) as model:
        options = options_for(model, hostile.work, home=home)
        async with Client(options) as client:
            assert "evil" not in [server.name for server in await client.mcp.ready(timeout=60)]
            assert "evil" not in [agent.name for agent in client.info.agents or ()]
            first = await client.query("first words")
            session_id = client.session_id
        async with Client(options.replace(resume=session_id)) as client:
            assert client.info.agents
            await client.query("second words")
    assert first.text == "one"
    assert model.requests[-1].contains("first words")
    assert not shown(model)
    assert not list(hostile.traces.iterdir())
    assert hostile.files() == before
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, home / ".claude")] == [0o700, 0o700]


async def test_a_home_that_others_can_read_is_refused(hostile: HostileHome, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(OptionsError, match="is open to other users"):
        await Client(ClientOptions(home=tmp_path / "open", cwd=hostile.work)).connect()


async def test_project_settings_below_the_users_home_are_refused(hostile: HostileHome, tmp_path: Path) -> None:
    options = ClientOptions(home=True, setting_sources=["project"])
    with pytest.raises(OptionsError, match="would also read") as caught:
        await Client(options.replace(cwd=hostile.work)).connect()
    assert caught.value.option == "setting_sources"
    project = tmp_path / "project"
    project.mkdir()
    (project / "CLAUDE.md").write_text("Be brief.")
    async with ScriptedModel(["done"]) as model:
        await run_once(options_for(model, project, home=True, setting_sources=["project"]))
    assert model.requests[0].contains("Be brief.")
    assert not shown(model)


@pytest.mark.parametrize("is_used", [True, pytest.param(False, marks=pytest.mark.long)], ids=["used", "left out"])
async def test_a_login_is_used_in_place_if_it_is_named(hostile: HostileHome, is_used: bool) -> None:
    login = {"claudeAiOauth": {"accessToken": "sk-ant-oat01-carried", "refreshToken": "r", "expiresAt": 9999999999999,
                               "scopes": ["user:inference", "user:profile"]}}  # fmt: skip
    config = hostile.path / ".claude"
    with pytest.raises(OptionsError, match=r"no \.credentials.json") as caught:
        await Client(ClientOptions(home=True, login=config)).connect()
    assert caught.value.option == "login"
    (config / ".credentials.json").write_text(json.dumps(login))
    async with ScriptedModel(["one"]) as model:
        options = options_for(model, hostile.work, home=True, login=config if is_used else None)
        async with Client(options.replace(env={**options.env, "ANTHROPIC_API_KEY": None})) as client:
            assert client.info.account is not None
            assert (client.info.account.token_source == "none") is not is_used
            if is_used:
                await client.query("hi")
    used = [request.headers["authorization"] for request in model.requests]
    assert used == ["Bearer sk-ant-oat01-carried"] * is_used
    assert not shown(model)


def test_a_home_and_the_variables_of_a_home_conflict() -> None:
    conflicts: list[dict[str, Any]] = [{"env": {"HOME": "/x"}}, {"resume": "abc"}, {"continue_conversation": True}]
    for options in conflicts:
        with pytest.raises(OptionsError):
            ClientOptions(home=True, **options)
    with pytest.raises(OptionsError, match="needs home"):
        ClientOptions(login="/x")

"""Options show no secrets, also where they are wrong or half-made."""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forks import Program

from claude_agent_py import (
    AgentDefinition,
    Client,
    ClientOptions,
    CLIStartError,
    MCPHTTPServer,
    MCPStdioServer,
    OptionsError,
    Timeouts,
)
from claude_agent_py.options import OptionsWarning, find_secrets
from claude_agent_py.testing import FakeCLI

SECRET = "a-" + "secret"


def shown(error: BaseException) -> str:
    """Return what a printer of tracebacks with variables shows of the frames of this package."""
    parts = []
    one = traceback.TracebackException.from_exception(error, capture_locals=True)
    chain = [one]
    while chain:
        one = chain.pop()
        chain += [next_one for next_one in (one.__cause__, one.__context__) if next_one]
        parts.append(str(one))
        parts += [f"{frame.name} {frame.locals}" for frame in one.stack if frame.filename != __file__]
    return "\n".join(parts)


def secretive(**options: Any) -> dict[str, Any]:
    server = {"type": "http", "url": "http://127.0.0.1", "headers": {"Authorization": f"Bearer {SECRET}"}}
    return {
        "env": {"API_KEY": SECRET},
        "mcp_servers": {"one": server},
        "settings": {"env": {"KEY": SECRET}},
        **options,
    }


def test_a_prompt_that_stands_for_its_type_is_not_printed() -> None:
    for wrong in (SECRET, [SECRET], {"a": SECRET}):
        with pytest.raises(OptionsError, match="must have a type") as caught:
            ClientOptions(system_prompt={"type": wrong})
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"max_turns": "x"}, {"max_turn": 1}, {"fork_session": True}, {"session_id": "x"}])
def test_a_traceback_with_variables_shows_no_secret_of_wrong_options(wrong: dict[str, Any]) -> None:
    positional: Any = MCPHTTPServer
    makers: list[Callable[[], Any]] = [
        lambda: ClientOptions(**secretive(**wrong)),
        lambda: ClientOptions.model_validate(secretive(**wrong)),
        lambda: positional("https://x", {"Authorization": SECRET}, **wrong),
        lambda: positional("https://x", {"Authorization": SECRET}, [SECRET]),
        lambda: positional("https://x", {"Authorization": SECRET}, headers={"Authorization": SECRET}),
    ]
    for make in makers:
        with pytest.raises(OptionsError) as caught:
            make()
        assert SECRET not in shown(caught.value)


@pytest.mark.anyio
@pytest.mark.parametrize("fault", ["no program", "no directory", "no answer"])
async def test_a_traceback_with_variables_shows_no_secret_of_a_failed_start(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED", SECRET)
    program = FakeCLI(answers={"initialize": None}).install(tmp_path)
    options = ClientOptions(**secretive(cli_path=program, timeouts=Timeouts(connect=0.5)))
    if fault == "no program":
        program.write_text("#!/nonexistent/interpreter\n")
    elif fault == "no directory":
        options = options.replace(cwd=tmp_path / "missing")
    with pytest.raises((CLIStartError, OptionsError)) as caught:
        await Client(options).connect()
    assert SECRET not in shown(caught.value)


def test_secrets_are_found_wherever_the_cli_gets_them() -> None:
    def server(number: int) -> dict[str, Any]:
        return {"command": "x", "env": {"API_KEY": f"{SECRET}-{number}"}}

    agent = AgentDefinition(description="d", prompt="p", mcp_servers=["named", {"own": server(1)}])
    options = ClientOptions(
        env={"API_KEY": f"{SECRET}-2"},
        settings={"env": {"API_KEY": f"{SECRET}-3"}},
        managed_settings={"env": {"API_KEY": f"{SECRET}-4"}},
        mcp_servers={"named": server(5)},
        agents={"one": agent},
    )
    plain = [each for each in find_secrets(options, {"API_KEY": f"{SECRET}-6"}) if each.startswith(SECRET)]
    assert sorted(plain) == [f"{SECRET}-{number}" for number in range(1, 6)]


def test_the_parts_of_a_secret_are_found_on_their_own() -> None:
    token = f"{SECRET}-of-an-account"
    remote = {"type": "http", "url": f"https://me:{SECRET}-1@host/", "headers": {"X-Auth-Token": f"Bearer {token}"}}
    options = ClientOptions(
        env={"ANTHROPIC_CUSTOM_HEADERS": f"X-Any: {token}-2\nX-Other: {token}-3"}, mcp_servers={"far": remote}
    )
    found = find_secrets(options, {})
    assert {f"{SECRET}-1": "<url>", token: "<X-Auth-Token>"}.items() <= found.items()
    assert {f"{token}-2", f"{token}-3"} <= found.keys()


def test_a_value_that_is_half_made_has_a_repr() -> None:
    kinds: list[Any] = [ClientOptions, MCPHTTPServer, MCPStdioServer, AgentDefinition, Timeouts]
    for kind in kinds:
        assert repr(kind.__new__(kind)) == f"{kind.__name__}()"
        assert repr(kind.model_construct()) == f"{kind.__name__}()"
    assert repr(ClientOptions.model_construct(_fields_set={"model"})) == "ClientOptions(model=None)"


def test_tools_that_are_not_known_are_warned_of_wherever_they_stand() -> None:
    with pytest.warns(OptionsWarning, match="allowed_tools: 'Bsah'.*did you mean 'Bash'"):
        ClientOptions(allowed_tools=["Bsah", "Read", "mcp__any__tool", "Bash(ls *)"])
    agent = AgentDefinition(description="d", prompt="p", tools=["Raed", "Bash"])
    with pytest.warns(OptionsWarning, match="agents: tools of 'one': 'Raed'.*did you mean 'Read'"):
        ClientOptions(agents={"one": agent})


LEAVES_FILES = """
import anyio, sys, time
from claude_agent_py import Client, ClientOptions

async def main():
    async with Client(ClientOptions(cli_path=sys.argv[1], settings={"model": "sonnet"})) as client:
        print(*client.session.launched.plan.files, flush=True)
        time.sleep(60)

anyio.run(main)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM there")
def test_files_of_a_program_that_was_killed_are_removed_by_the_next(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    cli = FakeCLI().install(tmp_path)
    argv, env = [sys.executable, "-c", LEAVES_FILES, str(cli)], {**os.environ, "TMPDIR": str(temporary)}
    left: list[Path] = []
    with Program(argv, env=env, stdout=subprocess.PIPE, text=True) as alive:
        assert alive.stdout is not None
        kept = Path(alive.stdout.readline().strip())
        for _ in range(2):
            with Program(argv, env=env, stdout=subprocess.PIPE, text=True) as one:
                assert one.stdout is not None
                left.append(Path(one.stdout.readline().strip()))
                assert left[-1].stat().st_mode & 0o777 == 0o600
                one.send_signal(signal.SIGTERM)
            assert left[-1].exists()
            for file in (left[-1], kept):
                os.utime(file.parent, (time.time() - 3600, time.time() - 3600))
        assert [file.exists() for file in (*left, kept)] == [False, True, True]
        alive.kill()

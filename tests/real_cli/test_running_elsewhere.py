"""`spawn=`: the CLI runs where the user's transport starts it, with everything that the options became."""

import importlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from installed_cli import find_cli

from claude_agent_py import Client, ClientOptions, OptionsError, run
from claude_agent_py.errors import StoreError
from claude_agent_py.sessions import MemoryStore, push
from claude_agent_py.testing import FakeCLI, ScriptedModel, steps, tool_use
from claude_agent_py.transport import LaunchPlan, SubprocessTransport, Transport

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

EXAMPLES = Path(__file__).parents[2] / "examples"
UNSHARE = shutil.which("unshare")
DOCKER = f"""\
#!{sys.executable}
import argparse, os
docker = argparse.ArgumentParser()
docker.add_argument("exec")
docker.add_argument("--interactive", action="store_true")
docker.add_argument("--workdir", default="/")
docker.add_argument("--env", action="append", default=[])
docker.add_argument("container")
docker.add_argument("command", nargs=argparse.REMAINDER)
given = docker.parse_args()
variables = [f"{{name}}={{os.environ[name]}}" for name in given.env]
inside = ["env", "--ignore-environment", f"--chdir={{given.workdir}}", "PATH=/usr/bin:/bin", *variables, *given.command]
os.execvp("nsenter", ["nsenter", "--mount", "--target", given.container, *inside])
"""
"""Stands in for Docker. The container is a process in a mount namespace of its own."""
CONTAINER = """\
exec 3< "$1"
mount -t tmpfs tmpfs /tmp
mkdir /tmp/work /tmp/home
if [ ! -e "$1" ]; then  # it is installed below /tmp
  mkdir -p "$(dirname "$1")"
  cat <&3 >"$1"
  chmod +x "$1"
fi
echo ready
exec cat
"""


def elsewhere(*prefix: str) -> Any:
    """Return a `spawn` that starts the CLI through another program, and a list of the plans it was given."""
    plans: list[LaunchPlan] = []

    def spawn(plan: LaunchPlan) -> Transport:
        plans.append(plan)
        assert all(path.read_text() == text for path, text in plan.files.items())
        return SubprocessTransport(replace(plan, argv=[*prefix, *plan.argv]))

    return spawn, plans


async def test_options_reach_a_cli_that_another_program_starts() -> None:
    spawn, plans = elsewhere("env", "ADDED=yes")
    async with ScriptedModel([tool_use("Bash", {"command": "echo $ADDED $GIVEN"}), "done"]) as model:
        options = model.options(
            spawn=spawn,
            env={"GIVEN": "too"},
            tools=["Bash"],
            settings={"outputStyle": "Explanatory"},
            system_prompt="You are elsewhere.",
            max_turns=3,
        )
        async with Client(options) as client:
            result = await client.query("hi")
            settings = await client.settings.get()
    assert "yes too" in str(model.requests[-1].tool_results)
    offered = {tool["name"] for tool in model.requests[0].tools}
    assert "Bash" in offered
    assert "Read" not in offered
    assert settings.effective["outputStyle"] == "Explanatory"
    assert "You are elsewhere." in model.requests[0].system
    assert result.text == "done"
    [plan] = plans
    assert "--max-turns=3" in plan.argv
    assert not plan.env  # its secrets are forgotten once the CLI has them
    assert not any(path.exists() for path in plan.files)


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A running stand-in for a container, in which `/tmp` is another one; `docker` on PATH reaches it."""
    if sys.platform != "linux" or UNSHARE is None or shutil.which("nsenter") is None:
        pytest.skip("needs unshare and nsenter")
    inside = subprocess.Popen(
        [UNSHARE, "--mount", "--propagation", "private", "sh", "-ec", CONTAINER, "container", find_cli()],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert inside.stdout is not None
    assert inside.stdin is not None
    try:
        if not inside.stdout.readline():
            pytest.skip("this user may not make a mount namespace")
        docker = tmp_path / "bin/docker"
        docker.parent.mkdir()
        docker.write_text(DOCKER)
        docker.chmod(docker.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{docker.parent}{os.pathsep}{os.environ['PATH']}")
        yield str(inside.pid)
    finally:
        inside.stdin.close()
        inside.wait(60)
        inside.stdout.close()


@pytest.mark.long
async def test_the_example_runs_in_a_container(container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    transport = importlib.import_module("elsewhere").DockerExec
    seen = "pwd; ls /tmp/work/..; echo $HOME"
    async with ScriptedModel([tool_use("Bash", {"command": seen}), "done"]) as model:
        env = {**model.environment(), "HOME": "/tmp/home", "CLAUDE_CONFIG_DIR": "/tmp/home/.claude"}
        env = {name: value for name, value in env.items() if not name.endswith(("TMPDIR", "TMP", "TEMP", "PATH"))}
        options = ClientOptions(
            spawn=lambda plan: transport(plan, container),
            cli_path=find_cli(),
            inherit_env=False,
            env=env,
            cwd="/tmp/work",  # there is none here
            permission_mode="bypassPermissions",
            settings={"env": {"FROM_SETTINGS": "1"}},
        )
        async with Client(options) as client:
            result = await client.query("hi")
            settings = await client.settings.get()
    assert result.text == "done"
    said = str(model.requests[-1].tool_results)
    assert "/tmp/work" in said
    assert "/tmp/home" in said
    assert settings.effective["env"]["FROM_SETTINGS"] == "1"
    assert not Path("/tmp/work").exists()
    assert str(model.sandbox.root.name) not in said


@pytest.mark.long
async def test_a_session_from_a_store_continues_in_a_container(
    container: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    transport = importlib.import_module("elsewhere").DockerExec
    script = [tool_use("Bash", {"command": "ls -d /tmp/*"}), "Hello, Ada.", "Ada.", "kept"]
    async with ScriptedModel(script) as model:
        (model.sandbox.config_dir / ".credentials.json").write_text("{}")
        env = {**model.environment(), "HOME": "/tmp/home", "CLAUDE_CONFIG_DIR": str(model.sandbox.config_dir)}
        env = {name: value for name, value in env.items() if not name.endswith(("TMPDIR", "TMP", "TEMP", "PATH"))}
        store, seen, plans = Failing(), list[Path](), list[LaunchPlan]()

        def spawn(plan: LaunchPlan) -> Any:
            plans.append(plan)
            seen.extend(plan.files)
            return transport(plan, container)

        options = ClientOptions(
            spawn=spawn, cli_path=find_cli(), inherit_env=False, env=env, cwd="/tmp/work",
            permission_mode="bypassPermissions", session_store=store,
        )  # fmt: skip
        first = await run("My name is Ada.", options)
        again = await run("What is my name?", options.replace(resume=first.session_id))
        assert again.text == "Ada."
        assert "My name is Ada." in json.dumps(model.requests[-1].body["messages"])
        assert f"{first.session_id}.jsonl" in [path.name for path in seen]
        assert ".credentials.json" not in [path.name for path in seen]  # inherit_env=False: nothing of this machine
        assert list(tmp_path.rglob("*.jsonl")) == []
        errors: list[StoreError] = []
        store.fails = True
        last = await run("And this?", options.replace(on_store_error=errors.append))
        store.fails = False
        assert len(plans) == 3  # each session spawns anew
        [key] = [error.key for error in errors if error.kept_in]
        assert await push(store, last.session_id, config_dir=errors[-1].kept_in, project_key=key["project_key"])
        told = [str(entry.get("message")) for entry in store.entries(key)]
        assert any("And this?" in text for text in told)
        assert any("kept" in text for text in told)


class Failing(MemoryStore):
    """A store that can be made to fail."""

    fails = False

    async def append(self, key: Any, entries: Any, *, epoch: int | None = None) -> None:
        if self.fails:
            raise OSError("no route to the store")
        await super().append(key, entries, epoch=epoch)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"permission_mode": "plan"}, "permission_mode"),
        ({"tools": ["Read"]}, "tools"),
        ({"max_subagent_depth": 1}, "max_subagent_depth"),
        ({"settings": {"env": {"A": "1"}}}, "settings"),
        ({"can_use_tool": lambda request, context: None}, "can_use_tool"),
        ({"env": {"A": "1"}}, "env"),
        ({"home": True}, "home"),
        ({"spawn": lambda plan: None}, "spawn"),
    ],
)
def test_options_that_a_ready_made_transport_cannot_honour_are_refused(options: dict[str, Any], named: str) -> None:
    transport = SubprocessTransport(LaunchPlan(["claude"], {}))
    with pytest.raises(OptionsError, match="use the option spawn instead") as caught:
        Client(ClientOptions(**options), transport=transport)
    assert caught.value.option == named


@pytest.mark.long
async def test_options_that_need_no_flag_work_over_any_transport() -> None:
    class Own(SubprocessTransport):
        pass

    async with ScriptedModel(["done"]) as model:
        argv = [str(find_cli()), "--output-format=stream-json", "--verbose", "--input-format=stream-json"]
        env = {**model.environment(), "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}
        transport = Own(LaunchPlan(argv, env, model.sandbox.cwd))
        async with Client(ClientOptions(system_prompt="You are mine."), transport=transport) as client:
            await client.query("hi")
    assert "You are mine." in model.requests[0].system


async def test_a_stand_in_may_have_any_options() -> None:
    async with Client(ClientOptions(model="opus"), transport=FakeCLI(steps.turn("hi")).transport()) as client:
        assert (await client.query("hi")).text == "hi"


async def test_a_spawn_that_fails_leaves_no_files() -> None:
    plans: list[LaunchPlan] = []

    def fail(plan: LaunchPlan) -> Transport:
        plans.append(plan)
        raise ZeroDivisionError

    def nothing(plan: LaunchPlan) -> Transport:
        plans.append(plan)
        return None  # type: ignore[return-value]

    options = ClientOptions(settings={"a": 1})
    with pytest.raises(ZeroDivisionError):
        await Client(options.replace(spawn=fail)).connect()
    with pytest.raises(OptionsError, match="spawn: a Transport is expected, not None"):
        await Client(options.replace(spawn=nothing)).connect()
    assert [path.exists() for plan in plans for path in plan.files] == [False, False]

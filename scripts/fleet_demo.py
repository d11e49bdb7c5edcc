"""Three workers, twelve sessions, a worker killed: all twelve finish. See `make fleet-demo`.

    python scripts/fleet_demo.py [--rounds N] [--sessions N] [--workers N] [--seed N] [--stop]

With FLEET_URL=temporal://... the fleet is there, in a namespace that no fleet has used, else in an SQLite file. In
every round one worker is killed with SIGKILL at a random moment, and in every fifth round, or with --stop in each,
another is stopped past its lease and woken. The real CLI runs, against a scripted model.
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
from pathlib import Path
from typing import Any

import anyio

from claude_agent_py import ClientOptions
from claude_agent_py.errors import FleetError
from claude_agent_py.fleet import Fleet, FleetSession
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import Reply, ScriptedModel

LEASE = 3.0
PATIENCE = 180.0


def make_fleet(given: dict[str, Any]) -> Fleet:
    fleet = Fleet(given["url"], store=SQLiteStore(given["store"]), lease=LEASE, poll=0.2)
    fleet.agent("demo", ClientOptions(inherit_env=False, env=given["env"], permission_mode="bypassPermissions"))
    return fleet


async def work(given: dict[str, Any]) -> None:
    fleet = make_fleet(given)
    async with fleet.worker(sessions=2, folder=given["folder"]):
        await fleet.drain_forever()


def start_worker(given: dict[str, Any]) -> "subprocess.Popen[bytes]":
    log = open(f"{given['folder']}/worker-{time.time_ns()}.log", "wb")  # noqa: SIM115
    with log:
        return subprocess.Popen([sys.executable, __file__, "--worker", json.dumps(given)], stderr=log)


async def check(fleet: Fleet, session: FleetSession, text: str) -> tuple[str | None, float | None]:
    """Check that a session ended exactly once with its own answer. Returns what is wrong, and when it was adopted."""
    try:
        result = await session.result(timeout=PATIENCE)
    except FleetError as error:
        return f"{error}; {await session.info()}", None
    events = [event async for event in session.events()]
    info = await session.info()
    stored = await fleet.store.load({"project_key": "fleet", "session_id": info.cli_session_id}) or []
    answers = [entry for entry in stored if entry["type"] == "assistant" and text in json.dumps(entry)]
    ends = [event for event in events if event.kind == "run" and event.data["state"] in ("done", "failed")]
    wrong = None
    if not result.text.endswith(text) or len(answers) != 1 or len(ends) != 1:
        wrong = f"{session.id}: {result.text!r}, {len(answers)} answers stored, {len(ends)} ends"
    elif [event.number for event in events] != list(range(1, len(events) + 1)):
        wrong = f"{session.id}: its events have gaps"
    begun = [event.at for event in events if event.kind in ("state", "run") and event.data["state"] == "running"]
    return wrong, begun[-1] if result.crashes else None


async def one_round(
    number: int, given: dict[str, Any], arguments: argparse.Namespace, chance: random.Random
) -> list[str]:
    fleet = make_fleet(given)
    workers = [start_worker(given) for _ in range(arguments.workers)]
    sleeper: subprocess.Popen[bytes] | None = None
    try:
        begun_at = time.time()
        texts = [f"task-{number}-{i}" for i in range(arguments.sessions)]
        sessions = [await fleet.start("demo", text, id=text) for text in texts]
        while not await fleet.list(state="running", limit=1):  # noqa: ASYNC110 - another process changes it
            await anyio.sleep(0.1)
        await anyio.sleep(chance.uniform(0.0, 4.0))
        if arguments.stop or number % 5 == 4:
            sleeper = workers[1]
            os.kill(sleeper.pid, signal.SIGSTOP)
        victim = workers[0]
        victim.kill()
        victim.wait()
        killed_at = time.time()
        print(f"round {number}: killed worker {victim.pid}{' and stopped another' if sleeper else ''}", flush=True)
        workers.append(start_worker(given))
        if sleeper is not None:
            await anyio.sleep(LEASE * 2)
            os.kill(sleeper.pid, signal.SIGCONT)
        checked = [await check(fleet, session, text) for session, text in zip(sessions, texts, strict=True)]
        moved = [at - killed_at for _, at in checked if at is not None and at > killed_at]
        print(f"  {len(sessions)} sessions ended in {time.time() - begun_at:.0f} s", end="")
        after = f", {min(moved):.1f} to {max(moved):.1f} s after the kill" if moved else ""
        print(f"; {len(moved)} went on elsewhere{after}", flush=True)
        return [wrong for wrong, _ in checked if wrong is not None]
    finally:
        for process in workers[1:]:
            process.terminate()  # without a handler, so that the next round starts clean; its CLIs end with it
            process.wait()
        fleet.close()


async def main(arguments: argparse.Namespace) -> int:
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name, ScriptedModel(answer) as model:
        url = os.environ.get("FLEET_URL") or f"sqlite:///{name}/fleet.db"
        given = {"url": url, "store": f"{name}/store.db", "folder": name, "env": dict(model.environment())}
        wrong: list[str] = []
        for number in range(arguments.rounds):
            wrong += await one_round(
                int(time.time()) + number if arguments.rounds == 1 else number, given, arguments, chance
            )
        left = processes_of(model)
        if wrong:
            print("\n".join(path.read_text() for path in sorted(Path(name).glob("worker-*.log"))))  # noqa: ASYNC240
        print("\n".join([*wrong, *(f"process {pid} is left" for pid in left)]) or "none lost, none doubled, none left")
    return 1 if wrong or left else 0


def answer(request: Any) -> Reply:
    asked = re.findall(r"task-\d+-\d+", json.dumps(request.messages))
    return Reply(f"the answer to {asked[0]}", delay=0.5)


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
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=12)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--stop", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        anyio.run(work, json.loads(arguments.worker))
    else:
        sys.exit(anyio.run(main, arguments))

"""The command `fleet`: run a worker, and look at sessions and steer them, from a shell. `--json` prints JSON lines."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskStatus

from claude_agent_py._errors import FleetError, FleetRunError, OptionsError
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.permissions.typed_answers import HELP, read_typed

if TYPE_CHECKING:
    from claude_agent_py.fleet import Fleet, FleetSession, Worker

VARIABLE: Final = "CLAUDE_AGENT_FLEET"
"""The environment variable that names the database if `--url` does not."""
SHOWN_CHARS: Final = 100

Arguments = argparse.Namespace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    commands = parser.add_subparsers(required=True, metavar="action")
    for name, (help_text, add, run) in ACTIONS.items():
        action = commands.add_parser(name, help=help_text, description=help_text)
        if name != "worker":
            action.add_argument("--url", default=os.environ.get(VARIABLE), help=f"the database (default: {VARIABLE})")
        action.add_argument("--json", action="store_true", help="print JSON")
        add(action)
        action.set_defaults(action=run)


def execute(arguments: Arguments) -> int:
    """Run a subcommand and return the exit code."""
    return anyio.run(_execute, arguments)


async def _execute(arguments: Arguments) -> int:
    async with _loaded(arguments.fleet) if "fleet" in arguments else _opened(arguments.url) as fleet:
        code: int = await arguments.action(fleet, arguments)
        return code


def _loaded(target: str) -> Fleet:
    from claude_agent_py.fleet import Fleet

    module, _, name = target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name or "fleet")
    except (ImportError, AttributeError) as error:
        raise OptionsError(f"{target} cannot be loaded: {error}", option="fleet") from error
    if not isinstance(found, Fleet):
        raise OptionsError(f"{target} is not a Fleet", option="fleet")
    return found


def _opened(url: str | None) -> Fleet:
    from claude_agent_py.fleet import Fleet

    if url is None:
        raise OptionsError(f"pass --url or set {VARIABLE}")
    return Fleet(url, create=False)  # a mistyped URL is told


def _tell(arguments: Arguments, told: Mapping[str, Any], line: str) -> None:
    print(json.dumps(told) if arguments.json else displayable(line, len(line)), flush=True)


def _given(arguments: Arguments, *names: str) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in names}


# worker ---------------------------------------------------------------------------------------------------------------


def _worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("fleet", metavar="MODULE:NAME", help="where the Fleet is, with its agents: `agents:fleet`")
    parser.add_argument("--sessions", type=int, default=16, help="how many sessions run at once (default: 16)")
    parser.add_argument("--memory", help="how much memory they may use, such as 8GiB (default: any)")
    parser.add_argument("--machine", help="the name of this machine (default: the host name)")
    parser.add_argument("--folder", help="where workspaces are (default: in the folder for temporary files)")
    parser.add_argument(
        "--grace",
        type=float,
        metavar="SECONDS",
        help="after SIGTERM, give back what still runs after so long (default: wait until it is over)",
    )


async def _worker(fleet: Fleet, arguments: Arguments) -> int:
    worker = fleet.worker(**_given(arguments, "sessions", "memory", "machine", "folder"))
    told = {"worker": worker.id, "machine": worker.machine, "pid": os.getpid()}
    async with worker, anyio.create_task_group() as group:
        await group.start(_obey_signals, worker, arguments.grace, group.cancel_scope)
        line = f"worker {worker.id} runs; SIGTERM drains it, a second one gives its sessions back"
        _tell(arguments, {**told, "state": "runs"}, line)
        await fleet.drain_forever()
        group.cancel_scope.cancel()
    _tell(arguments, {**told, "state": "ended"}, f"worker {worker.id} has ended")
    return 0


async def _obey_signals(
    worker: Worker,
    grace: float | None,
    scope: anyio.CancelScope,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Drain the worker at the first SIGTERM or SIGINT; give back what runs at a second one, or after the grace."""
    if sys.platform == "win32":
        task_status.started()
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async with anyio.create_task_group() as group:
            was_asked = False
            async for _ in signals:
                if was_asked:
                    scope.cancel()
                was_asked = True
                group.start_soon(_drain_within, worker, grace, scope)


async def _drain_within(worker: Worker, grace: float | None, scope: anyio.CancelScope) -> None:
    with anyio.move_on_after(grace):
        await worker.drain()
        return
    scope.cancel()


# The others -----------------------------------------------------------------------------------------------------------


def _start_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", help="an agent that a worker has registered")
    parser.add_argument("prompt")
    parser.add_argument("--id", help="the id; a session that has it already is not started again")
    parser.add_argument("--tenant", default="", help="whose it is, for limits and shares")
    parser.add_argument("--priority", type=int, default=0, help="sessions of a higher one go first (default: 0)")
    parser.add_argument("--version", help="of the agent (default: the one that was registered last)")
    parser.add_argument("--timeout", type=float, help="seconds within which the prompt has to be answered")
    parser.add_argument("--wait", action="store_true", help="wait for the result")


async def _start(fleet: Fleet, arguments: Arguments) -> int:
    given = _given(arguments, "id", "tenant", "priority", "version", "timeout")
    session = await fleet.start(arguments.agent, arguments.prompt, **given)
    if arguments.wait:
        return await _wait(arguments, session, 1)
    _tell(arguments, (await session.info()).to_dict(), session.id)
    return 0


async def _wait(arguments: Arguments, session: FleetSession, run: int) -> int:
    try:
        outcome = await session.result(run)
    except FleetRunError as error:
        if not arguments.json:
            raise
        _tell(arguments, error.outcome.to_dict(), "")
        return 1
    _tell(arguments, outcome.to_dict(), outcome.text)
    return 0


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    states = ["queued", "running", "waiting", "idle", "failed", "cancelled"]
    parser.add_argument("--state", choices=states, help="only sessions in this state")
    parser.add_argument("--agent", help="only sessions of this agent")
    parser.add_argument("--tenant", help="only sessions of this tenant")
    parser.add_argument("--limit", type=int, default=100, help="how many at most (default: 100)")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--workers", action="store_true", help="list the workers instead")
    instead.add_argument("--tenants", action="store_true", help="list the tenants instead")


async def _list(fleet: Fleet, arguments: Arguments) -> int:
    if arguments.workers:
        for worker in await fleet.workers():
            busy = f"{worker.running} of {worker.slots} sessions{', draining' if worker.is_draining else ''}"
            _tell(arguments, worker.to_dict(), f"{worker.id}  {busy}")
        return 0
    if arguments.tenants:
        for tenant in await fleet.tenants():
            limit = "no limit of its own" if tenant.limit is None else f"limit {tenant.limit}"
            counts = "".join(f", {number} {state}" for state, number in sorted(tenant.sessions.items()))
            _tell(arguments, tenant.to_dict(), f"{tenant.name or '-'}  {limit}, weight {tenant.weight:g}{counts}")
        return 0
    for info in await fleet.list(**_given(arguments, "state", "agent", "tenant", "limit")):
        where = f" on {info.worker}" if info.worker else ""
        why = f": {info.reason}" if info.reason else ""
        _tell(arguments, info.to_dict(), f"{info.id}  {info.agent}  {info.state}{where}{why}")
    return 0


def _session_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="its id")


async def _show(fleet: Fleet, arguments: Arguments) -> int:
    session = fleet.session(arguments.session)
    info, questions = await session.info(), await session.interactions()
    runs = [await session.outcome(number) for number in range(1, info.runs + 1)]
    if arguments.json:
        asked = [question.to_dict() for question in questions]
        print(json.dumps({**info.to_dict(), "outcomes": [run.to_dict() for run in runs], "interactions": asked}))
        return 0
    why = f": {info.reason}" if info.reason else ""
    _tell(arguments, {}, f"{info.id}: {info.agent} {info.version}, {info.events} events, {info.state}{why}")
    for run in runs:
        _tell(arguments, {}, f"  {run.run}. {run.state}: {run.reason or run.text}".removesuffix(": "))
    for question in questions:
        _tell(arguments, {}, f"  {question.id} asks: {question.summary} ({HELP[question.kind]})")
    return 0


def _send_arguments(parser: argparse.ArgumentParser) -> None:
    _session_argument(parser)
    parser.add_argument("prompt")
    parser.add_argument("--key", help="a prompt with a key that the session has is not sent again")
    parser.add_argument("--timeout", type=float, help="seconds within which it has to be answered")
    parser.add_argument("--wait", action="store_true", help="wait for the result")


async def _send(fleet: Fleet, arguments: Arguments) -> int:
    session = fleet.session(arguments.session)
    number = await session.send(arguments.prompt, timeout=arguments.timeout, key=arguments.key)
    if arguments.wait:
        return await _wait(arguments, session, number)
    _tell(arguments, {"session_id": session.id, "run": number}, str(number))
    return 0


def _answer_arguments(parser: argparse.ArgumentParser) -> None:
    _session_argument(parser)
    parser.add_argument("interaction", help="the id that `show` prints")
    parser.add_argument("--by", default="", help="who answers, for records (default: the user)")
    parser.add_argument("words", nargs="+", help="the answer: allow, deny [why], a number, ...")


async def _answer(fleet: Fleet, arguments: Arguments) -> int:
    session = fleet.session(arguments.session)
    found = next((one for one in await session.interactions() if one.id == arguments.interaction), None)
    try:
        value = None if found is None else read_typed(found, arguments.words)
        was_first = await session.answer(arguments.interaction, value, by=arguments.by)
    except ValueError as error:
        raise OptionsError(str(error)) from None
    told = "answered" if was_first else "too late: already answered or withdrawn"
    _tell(arguments, {"id": arguments.interaction, "answered": was_first}, told)
    return 0 if was_first else 1


def _cancel_arguments(parser: argparse.ArgumentParser) -> None:
    _session_argument(parser)
    parser.add_argument("--reason", default="cancelled", help="why, for records")
    parser.add_argument("--interrupt", action="store_true", help="interrupt the prompt at hand only")


async def _cancel(fleet: Fleet, arguments: Arguments) -> int:
    session = fleet.session(arguments.session)
    done = await (session.interrupt() if arguments.interrupt else session.cancel(arguments.reason))
    _tell(arguments, {"session_id": session.id, "done": done}, "done" if done else "nothing to do")
    return 0 if done else 1


def _events_arguments(parser: argparse.ArgumentParser) -> None:
    _session_argument(parser)
    parser.add_argument("--after", type=int, default=0, metavar="NUMBER", help="only those after this one")
    parser.add_argument("--follow", action="store_true", help="wait for more")


async def _events(fleet: Fleet, arguments: Arguments) -> int:
    session = fleet.session(arguments.session)
    async for event in session.events(after=arguments.after, follow=arguments.follow):
        text = json.dumps(event.data)
        shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
        _tell(arguments, event.to_dict(), f"{event.number}  {event.kind}  {shown}")
    return 0


def _drain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("worker", nargs="?", help="the worker (default: all)")


async def _drain(fleet: Fleet, arguments: Arguments) -> int:
    count = await fleet.drain_workers(arguments.worker)
    if arguments.worker is not None and not count:
        raise FleetError(f"the fleet has no worker {arguments.worker!r}")
    _tell(arguments, {"workers": count}, f"workers that finish what they run, and end: {count}")
    return 0


def _prune_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older-than",
        type=_duration,
        required=True,
        metavar="TIME",
        help="what did not change for so long: 30d, 12h, 90m, or seconds",
    )


def _duration(text: str) -> float:
    """Return a time such as 30d in seconds."""
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    try:
        return float(text) if unit is None else float(text[:-1]) * unit
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30d, 12h, 90m or 45") from None


async def _prune(fleet: Fleet, arguments: Arguments) -> int:
    count = await fleet.prune(arguments.older_than)
    _tell(arguments, {"sessions": count}, f"sessions that were deleted: {count}")
    return 0


def _tenant_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tenant", help="as sessions were started with it")
    parser.add_argument(
        "--limit", type=int, help="how many of its sessions may run at once (default: as the workers say)"
    )
    parser.add_argument("--weight", type=float, default=1.0, help="its share among tenants that wait (default: 1)")


async def _tenant(fleet: Fleet, arguments: Arguments) -> int:
    await fleet.tenant(arguments.tenant, limit=arguments.limit, weight=arguments.weight)
    told = {"name": arguments.tenant, "limit": arguments.limit, "weight": arguments.weight}
    _tell(arguments, told, "done")
    return 0


def _unschedule_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("schedule", help="its name")


async def _unschedule(fleet: Fleet, arguments: Arguments) -> int:
    was_there = await fleet.unschedule(arguments.schedule)
    told = {"schedule": arguments.schedule, "done": was_there}
    _tell(arguments, told, "done" if was_there else "there is no such schedule")
    return 0 if was_there else 1


async def _retry(fleet: Fleet, arguments: Arguments) -> int:
    number = await fleet.session(arguments.session).retry()
    _tell(arguments, {"session_id": arguments.session, "run": number}, str(number))
    return 0


Action = tuple[str, Callable[[argparse.ArgumentParser], None], Callable[["Fleet", Arguments], Awaitable[int]]]
ACTIONS: Final[Mapping[str, Action]] = {
    "worker": ("Run sessions on this machine.", _worker_arguments, _worker),
    "start": ("Start a session.", _start_arguments, _start),
    "list": ("List sessions, newest first, or the workers, or the tenants.", _list_arguments, _list),
    "show": ("Show a session: its results and questions.", _session_argument, _show),
    "send": ("Send a prompt to a session.", _send_arguments, _send),
    "answer": ("Answer a question of a session.", _answer_arguments, _answer),
    "cancel": ("Cancel a session, or interrupt it.", _cancel_arguments, _cancel),
    "retry": ("Send the prompt of a failed session again.", _session_argument, _retry),
    "events": ("Print the events of a session.", _events_arguments, _events),
    "tenant": ("Set what a tenant may have, from now on.", _tenant_arguments, _tenant),
    "prune": ("Delete sessions that are idle, failed or cancelled.", _prune_arguments, _prune),
    "unschedule": ("Delete a schedule.", _unschedule_arguments, _unschedule),
    "drain": ("Let a worker, or all, finish what they run, and end.", _drain_arguments, _drain),
}

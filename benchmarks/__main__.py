"""`python -m benchmarks <what> [options]`: see README.md."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import callbacks, connecting, engine_throughput, imports, messages, sessions, task_ledger
from benchmarks.conversations import KINDS
from benchmarks.measuring import OFFICIAL, describe_machine, has_official
from benchmarks.messages import PACE
from claude_agent_py.launch.locate import find_cli

BENCHMARKS: dict[str, Callable[[argparse.Namespace], None]] = {
    "imports": lambda given: imports.run(given.rounds or 15),
    "connect": lambda given: connecting.run(given.rounds or 15, given.cli or find_cli()),
    "instant": lambda given: connecting.run_instantly(given.rounds or 15),
    "messages": lambda given: messages.run(some(KINDS, given), given.messages or 20_000, given.rounds or 5),
    "busy": lambda given: messages.run(some(KINDS, given), given.messages or 20_000, given.rounds or 3, is_busy=True),
    "paced": lambda given: messages.run(some(KINDS, given), given.messages or 3_000, given.rounds or 3, pause=PACE),
    "memory": lambda given: messages.run_memory(some(KINDS, given), given.messages or 20_000, given.rounds or 3),
    "unread": lambda given: messages.run_memory(
        some(KINDS, given), given.messages or 20_000, given.rounds or 3, is_late=True
    ),
    "callbacks": lambda given: callbacks.run(some(callbacks.KINDS, given), given.asks, given.rounds or 5),
    "sessions": lambda given: sessions.run(given.sessions, given.messages or 1_000, given.rounds or 3),
    "engine": lambda given: engine_throughput.run(given.messages or 20_000),
    "tasks": lambda given: task_ledger.main(given.tasks, 20),
}


def some(kinds: Iterable[str], given: argparse.Namespace) -> list[str]:
    """Return the kinds to measure: those that `--kinds` names, or all where it names none of these."""
    return [kind for kind in kinds if kind in given.kinds] or list(kinds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, beside the official SDK.")
    parser.add_argument("what", nargs="*", metavar="what", help=f"{', '.join(BENCHMARKS)}; all where none is named")
    parser.add_argument("--rounds", type=int, help="how often to measure each; the median counts")
    parser.add_argument("--messages", type=int, help="how many messages a conversation has")
    parser.add_argument("--kinds", nargs="*", default=[], help=f"which messages ({', '.join(KINDS)}), which callbacks")
    parser.add_argument("--asks", type=int, default=1_000, help="how often a callback is asked for")
    parser.add_argument("--sessions", type=int, nargs="*", default=[50, 200], help="how many sessions there are at once")
    parser.add_argument("--tasks", type=int, default=10_000, help="how many tasks the ledger tracks")
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

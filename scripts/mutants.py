"""Change the code of a room in small ways, one at a time, and see whether its tests fail: mutation testing, by mutmut.

python scripts/mutants.py [GROUP...] [--sample 200] [--seed N] [--least 85]

Each group of `GROUPS` is some modules and the tests of their behaviour. All of its mutants take an hour or more, so a
random sample is tried; `--sample 0` tries all. Prints the mutants that survived, and exits with 1 if fewer than
`--least` percent were killed. It works on a copy of the project.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

PROJECT: Final = Path(__file__).parent.parent
TEXT: Final = (r"logger\.\w+", r"\braise \w+", "problem = ")
"""Lines of code that are not changed: what logs and errors say."""
SURVIVED: Final = frozenset({0, 33})
"""What mutmut notes for a mutant with which the tests passed, and for one that no test runs."""
WITHOUT_SERVERS: Final = "not postgres and not redis and not s3"
"""Tests that start no server, which each mutant would start again."""

LEFT_OUT: Final = (
    "tests/permissions/test_permission_handlers.py::test_questions_to_a_person_show_that_a_person_is_waited_for",
    "tests/permissions/test_permission_policies.py::test_a_name_that_matches_nothing_warns",
    "tests/observe/test_one_story.py::test_a_session_that_everything_watches_is_folded_once",
    "tests/bad_peers/test_unreadable_requests.py::test_a_hook_answers_as_it_does_when_it_fails",
    "tests/test_guards.py::test_a_failure_names_the_policy",
    "tests/test_guards.py::test_a_guard_on_another_event_is_an_error",
)
"""Tests of the names and the callers of functions, which mutmut calls by functions of its own."""


class Group(NamedTuple):
    """Modules, by their patterns in the package, and the tests of what they do."""

    modules: Sequence[str]
    tests: Sequence[str]


GROUPS: Final = {
    "engine": Group(
        [
            f"_journal/{name}.py"
            for name in ("engine", "state", "skimming", "router", "routes", "open_runs", "task_owners")
        ],
        ["tests/protocol"],
    ),
    "fold": Group(
        [
            f"_journal/{name}.py"
            for name in ("fold", "turns", "call_facts", "open_requests", "task_facts", "tool_calls")
        ],
        [
            "tests/protocol/test_turns.py",
            "tests/tools/test_traffic.py",
            *(f"tests/observe/test_{name}.py" for name in ("fold", "journal", "one_story")),
        ],
    ),
    "tasks": Group(
        ["_journal/tasks/*"],
        [
            *("tests/tasks", "tests/history", "tests/sessions/test_finished_sessions.py"),
            *("tests/observe/test_fold.py", "tests/observe/test_journal.py", "tests/protocol/test_turns.py"),
        ],
    ),
    "permissions": Group(
        ["permissions/*"],
        [
            "tests/permissions",
            "tests/test_guards.py",
            "tests/bad_peers/test_bad_handlers.py",
            "tests/bad_peers/test_unreadable_requests.py",
            "tests/cli/test_chat_conversation.py",
            "tests/cli/test_inbox_command.py",
        ],
    ),
    "stores": Group(
        [f"sessions/stores/{name}.py" for name in ("access", "copies", "directory", "memory", "mirror", "listing")],
        ["tests/sessions"],
    ),
    "leases": Group(
        [f"sessions/stores/{name}.py" for name in ("base", "protocol", "sql", "sqlite")],
        ["tests/sessions"],
    ),
}


def copy_project(group: Group, folder: Path) -> None:
    """Copy the project to a folder, and configure mutmut there."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if (PROJECT / name).is_file()]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, folder / name)
    configuration = {
        "source_paths": ["claude_agent_py"],
        "only_mutate": [f"claude_agent_py/{pattern}" for pattern in group.modules],
        "do_not_mutate_patterns": TEXT,
        "also_copy": sorted({name.split("/")[0] for name in names} - {"claude_agent_py", "tests"}),
        "pytest_add_cli_args": [
            *("-m", "not real_cli and not long", "-k", WITHOUT_SERVERS),
            *("-p", "no:cacheprovider", "-p", "no:xdist", "-x"),
            *(f"--deselect={test}" for test in LEFT_OUT),
        ],
        "pytest_add_cli_args_test_selection": group.tests,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in configuration.items()]
    with (folder / "pyproject.toml").open("a") as file:
        file.write("\n[tool.mutmut]\n" + "\n".join(lines) + "\n")


def mutmut(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run mutmut in the copy."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def make_mutants(folder: Path) -> list[str]:
    """Make the mutants, find the tests of each, and return their names."""
    made = mutmut(folder, "run", "none")  # then it finds no mutant of this name, and ends
    names = sorted(read_codes(folder))
    if "nothing matches" not in made.stdout or not names:
        sys.exit(f"mutmut made no mutants:\n{made.stdout[-3000:]}")
    return names


def read_codes(folder: Path) -> dict[str, int | None]:
    """Return what mutmut noted for each mutant; None for those that it has not tried."""
    codes: dict[str, int | None] = {}
    for path in sorted((folder / "mutants").rglob("*.meta")):
        codes |= json.loads(path.read_text())["exit_code_by_key"]
    return codes


def list_changes(folder: Path, name: str) -> Iterator[str]:
    """Yield the changed lines of a mutant."""
    for line in mutmut(folder, "show", name).stdout.splitlines():
        if line.startswith(("-", "+")) and not line.startswith(("---", "+++")):
            yield line


def try_group(name: str, sample: int, seed: int, processes: int) -> float:
    """Try mutants of a group, print those that survive, and return the share of those that are killed, in percent."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as path:
        folder = Path(path)
        copy_project(GROUPS[name], folder)
        names = make_mutants(folder)
        chosen = random.Random(seed).sample(names, min(sample, len(names))) if sample else names
        tried = mutmut(folder, "run", "--max-children", str(processes), *chosen)
        codes = read_codes(folder)
        if tried.returncode or any(codes[mutant] is None for mutant in chosen):
            sys.exit(f"mutmut did not try the mutants:\n{tried.stdout[-3000:]}")
        survivors = sorted(mutant for mutant in chosen if codes[mutant] in SURVIVED)
        killed = 100 * (1 - len(survivors) / len(chosen))
        for mutant in survivors:
            print(f"{mutant}", *list_changes(folder, mutant), sep="\n    ", flush=True)
        print(f"{name}: {killed:.1f} % of {len(chosen)} of {len(names)} mutants killed (seed {seed})", flush=True)
        return killed


def main() -> int:
    """Try the groups, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--sample", type=int, default=200, help="how many mutants of each group; 0: all")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="chooses the sample")
    parser.add_argument("--least", type=float, default=85.0, help="the least percentage to be killed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    shares = [try_group(name, given.sample, given.seed, given.processes) for name in given.groups or GROUPS]
    return int(min(shares) < given.least)


if __name__ == "__main__":
    sys.exit(main())

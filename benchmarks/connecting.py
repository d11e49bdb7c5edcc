"""The time to connect, beyond starting the CLI directly with the same command line, environment and first request.

The baseline starts the process, writes `initialize` and reads its reply. Warm is a process that has connected before,
cold the first connection of a fresh one, and `from nothing` includes the start of the interpreter and the import.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio

from benchmarks import replaying_cli
from benchmarks.measuring import in_turns, over, ratio, show, stand_in, worker
from benchmarks.starting import CONNECT, Span
from claude_agent_py.options.planner import plan_launch
from claude_agent_py.testing import ScriptedModel

BY_HAND: Final = "by hand"


def by_hand(argv: list[str], env: dict[str, str], cwd: str) -> float:
    """Start a CLI with the standard library only and return the seconds until the first reply."""
    ask = {"type": "control_request", "request_id": "req_1", "request": {"subtype": "initialize"}}
    pipe = subprocess.PIPE
    begin = time.monotonic()
    process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(ask).encode() + b"\n")
    process.stdin.flush()
    for line in process.stdout:
        if json.loads(line)["type"] == "control_response":
            break
    took = time.monotonic() - begin
    process.communicate()  # closes its input, which ends the CLI, as the SDKs do
    return took


def warm(sdk: str, arguments: list[Any]) -> float:
    """Connect in this process."""
    span = anyio.run(CONNECT[sdk], *arguments)
    return span.end - span.begin


def cold(sdk: str, arguments: list[Any], spans: dict[str, Span]) -> float:
    """Connect in a fresh process and return the seconds since its start; store the span of `connect()`."""
    started = time.monotonic()
    spans[sdk] = span = Span(*worker("starting", sdk, json.dumps(arguments)))
    return span.end - started


def after_import(sdk: str, spans: dict[str, Span]) -> float:
    """Return the duration of `connect()` in the process of `cold`, in seconds."""
    return spans[sdk].end - spans[sdk].begin


@contextmanager
def surroundings(cli: Path) -> Iterator[tuple[list[str], dict[str, str], str]]:
    """Yield the command line of this library, a clean environment with a scripted model, and a directory."""
    with ScriptedModel() as model:
        options = model.options(cli_path=cli)
        plan = plan_launch(options, cli=cli)
        yield list(plan.argv), dict(plan.env), str(options.cwd)


def run_instantly(sdks: Sequence[str], rounds: int) -> None:
    """Measure with a program that answers as soon as its interpreter has started, so that little work can be hidden."""
    with stand_in(Path(replaying_cli.__file__)) as folder:
        run(sdks, rounds, folder / "cli")


def run(sdks: Sequence[str], rounds: int, cli: Path) -> None:
    """Measure and print."""
    spans: dict[str, Span] = {}
    with surroundings(cli) as (argv, env, cwd):
        arguments = [str(cli), env, cwd]
        measurements: dict[str, Callable[[], float]] = {BY_HAND: partial(by_hand, argv, env, cwd)}
        for sdk in sdks:
            measurements[f"{sdk}, warm"] = partial(warm, sdk, arguments)
            measurements[f"{sdk}, from nothing"] = partial(cold, sdk, arguments, spans)
            measurements[f"{sdk}, cold"] = partial(after_import, sdk, spans)
        samples = in_turns(measurements, rounds)
    rows = list(_rows(samples))
    show(f"Connect to {cli} ({rounds} rounds)", ("what", "ms", "fastest", "over by hand", "ratio to it"), rows)


def _rows(samples: dict[str, list[float]]) -> Iterator[tuple[object, ...]]:
    more, hand = over(samples, BY_HAND), median(samples[BY_HAND])
    for name, values in samples.items():
        took = median(values)
        yield name, took * 1000, min(values) * 1000, more.get(name, 0.0) * 1000, ratio(took, hand)

"""Helpers for the benchmarks: fresh interpreters, interleaved rounds, medians and a table.

The SDKs take turns within a round, so that a slow phase of the machine affects them all, and the median counts.
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias, TypeVar

OURS: Final = "claude_agent_py"
OFFICIAL: Final = "claude_agent_sdk"
FLOOR: Final = "bare asyncio"
"""No SDK: the host in `bare.py`."""
ROOT: Final = Path(__file__).parent.parent

Sample = TypeVar("Sample")
Samples: TypeAlias = dict[str, list[float]]


def has_official() -> bool:
    """Whether the official SDK is installed; otherwise its columns are left out."""
    return importlib.util.find_spec(OFFICIAL) is not None


def contestants() -> list[str]:
    """The SDKs to measure."""
    return [OURS, OFFICIAL] if has_official() else [OURS]


def hosts() -> list[str]:
    """The SDKs to measure, and the floor."""
    return [*contestants(), FLOOR]


def in_turns(
    measurements: Mapping[str, Callable[[], Sample]], rounds: int, *, warms_up: bool = True
) -> dict[str, list[Sample]]:
    """Take each measurement once per round. With several rounds, an additional first one warms up files and caches."""
    samples: dict[str, list[Sample]] = {name: [] for name in measurements}
    warm_up = warms_up and rounds > 1
    for number in range(rounds + warm_up):
        for name, measure in measurements.items():
            sample = measure()
            if number >= warm_up:
                samples[name].append(sample)
    return samples


@cache
def _bytecode() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="claude-agent-py-bytecode-")


def environment() -> dict[str, str]:
    """Return an environment in which interpreters cache bytecode, as usual."""
    inherited = dict(os.environ)
    if inherited.pop("PYTHONDONTWRITEBYTECODE", None):
        inherited["PYTHONPYCACHEPREFIX"] = _bytecode().name
    return inherited


def python(*arguments: str, env: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a fresh interpreter."""
    return subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
        env={**environment(), **(env or {})},
    )


def worker(module: str, *arguments: str, env: Mapping[str, str] | None = None) -> Any:
    """Run a module of this package in a fresh interpreter and return the JSON that it prints."""
    return json.loads(python("-m", f"benchmarks.{module}", *arguments, env=env).stdout)


def host_worker(module: str, *arguments: str, env: Mapping[str, str], is_fresh: bool = True) -> Any:
    """Run a host in a fresh interpreter, or in this process for a profiler, where earlier runs warm up later ones."""
    if is_fresh:
        return worker(module, *arguments, env=env)
    os.environ.update(env)
    return importlib.import_module(f"benchmarks.{module}").work(*arguments)


def over(samples: Samples, base: str) -> dict[str, float]:
    """Return the difference of each to `base`: the median of the differences within a round."""
    return {
        name: median(value - bare for value, bare in zip(values, samples[base], strict=True))
        for name, values in samples.items()
        if name != base
    }


@contextmanager
def stand_in(script: Path) -> Iterator[Path]:
    """Yield a folder with the program `cli`, which runs a script in place of the CLI and passes it the folder.

    `initialize.json` there is the CLI's reply to `initialize`.
    """
    from claude_agent_py.testing import frames  # not at the top: a host of the official SDK imports this module, too

    with tempfile.TemporaryDirectory(prefix="claude-agent-py-bench-") as name:
        folder = Path(name)
        (folder / "initialize.json").write_text(json.dumps(frames.initialize_response()), encoding="utf-8")
        command = [sys.executable, "-I", "-S"] if script.suffix == ".py" else ["sh"]
        cli = folder / "cli"
        cli.write_text(f"#!/bin/sh\nexec {shlex.join([*command, str(script), name])}\n", encoding="utf-8")
        cli.chmod(0o755)
        yield folder


def memory_mib(field: str = "VmRSS") -> float:
    """Return the resident memory of this process, or its peak (`VmHWM`), in MiB; 0 where there is no /proc."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), 0.0)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile of the values."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def ratio(value: float, of: float | None) -> str:
    """Format the ratio of two figures."""
    return f"{value / of:.2f}" if of else "-"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table, with texts aligned left and numbers right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    print(f"\n{title}\n")
    for line in (columns, *cells):
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print("  " + "  ".join([first.strip().ljust(widths[0]), *others]))


def _text(cell: object) -> str:
    return f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def describe_machine() -> str:
    """Print the versions and the machine."""
    versions = [f"Python {platform.python_version()}", *map(_version, (OURS, OFFICIAL, "pydantic", "anyio"))]
    return f"{os.cpu_count()} CPUs, {platform.system()} {platform.machine()}; " + ", ".join(versions)


def _version(module: str) -> str:
    name = module.replace("_", "-")
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {name}"

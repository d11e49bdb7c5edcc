"""What every benchmark needs: fresh interpreters, interleaved rounds, medians and a table.

Owns the rules by which two SDKs are compared: each measurement runs in a process of its own where that matters, the
contestants take turns within a round (so that a slow minute of the machine hits them all), and the median counts.
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

OURS: Final = "claude_agent_py"
OFFICIAL: Final = "claude_agent_sdk"
ROOT: Final = Path(__file__).parent.parent

Samples: TypeAlias = dict[str, list[float]]


def has_official() -> bool:
    """Whether the official SDK is installed: without it its columns are left out."""
    return importlib.util.find_spec(OFFICIAL) is not None


def contestants() -> list[str]:
    """The SDKs to measure."""
    return [OURS, OFFICIAL] if has_official() else [OURS]


def in_turns(measurements: Mapping[str, Callable[[], float]], rounds: int, *, warm_up: bool = True) -> Samples:
    """Take each measurement once a round; the first round may warm up files and caches, and does not count."""
    samples: Samples = {name: [] for name in measurements}
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
    """Give the environment for interpreters that find bytecode from their second start on, as is usual."""
    inherited = dict(os.environ)
    if inherited.pop("PYTHONDONTWRITEBYTECODE", None):
        inherited["PYTHONPYCACHEPREFIX"] = _bytecode().name
    return inherited


def python(*arguments: str, env: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """Run this interpreter afresh."""
    return subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
        env={**environment(), **(env or {})},
    )


def worker(module: str, *arguments: str, env: Mapping[str, str] | None = None) -> Any:
    """Run a module of this package in a fresh interpreter and give the JSON that it prints."""
    return json.loads(python("-m", f"benchmarks.{module}", *arguments, env=env).stdout)


def over(samples: Samples, base: str) -> dict[str, float]:
    """Give how much more each took than `base`: the median of the differences within a round."""
    return {
        name: median(value - bare for value, bare in zip(values, samples[base], strict=True))
        for name, values in samples.items()
        if name != base
    }


def ratio(value: float, of: float | None) -> str:
    """Write how much of another figure a figure is."""
    return f"{value / of:.2f}" if of else "-"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: texts to the left, numbers to the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    print(f"\n{title}\n")
    for line in (columns, *cells):
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print("  " + "  ".join([first.strip().ljust(widths[0]), *others]))


def _text(cell: object) -> str:
    return f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def describe_machine() -> str:
    """Say what the figures were measured on."""
    versions = [f"Python {platform.python_version()}", *map(_version, (OURS, OFFICIAL, "pydantic", "anyio"))]
    return f"{os.cpu_count()} CPUs, {platform.system()} {platform.machine()}; " + ", ".join(versions)


def _version(module: str) -> str:
    name = module.replace("_", "-")
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {name}"

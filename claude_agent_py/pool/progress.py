"""The progress display of `map_runs`: a function, or a bar if `rich` is installed and stderr is a terminal."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from claude_agent_py._errors import OptionsError
from claude_agent_py.pool.outcome import MapProgress

Progress: TypeAlias = bool | Callable[[MapProgress], object] | None
"""None shows a bar in a terminal if `rich` is installed; True always; False never. A function is called instead."""

Report: TypeAlias = Callable[[MapProgress], object]


def check_progress(progress: Any) -> None:
    """Check the `progress` option.

    Raises:
        OptionsError: The value is neither a bool nor a function, or `rich` is needed and missing.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise OptionsError(f"must be a bool or a function, not {progress!r}", option="progress")
    if progress is True and not _has_rich():
        raise OptionsError('needs rich: pip install "claude-agent-py[cli]"', option="progress")


@contextmanager
def show_progress(progress: Progress, first: MapProgress) -> Iterator[Report]:
    """Show progress during the block. Yields the function to call with each change."""
    if callable(progress):
        progress(first)
        yield progress
    elif progress or (progress is None and sys.stderr.isatty() and _has_rich()):
        with _show_bar(first) as update:
            yield update
    else:
        yield lambda progress: None


def _has_rich() -> bool:
    try:
        return importlib.util.find_spec("rich") is not None
    except ValueError:
        # `find_spec` raises this for a module in `sys.modules` without a spec.
        return False


@contextmanager
def _show_bar(first: MapProgress) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(_format_counts(first), total=first.total, completed=first.done)

        def update(now: MapProgress) -> None:
            bar.update(task, completed=now.done, description=_format_counts(now))

        yield update


def _format_counts(now: MapProgress) -> str:
    failed = f"{now.failed} failed, " if now.failed else ""
    return f"{failed}{now.running} running, {now.cost_usd:.2f} USD"

"""How `map_runs` shows its progress: to a function, or as a bar where `rich` is installed and somebody looks."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from claude_agent_py._errors import OptionsError
from claude_agent_py.pool.outcome import MapProgress

Progress: TypeAlias = bool | Callable[[MapProgress], object] | None
"""None shows a bar in a terminal if `rich` is installed; True always; False never. A function is called instead."""


def check_progress(progress: Any) -> None:
    """Refuse what shows no progress.

    Raises:
        OptionsError: It is neither a bool nor a function, or `rich` is needed and missing.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise OptionsError(f"must be a bool or a function, not {progress!r}", option="progress")
    if progress is True and not _has_rich():
        raise OptionsError('needs rich: pip install "claude-agent-py[cli]"', option="progress")


@contextmanager
def shown(progress: Progress, first: MapProgress) -> Iterator[Callable[[MapProgress], object]]:
    """Show progress in the block; yield the function that is told of it."""
    if callable(progress):
        progress(first)
        yield progress
    elif progress or (progress is None and sys.stderr.isatty() and _has_rich()):
        with _bar(first) as tell:
            yield tell
    else:
        yield lambda progress: None


def _has_rich() -> bool:
    try:
        return importlib.util.find_spec("rich") is not None
    except ValueError:  # it is in `sys.modules` without a spec
        return False


@contextmanager
def _bar(first: MapProgress) -> Iterator[Callable[[MapProgress], object]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        shown_task = bar.add_task(_words(first), total=first.total, completed=first.done)

        def tell(now: MapProgress) -> None:
            bar.update(shown_task, completed=now.done, description=_words(now))

        yield tell


def _words(now: MapProgress) -> str:
    failed = f"{now.failed} failed, " if now.failed else ""
    return f"{failed}{now.running} running, {now.cost_usd:.2f} USD"

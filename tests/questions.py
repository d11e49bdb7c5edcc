"""Questions to the user: what a model asks with the tool `AskUserQuestion`, and waiting for an answer."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


def waits_recorded_in(heard: list[Any]) -> Callable[[str | None], AbstractContextManager[None]]:
    """Return a `PermissionContext.during_wait` that adds True to a list when a wait begins, and False when it ends."""

    @contextmanager
    def wait(interaction_id: str | None) -> Iterator[None]:
        heard.append(True)
        yield
        heard.append(False)

    return wait


def asking(question: str, *labels: str) -> dict[str, Any]:
    """Return the input of the tool: one question, of which one choice is the answer."""
    options = [{"label": label, "description": label.upper()} for label in labels]
    return {"questions": [{"question": question, "header": "Choose", "multiSelect": False, "options": options}]}

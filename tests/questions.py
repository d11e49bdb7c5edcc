"""Questions to the user: what a model asks with the tool `AskUserQuestion`, and waiting for an answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import field

from claude_agent_py import PermissionContext


class RecordingContext(PermissionContext, frozen=True, kw_only=True):
    """A context that records waits, True when one begins and False when it ends, and the events of an inbox."""

    waits: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)

    @contextmanager
    def awaiting_user(self, interaction_id: str | None = None) -> Iterator[None]:
        self.waits.append(True)
        yield
        self.waits.append(False)

    def on_interaction(self, event: object) -> None:
        self.events.append(event)


def asking(question: str, *labels: str) -> dict[str, Any]:
    """Return the input of the tool: one question, of which one choice is the answer."""
    options = [{"label": label, "description": label.upper()} for label in labels]
    return {"questions": [{"question": question, "header": "Choose", "multiSelect": False, "options": options}]}

"""`QuestionRecord`: a question to a person as JSON, for inboxes in files and for programs that keep it elsewhere."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Self, cast

from pydantic import ValidationError

from claude_agent_py.permissions.prompts import KINDS, Kind, Subject, summarize
from claude_agent_py.wire.base import JSONObject, dump
from claude_agent_py.wire.fitting import fit

_REPEATED = ("tool_name", "input", "mcp_server_name", "message", "requested_schema", "url", "dialog_kind", "payload")
"""The fields of a request that stay the same when the model repeats the question."""


@dataclass(frozen=True, kw_only=True)
class QuestionRecord:
    """A question to a person. `to_dict` and `from_dict` convert it to JSON and back."""

    kind: Kind
    """`permission`, `question`, `plan`, `elicitation` or `dialog`."""
    request: JSONObject
    """The request of the CLI."""
    session_id: str | None = None
    """The asking session; None if unknown."""
    agent_id: str | None = None
    """The asking subagent; None for the main agent."""
    number: int = 0
    """Tells it from the same questions that were open before it."""

    @classmethod
    def of(cls, kind: Kind, wire: Any, *, session_id: str | None = None, agent_id: str | None = None) -> Self:
        """Return the record of a question as `Inbox.ask` receives it."""
        return cls(kind=kind, request=dump(wire), session_id=session_id, agent_id=agent_id)

    @property
    def key(self) -> str:
        """A digest of the question and its number, which is the same when the model asks it again."""
        content = {name: self.request[name] for name in _REPEATED if name in self.request}
        fields = [self.kind, content, *([self.number] if self.number else [])]
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    @property
    def tool_use_id(self) -> str | None:
        """The tool call that the question is about; None if it is about none."""
        return cast("str | None", self.request.get("tool_use_id"))

    @property
    def subject(self) -> Subject:
        """The question, as a handler of this kind receives it: a `PermissionRequest`, a tuple of `Question`s, ..."""
        return cast("Subject", KINDS[self.kind].subject(self.wire, None))

    @property
    def summary(self) -> str:
        """The question in one line that is safe to print in a terminal."""
        return summarize(self.kind, self.subject)

    @property
    def wire(self) -> Any:
        """The request as `Inbox.ask` receives it."""
        return fit(KINDS[self.kind].wire, self.request)[0]

    def reply(self, value: object) -> JSONObject:
        """Return the reply to the CLI for an answer, as JSON.

        Args:
            value: A return value of handlers of this kind: `Allow` or `Deny`, answers, `Accept`, ...

        Raises:
            ValueError: The value does not answer this question.
        """
        return KINDS[self.kind].read(self.wire, value)

    def refusal(self, message: str = "") -> JSONObject:
        """Return the reply that denies, leaves unanswered, cancels or dismisses."""
        return KINDS[self.kind].refuse(message)

    def check(self, reply: object) -> JSONObject:
        """Return a stored reply, checked as if it had been given now; the refusal if it is none for this question.

        `reply` is JSON, as a text or as the value.
        """
        try:
            value = json.loads(reply) if isinstance(reply, str) else reply
            return self.reply(KINDS[self.kind].answer(cast("JSONObject", value)))
        except (ValueError, KeyError, AttributeError, TypeError, ValidationError, RecursionError):
            return self.refusal("The stored answer could not be read.")

    def to_dict(self) -> JSONObject:
        """Return the record as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: JSONObject) -> Self:
        """Return the record in a result of `to_dict`. Raises TypeError for fields that it does not have."""
        return cls(**data)

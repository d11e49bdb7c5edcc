"""Dialogs of the CLI. It only sends the kinds that were declared as supported."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from claude_agent_py.permissions.decisions import check_json, describe
from claude_agent_py.wire.base import JSONObject, dump
from claude_agent_py.wire.control.permissions import UserDialogReply


@dataclass(frozen=True)
class Completed:
    """The person finished the dialog."""

    result: Any = None
    """The result as JSON; its shape depends on the kind of dialog."""


@dataclass(frozen=True)
class Dismissed:
    """The person closed the dialog. The CLI then applies the dialog's default."""


DialogAnswer: TypeAlias = Completed | Dismissed


def read_dialog(value: Any) -> JSONObject:
    """Return the reply for the result of `on_user_dialog`. None dismisses. Raises ValueError for other values."""
    if value is None or isinstance(value, Dismissed):
        return dismissed()
    if not isinstance(value, Completed):
        raise ValueError(f"expected Completed(...) or Dismissed(), not {describe(value)}")
    check_json("the result of a dialog", value.result)
    return dump(UserDialogReply(behavior="completed", result=value.result))


def dismissed() -> JSONObject:
    """Return the reply that dismisses a dialog."""
    return dump(UserDialogReply(behavior="cancelled"))

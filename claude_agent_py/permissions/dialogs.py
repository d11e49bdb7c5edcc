"""Dialogs of the CLI. The CLI only sends dialogs of declared kinds (`supported_dialog_kinds`)."""

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
    """Return the reply for the result of `on_user_dialog`. None dismisses it. Raises ValueError for other values."""
    if value is None or isinstance(value, Dismissed):
        return build_dismissal()
    if not isinstance(value, Completed):
        raise ValueError(f"the answer must be Completed(...) or Dismissed(), not {describe(value)}")
    check_json("the result of a dialog", value.result)
    return dump(UserDialogReply(behavior="completed", result=value.result))


def build_dismissal() -> JSONObject:
    """Return the reply that dismisses a dialog."""
    return dump(UserDialogReply(behavior="cancelled"))

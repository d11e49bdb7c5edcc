"""`FleetAgent`: the options, workspace and limits of a named agent; and checks of arguments."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from claude_agent_py import durable
from claude_agent_py._base.display import one_line
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.fleet.workspaces import Workspace
from claude_agent_py.messages import check_prompt
from claude_agent_py.options import ClientOptions
from claude_agent_py.permissions import AnswerSource
from claude_agent_py.retrying import RetryPolicy
from claude_agent_py.wire import dump

AfterFailure: TypeAlias = Literal["run", "fail"]
"""What happens to the prompts behind one that failed: they run, or they fail too."""

MAX_TEXT: Final = 200
MAX_PRIORITY: Final = 10**9
TITLE_CHARS: Final = 80
OWN_OPTIONS: tuple[str, ...] = ("session_store", "session_id", "resume", "continue_conversation", "fork_session")
"""Options that the fleet sets."""


@dataclass(frozen=True, kw_only=True)
class FleetAgent:
    """An agent of a fleet, created by `Fleet.agent`, which documents the fields."""

    name: str
    version: str
    options: ClientOptions
    workspace: Workspace
    until: Literal["result", "idle"]
    patience: float
    timeout: float | None
    after_failure: AfterFailure
    limit: int | None
    retry: RetryPolicy

    def __post_init__(self) -> None:
        for name in OWN_OPTIONS:
            if getattr(self.options, name):
                raise OptionsError("must not be set: the fleet sets it", option=name)
        check_text(self.name, "name")
        check_text(self.version, "version")
        if not self.name or not self.version:
            raise OptionsError("must not be empty", option="version" if self.name else "name")
        if self.until not in ("result", "idle"):
            raise OptionsError(f"must be 'result' or 'idle', not {self.until!r}", option="until")
        check_positive(limit=self.limit, timeout=self.timeout)
        if self.after_failure not in ("run", "fail"):
            raise OptionsError(f"must be 'run' or 'fail', not {self.after_failure!r}", option="after_failure")
        if self.patience < 0:
            raise OptionsError("must not be negative", option="patience")


def check_positive(**options: float | None) -> None:
    """Raise OptionsError unless these are positive, or None."""
    for option, value in options.items():
        if value is not None and not value > 0:
            raise OptionsError("must be more than 0", option=option)


def check_session_id(session_id: str) -> str:
    """Return the id of a session. Raises OptionsError if it is empty, too long, or not printable."""
    # The caller may not use a type checker.
    given: object = session_id
    if not isinstance(given, str) or not given.strip() or len(given) > 200:
        raise OptionsError("must be text of 1 to 200 characters", option="id")
    if not session_id.isprintable():
        raise OptionsError("must be printable", option="id")
    return session_id


def check_text(value: object, option: str) -> str:
    """Return a short text. Raises OptionsError if it is something else, or no engine can store it."""
    if not isinstance(value, str) or len(value) > MAX_TEXT or re.search("[\0\ud800-\udfff]", value):
        problem = f"must be text of at most {MAX_TEXT} characters, without NUL and lone surrogates"
        raise OptionsError(problem, option=option)
    return value


def check_priority(value: object) -> int:
    """Return a priority. Raises OptionsError."""
    if not isinstance(value, int) or abs(value) > MAX_PRIORITY:
        raise OptionsError(f"must be a whole number from {-MAX_PRIORITY} to {MAX_PRIORITY}", option="priority")
    return value


def name_source(actor: object) -> AnswerSource:
    """Return who gives a command in this process. Raises OptionsError unless the actor is a short text."""
    return AnswerSource.here(check_text(actor, "actor"))


def prompt_as_json(prompt: object, tools: Sequence[JSONMapping] = ()) -> Any:
    """Return a prompt as JSON, with the tools that it brings. Raises OptionsError if it or a tool is not valid."""
    content = check_prompt(prompt)
    given = content if isinstance(content, str) else [dump(block) for block in content]
    if not tools:
        return given
    durable.check_tools(tools)
    return {"content": given, "tools": [dict(each) for each in tools]}


def read_prompt(stored: object) -> tuple[Any, Sequence[JSONMapping]]:
    """Return the prompt and the tools in a result of `prompt_as_json`."""
    return (stored["content"], stored["tools"]) if isinstance(stored, dict) else (stored, ())


def make_title(stored: object) -> str:
    """Return the beginning of a prompt in a result of `prompt_as_json`, in one line."""
    content, _ = read_prompt(stored)
    texts = [content] if isinstance(content, str) else [str(block.get("text", "")) for block in content]
    return one_line(" ".join(texts)[: 10 * TITLE_CHARS], TITLE_CHARS)

"""Replace the output of a tool from a PostToolUse hook.

The CLI drops a replacement without the shape of the tool's output and shows the model the original, so a slightly wrong
redaction redacts nothing. This module checks the shape first, against the tool's model if it has one, or against the
original output.
"""

import re
from collections.abc import Mapping, Set
from typing import Final

from claude_agent_py.wire.base import JSONObject, WireModel
from claude_agent_py.wire.hooks.outputs import PostToolUseOutput
from claude_agent_py.wire.tools.registry import BUILTIN_TOOL_NAMES, typed_output

_SHELLS: Final = frozenset({"Bash", "PowerShell"})
_CHOICES: Final = frozenset(
    {"action", "cell_type", "edit_mode", "mode", "operation", "retrieval_status", "status", "taskType"}
)
"""Fields with a fixed set of values. The CLI drops a replacement with any other value."""
_KEPT: Final = _CHOICES | {"type", "filePath"}
"""Fields with the kind of the output or a part of the model's input."""
_WORD: Final = re.compile(r"[a-z_]{1,30}")
_LEVELS: Final = 100
"""How many levels of an output keep their structure when it is withheld. Deeper ones cannot be serialized."""


class WrongShapeError(ValueError):
    """A replacement does not have the shape of the original output."""


def coerce_output(data: Mapping[str, object], output: PostToolUseOutput) -> PostToolUseOutput:
    """Return the output with a replacement that the CLI accepts. Text is wrapped as output of a shell or of `Read`.

    Args:
        data: The hook's input.
        output: The handler's answer.

    Raises:
        WrongShapeError: The CLI would ignore the replacement.
    """
    name = _get_tool_name(data)
    old = data.get("tool_response")
    new = output.updated_tool_output
    if new is None:
        return output
    if isinstance(new, WireModel):
        new = {**_get_null_fields(old), **new.raw}
    if isinstance(new, str) and not isinstance(old, str):
        new = _wrap_text(name, old, new)
    if not _is_accepted(name, old, new):
        raise WrongShapeError(
            f"updated_tool_output must have the shape of the output of {name} (input.tool_response), "
            "or the CLI ignores it"
        )
    return output.model_copy(update={"updated_tool_output": new})


def withhold_output(data: Mapping[str, object], notice: str) -> PostToolUseOutput:
    """Replace a tool's output with a notice, and end the turn if the CLI might not accept the notice."""
    name = _get_tool_name(data)
    old = data.get("tool_response")
    if name.startswith("mcp__"):
        return PostToolUseOutput(updated_mcp_tool_output=notice)
    new = _wrap_text(name, old, notice)
    if old is None and new is notice:  # the output could not be read, so its shape is unknown
        return PostToolUseOutput(updated_tool_output=new, continue_=False, stop_reason=notice)
    if new is notice:
        # The tool does not output text: replace each text in its output.
        new = _mask(old, notice, _KEPT if name in BUILTIN_TOOL_NAMES else frozenset())
    is_sure = isinstance(new, str) or isinstance(typed_output(name, new), WireModel)
    return PostToolUseOutput(
        updated_tool_output=new, continue_=None if is_sure else False, stop_reason=None if is_sure else notice
    )


def _get_tool_name(data: Mapping[str, object]) -> str:
    return str(data.get("tool_name"))


def _get_null_fields(old: object) -> JSONObject:
    """Return the null fields of the old output, because a replacement built from a model lacks them."""
    if not isinstance(old, Mapping):
        return {}
    return {key: None for key, value in old.items() if value is None}


def _is_accepted(name: str, old: object, new: object) -> bool:
    """Return whether the CLI certainly accepts a replacement. Its rules are stricter than our models."""
    if name.startswith("mcp__"):
        return isinstance(new, str | list)
    if not isinstance(old, Mapping):
        return type(old) is type(new)
    if not isinstance(new, Mapping) or any(
        value is None and old.get(key, "") is not None for key, value in new.items()
    ):
        return False
    if name not in _SHELLS and not old.keys() <= new.keys():
        return False
    if any(new.get(key) != value for key, value in old.items() if key in _CHOICES and name in BUILTIN_TOOL_NAMES):
        return False
    return isinstance(typed_output(name, new), WireModel) or not isinstance(typed_output(name, old), WireModel)


def _wrap_text(name: str, old: object, text: str) -> object:
    """Return text as the output of a tool that outputs text, and the bare text for other tools."""
    if old is None:  # the output could not be read
        old = {}
    if not isinstance(old, Mapping):
        return text
    if name in _SHELLS:
        return _build_shell_output(old, text)
    return _build_file_output(old, text) if name == "Read" else text


def _build_shell_output(old: Mapping[str, object], text: str) -> JSONObject:
    # Do not keep the path of the file with the whole output.
    kept = {key: old[key] for key in ("interrupted", "backgroundTaskId") if key in old}
    return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False, **kept}


def _build_file_output(old: Mapping[str, object], text: str) -> JSONObject:
    file = old.get("file")
    path = file.get("filePath", "") if isinstance(file, Mapping) else ""
    lines = text.count("\n") + 1
    content = {"filePath": path, "content": text, "numLines": lines, "startLine": 1, "totalLines": lines}
    return {"type": "text", "file": content}


def _mask(value: object, notice: str, kept: Set[str], levels: int = _LEVELS) -> object:
    if isinstance(value, str) or levels == 0:
        return notice
    if isinstance(value, list):
        return [_mask(item, notice, kept, levels - 1) for item in value]
    if isinstance(value, Mapping):
        return {
            key: item if key in kept and _is_harmless(key, item) else _mask(item, notice, kept, levels - 1)
            for key, item in value.items()
        }
    return value


def _is_harmless(key: str, value: object) -> bool:
    return key not in _CHOICES or (isinstance(value, str) and _WORD.fullmatch(value) is not None)

"""Read tool calls from `tool_use` blocks, dicts, or text with sections named after tools."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from claude_agent_py.formatting.encoders import Encoder
from claude_agent_py.formatting.text_format import TextFormat
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.content import ToolUseBlock


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call of a tool."""

    id: str
    name: str
    input: Any
    """A dict. Anything else is kept as it is and rejected when the call runs."""


LooseCall: TypeAlias = ToolCall | ToolUseBlock | Mapping[str, Any]
LooseCalls: TypeAlias = Iterable[LooseCall] | str


def read_calls(calls: LooseCalls, text_format: TextFormat, encoder: Encoder, names: Collection[str]) -> list[ToolCall]:
    """Return the calls in order.

    In text, each section named after a tool is a call, with the arguments encoded in its content. Everything else is
    ignored.

    Raises:
        TypeError: An item is not a call.
    """
    if isinstance(calls, str):
        return _written(calls, text_format, encoder, names)
    return [_strict(call, index) for index, call in enumerate(calls)]


def _strict(call: LooseCall, index: int) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    if isinstance(call, ToolUseBlock):
        return ToolCall(id=call.id, name=call.name, input=call.input)
    found: Any = call
    if isinstance(found, Mapping) and isinstance(found.get("name"), str):
        return ToolCall(id=str(found.get("id") or _made_up(index)), name=found["name"], input=found.get("input", {}))
    raise TypeError(f"a call must be a ToolUseBlock, a ToolCall or a dict with name and input, not {call!r}")


def _written(text: str, text_format: TextFormat, encoder: Encoder, names: Collection[str]) -> list[ToolCall]:
    sections = [section for section in text_format.parse_sections(text, strip=True) if section.name in names]
    return [
        ToolCall(id=_made_up(index), name=section.name, input=_arguments(section.content, encoder))
        for index, section in enumerate(sections)
    ]


def _arguments(content: str, encoder: Encoder) -> JSONObject | str:
    """Decode the arguments, or return the text if they are not a JSON object."""
    if not content:
        return {}
    try:
        found = encoder.decode(_unfenced(content))
    except ValueError:
        return content
    return found if isinstance(found, dict) else content


def _unfenced(content: str) -> str:
    """Remove the code fence that models often put around JSON."""
    first, _, rest = content.partition("\n")
    if first.startswith("```") and rest.endswith("```"):
        return rest.removesuffix("```")
    return content


def _made_up(index: int) -> str:
    return f"call_{index + 1}"

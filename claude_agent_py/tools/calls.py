"""Read tool calls from text, content blocks, an answer of the model, or a list of calls.

No call is dropped silently: a call that cannot run has a `problem`, which becomes its error.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from claude_agent_py.formatting.api_messages import complete
from claude_agent_py.formatting.encoders import Encoder, JSONEncoder, YAMLEncoder
from claude_agent_py.formatting.sections import ProblemKind, Section
from claude_agent_py.formatting.text_format import TextFormat
from claude_agent_py.wire.base import JSONObject, WireModel
from claude_agent_py.wire.messages.content import Block, ToolUseBlock, UnknownBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage

CUT_OFF: Final = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
"""Stop reasons that may leave the last call of an answer incomplete."""

_NAME_KEYS: Final = ("name", "tool", "tool_name", "function", "action")
_ARGUMENT_KEYS: Final = ("input", "arguments", "args", "parameters", "tool_input", "action_input")
_CALL_KEYS: Final = frozenset({"type", "id", "index", "call_id", *_NAME_KEYS, *_ARGUMENT_KEYS})
_AROUND_A_CALL: Final = ("function", "function_call", "tool_call", "tool_use")
"""Keys whose value is a call, as in `{"type": "function", "function": {"name": ..., "arguments": ...}}`."""
_CALL_TYPES: Final = (None, "tool_use", "function", "function_call", "tool_call")
_YAML_CALLS: Final = re.compile(rf"- +(?:\{{|(?:{'|'.join(sorted(_CALL_KEYS))}) *:)")


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call of a tool."""

    id: str | None = None
    """The id of the `tool_use` block; None for a call without one, such as a call in text."""
    name: str
    input: Any
    """A dict. Any other value is rejected when the call runs."""
    problem: str = ""
    """Why the call cannot run, for the model; empty if it can."""


LooseCall: TypeAlias = ToolCall | ToolUseBlock | Mapping[str, object] | object
"""A call, as a block or a dict with `name` and `input`, or any other content block."""

LooseCalls: TypeAlias = str | AssistantMessage | LooseCall | Iterable[LooseCall]
"""Text, a call, an answer of the model (`AssistantMessage`, or a response of the Messages API as an object or a dict),
or a list of calls and content blocks."""


def read_calls(
    given: LooseCalls, text_format: TextFormat | None, encoder: Encoder, names: Mapping[str, bool]
) -> list[ToolCall]:
    """Return the calls in order.

    Blocks of the type `tool_use` are calls. Without such blocks, the text is read: as a JSON or YAML list of calls, or
    as sections named after tools with the arguments as content.

    Args:
        given: Text, a call, an answer of the model, or a list of calls and content blocks.
        text_format: The format of the sections.
        encoder: Decodes the arguments in sections.
        names: The names of the tools, and whether each only reads.

    Raises:
        TypeError: An item is not a call, or text needs a format.
        ImportError: The text is a YAML list, and PyYAML is not installed.
    """
    if isinstance(given, str):
        calls = _read_text(given, text_format, encoder, names)
        if calls is None:
            raise TypeError(
                "a text format is required to find calls in text, such as XMLFormat(wrapper='observation') or "
                "MarkdownFormat()"
            )
        return calls
    items = normalize_content(given)
    reason = get_stop_reason(given)
    calls = [_read_block(item) for item in items if is_call(item)]
    if not calls:
        return _read_text(join_text(items), text_format, encoder, names, reason, get_stop_sequence(given)) or []
    if reason in CUT_OFF and is_call(items[-1]):
        calls[-1] = _mark_cut_off(calls[-1], reason)
    return calls


def _mark_unclosed(call: ToolCall) -> ToolCall:
    return replace(call, problem="the call has no end, so it was not run; write it again, with its end")


def _mark_cut_off(call: ToolCall, reason: str | None) -> ToolCall:
    problem = (
        f"the answer was cut off ({reason}), so the call may be incomplete and was not run; write it again, shorter"
    )
    return replace(call, problem=problem)


# Content ---------------------------------------------------------------------------------------------------------


def normalize_content(given: object) -> list[JSONObject | ToolCall]:
    """Return the content blocks of an answer, of a list or of a single block as dicts. `ToolCall`s stay unchanged.

    Raises TypeError for anything else.
    """
    if isinstance(given, str):
        return [{"type": "text", "text": given}]
    if isinstance(given, AssistantMessage):
        return [complete(block) for block in given.content]
    content = _get(given, "content")
    if content is not None and _get(given, "type") in (None, "message") and _get(given, "role") in (None, "assistant"):
        return normalize_content(content if isinstance(content, str) else list(content))
    if isinstance(given, ToolCall | WireModel | Mapping) or not isinstance(given, Iterable) or _is_model(given):
        given = [given]
    return [item if isinstance(item, ToolCall) else _normalize_block(item) for item in given]


def join_text(content: Iterable[JSONObject | ToolCall]) -> str:
    """Return the text of content; text blocks are joined by line breaks."""
    return "\n".join(
        str(block.get("text") or "") for block in content if isinstance(block, dict) and block.get("type") == "text"
    )


def get_stop_reason(given: object) -> str | None:
    """Return the stop reason of the model's answer, or None if it is unknown."""
    found = _get(given, "stop_reason")
    return found if isinstance(found, str) else None


def get_stop_sequence(given: object) -> str:
    """Return the stop sequence that ended the model's answer, which is not part of its text; empty if there is none."""
    found = _get(given, "stop_sequence")
    return found if isinstance(found, str) else ""


def shorten_repr(value: object) -> str:
    """Return the beginning of a value's repr, for an error."""
    try:
        return f"{value!r:.200}"
    except RecursionError:
        return f"a too deeply nested {type(value).__name__}"


def is_call(item: JSONObject | ToolCall) -> bool:
    """Return whether a content block is a call."""
    return isinstance(item, ToolCall) or _get_type(item) == "tool_use"


def _normalize_block(item: object) -> JSONObject:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    given = _as_dict(item)
    block = _as_tool_use(given) or given
    if _get_type(block) is None or (_get_type(block) == "tool_use" and not isinstance(block.get("name"), str)):
        raise TypeError(
            f"a call must be a ToolUseBlock, a ToolCall or a dict with name and input, not {shorten_repr(item)}"
        )
    return block


def _as_dict(item: Any) -> JSONObject:
    if isinstance(item, ToolUseBlock):
        # Do not convert the arguments: they may be nested too deeply for the encoder.
        return complete(item.replace(input={})) | {"input": item.input}
    if isinstance(item, Block | UnknownBlock):
        return complete(item)
    if isinstance(item, Mapping):
        return dict(item)
    if _is_model(item):
        # In classes of the `anthropic` package, `__api_exclude__` names fields that are only for programs.
        hidden = set(getattr(item, "__api_exclude__", None) or ())
        block: JSONObject = item.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=hidden)
        return block
    return dict(vars(item)) if hasattr(item, "__dict__") and hasattr(item, "type") else {}


def _is_model(item: object) -> bool:
    return hasattr(item, "model_dump")


def _get_type(block: JSONObject) -> str | None:
    kind = block.get("type") or ("tool_use" if "name" in block else None)
    return kind if isinstance(kind, str) else None


def _get(given: object, name: str) -> Any:
    if isinstance(given, AssistantMessage):
        given = given.message
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _as_tool_use(item: JSONObject) -> JSONObject | None:
    """Return a call in the form of any API as a `tool_use` block, or None for other objects."""
    around = next((key for key in _AROUND_A_CALL if isinstance(item.get(key), Mapping)), None)
    if around is not None:
        item = {**{key: value for key, value in item.items() if key != around}, **item[around]}
    name = next((item[key] for key in _NAME_KEYS if isinstance(item.get(key), str)), None)
    if name is None or item.get("type") not in _CALL_TYPES or not item.keys() <= _CALL_KEYS:
        return None
    found = next((key for key in _ARGUMENT_KEYS if key in item), "input")
    arguments = item.get(found)
    if isinstance(arguments, str) and found != "input":
        arguments = _decode_arguments(arguments, JSONEncoder())
    return {"type": "tool_use", "id": item.get("id") or item.get("call_id"), "name": name, "input": arguments}


def _read_block(block: JSONObject | ToolCall) -> ToolCall:
    if isinstance(block, ToolCall):
        return block
    call_id = block.get("id")
    arguments = block.get("input", block.get("arguments"))
    if arguments is None:
        arguments = {}
    return ToolCall(id=str(call_id) if call_id else None, name=block["name"], input=arguments)


# Text ------------------------------------------------------------------------------------------------------------


def _read_text(
    text: str,
    text_format: TextFormat | None,
    encoder: Encoder,
    names: Mapping[str, bool],
    stop_reason: str | None = None,
    stop_sequence: str = "",
) -> list[ToolCall] | None:
    """Return the calls in text, or None if the text needs a format.

    A call has a problem if it may be incomplete: because of `stop_reason`, or because its end is missing.
    """
    whole = text.strip()
    listed = _read_list(whole, names)
    if listed:
        # JSON that was cut off cannot be decoded, but YAML can.
        if not (whole.endswith("```") or _strip_fence(whole).lstrip().startswith(("[", "{"))):
            if stop_reason in CUT_OFF:
                listed[-1] = _mark_cut_off(listed[-1], stop_reason)
            elif whole.startswith("```"):
                listed[-1] = _mark_unclosed(listed[-1])
        return listed
    if text_format is None:
        return None
    found = text_format.parse(
        text,
        names={*names, *(spec.name for spec in text_format.registered)},
        strip=True,
        unknown="section",
        is_truncated=stop_reason in CUT_OFF,
    )
    unclosed = [problem.name for problem in found.problems if problem.kind is ProblemKind.UNCLOSED]
    if stop_sequence and unclosed:
        return _read_text(text + stop_sequence, text_format, encoder, names, stop_reason)
    others = {spec.name.casefold() for spec in text_format.registered}
    sections = [section for section in found.sections if section.name.casefold() not in others]
    if sections and set(unclosed) - {section.name for section in found.sections if not section.is_closed}:
        # The end of something around the sections is missing, so the last one may go on.
        sections[-1] = replace(sections[-1], is_closed=False)
    calls = list(_read_sections(sections, encoder, names, stop_reason))
    return calls if calls or len(sections) < len(found.sections) else _refuse_calls_in_prose(text, names)


def _read_sections(
    sections: Iterable[Section], encoder: Encoder, names: Mapping[str, bool], stop_reason: str | None
) -> Iterator[ToolCall]:
    folded = {name.casefold(): name for name in reversed(list(names))}
    for section in sections:
        name = section.name if section.name in names else folded.get(section.name.casefold(), section.name)
        if name in names or _looks_like_a_call(section, encoder, names):
            call = ToolCall(name=name, input=_decode_arguments(section.content, encoder))
            if not section.is_closed and stop_reason in CUT_OFF:
                call = _mark_cut_off(call, stop_reason)
            elif not section.is_closed and not (names.get(name) and _is_complete(section.content)):
                call = _mark_unclosed(call)
            yield call


def _refuse_calls_in_prose(text: str, names: Collection[str]) -> list[ToolCall]:
    """Return a call with a problem if the text contains one in a form that is only read without other text."""
    patterns = (_TAG_IN_PROSE, *([_NAMED_IN_PROSE] if _ARGUMENTS_IN_PROSE.search(text) else []))
    found = (match[1] for pattern in patterns for match in pattern.finditer(text))
    name = next((name for name in found if name in names), None)
    problem = "the call is in other text or in another form, so it was not run; write it again, in the required form"
    return [] if name is None else [ToolCall(name=name, input=text, problem=problem)]


def _is_complete(content: str) -> bool:
    """Return whether the text is a JSON object, which shows that it is complete."""
    try:
        return isinstance(JSONEncoder().decode(_strip_fence(content)), dict)
    except ValueError:
        return False


def _looks_like_a_call(section: Any, encoder: Encoder, names: Collection[str]) -> bool:
    """Return whether a section with an unknown name is probably a call.

    Its content is a JSON object, or its name is similar to a tool's and its content could be arguments.
    """
    content = section.content
    if content.startswith("{") and content.endswith("}"):
        return True
    return bool(find_similar_names(section.name, names, cutoff=0.75)) and isinstance(
        _decode_arguments(content, encoder), dict
    )


_NAMED: Final = re.compile(rf"""\b(?:{"|".join(_NAME_KEYS)})["']?\s*:\s*["']?([\w.-]+)""")
"""A name in a list of calls."""
_NAMED_IN_PROSE: Final = re.compile(rf"""["'](?:{"|".join(_NAME_KEYS)})["']\s*:\s*["']([\w.-]+)["']""")
_ARGUMENTS_IN_PROSE: Final = re.compile(rf"""["'](?:{"|".join(_ARGUMENT_KEYS)})["']\s*:""")
_TAG_IN_PROSE: Final = re.compile(r"""<(?:function=|(?:function|invoke|tool|tool_call)\s+name=["']?)([\w.-]+)""")


def _read_list(text: str, names: Collection[str]) -> list[ToolCall]:
    """Return the calls if the text is a JSON or YAML list of calls, or one call; otherwise none."""
    body = _strip_fence(text).strip()
    try:
        if body.startswith(("[", "{")):
            found: object = JSONEncoder().decode(body)
        elif _YAML_CALLS.match(body):
            found = YAMLEncoder().decode(body)
        else:
            return []
    except ValueError as error:
        named = next((match[1] for match in _NAMED.finditer(body) if match[1] in names), None)
        if named is None:
            return []
        problem = f"the list of calls cannot be read, so nothing was run: {error}; write it again"
        return [ToolCall(name=named, input=body, problem=problem)]
    if isinstance(found, dict) and isinstance(found.get("tool_calls"), list):
        found = found["tool_calls"]
    items: list[Any] = found if isinstance(found, list) else [found]
    calls = [_read_item(item, names) for item in items]
    return calls if any(call.name or not call.problem for call in calls) else []


def _read_item(item: Any, names: Collection[str]) -> ToolCall:
    """Return an item of a list as a call. If it is not one, it has a problem, and a name only if it names a tool."""
    block = _as_tool_use(item) if isinstance(item, dict) else None
    if block is not None:
        is_explicit = "action" not in item and ("type" in item or isinstance(block["input"], dict))
        if is_explicit or block["name"] in names:
            return _read_block(block)
    named = [item[key] for key in _NAME_KEYS if isinstance(item.get(key), str)] if isinstance(item, dict) else []
    name = next((name for name in named if name in names), "")
    problem = f"an item of the list is not a call: {shorten_repr(item)}; write an object with name and input"
    return ToolCall(name=name, input=item, problem=problem)


def _decode_arguments(content: str, encoder: Encoder) -> JSONObject | str:
    """Decode the arguments, or return the text if they are not a JSON object."""
    if not content:
        return {}
    try:
        found = encoder.decode(_strip_fence(content))
    except ValueError:
        return content
    return found if isinstance(found, dict) else content


def _strip_fence(content: str) -> str:
    """Remove the code fence that models often put around JSON, even if it has no end."""
    first, _, rest = content.partition("\n")
    return rest.removesuffix("```") if first.startswith("```") else content


def find_similar_names(name: str, names: Collection[str], *, cutoff: float = 0.5) -> list[str]:
    """Return up to three known names that are similar to a name, the most similar first."""
    by_lower = {known.lower(): known for known in names}
    bare = name.lower().rpartition("__")[2]
    found = get_close_matches(name.lower(), by_lower, cutoff=cutoff) or get_close_matches(bare, by_lower, cutoff=cutoff)
    return [by_lower[lower] for lower in found]

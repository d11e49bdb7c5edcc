"""The entries of a transcript: what links them, and the messages in them.

One line is one entry. `user`, `assistant`, `system` and `attachment` entries form the conversation: each has a uuid and
names its parent. All others are notes of the CLI (title, tag, cost, the requests that it sent, ...). One entry of the
model's answer holds one content block; those of one answer share their `message.id`.
"""

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from claude_agent_py._untrusted import MOST_LEVELS, read_json
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.wire.base import keep_source
from claude_agent_py.wire.fitting import Misfit, fit
from claude_agent_py.wire.messages.content import UnknownBlock
from claude_agent_py.wire.messages.conversation import AssistantContent, AssistantMessage, UserContent, UserMessage
from claude_agent_py.wire.messages.origin import MessageOrigin

LINKED: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
"""The types of the entries that form the conversation. Early versions of the CLI wrote `progress`."""
_READ: Final = frozenset(kind.encode() for kind in (*LINKED, "last-prompt"))
_NOTE: Final = b'{"type":"'
_DEEP: Final = MOST_LEVELS * 4
"""The number of brackets in a line above which its depth is checked."""


class Ids(msgspec.Struct, gc=False):
    """The part of a message that identifies its answer."""

    id: str | None = None


class Kept(msgspec.Struct, rename="camel", gc=False):
    """The messages that a compaction kept unchanged."""

    anchor_uuid: str | None = None
    uuids: list[str] = []


class Compaction(msgspec.Struct, rename="camel", gc=False):
    """What a compaction did."""

    preserved_messages: Kept | None = None


class Entry(msgspec.Struct, rename="camel", gc=False):
    """An entry's links to the rest of the conversation."""

    type: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    """At a compaction: the last message before it."""
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    team_name: str | None = None
    is_compact_summary: bool | None = None
    subtype: str | None = None
    message: Ids | None = None
    compact_metadata: Compaction | None = None
    leaf_uuid: str | UnsetType | None = UNSET
    explicit: bool | None = None

    @property
    def is_linked(self) -> bool:
        """Whether it is part of a conversation."""
        return self.uuid is not None and self.type in LINKED

    @property
    def is_message(self) -> bool:
        """Whether it is a message of the user, the model or a tool."""
        return self.type == "user" or self.type == "assistant"

    @property
    def is_shown(self) -> bool:
        """Whether it is a message that people should see, rather than one for the model only or from a teammate."""
        return self.is_message and not self.is_meta and not self.team_name


_decode: Final = msgspec.json.Decoder(Entry).decode


def read_entry(line: bytes) -> Entry | None:
    """Return the entry in a line, or None for a note that says nothing about the conversation.

    Raises:
        ValueError: The line is not a JSON object.
    """
    if line.startswith(_NOTE) and line[len(_NOTE) : line.find(b'"', len(_NOTE))] not in _READ:
        return None
    try:
        return _decode(line)
    except (msgspec.ValidationError, RecursionError):
        return _read_carefully(line)
    except msgspec.DecodeError:
        if line[:1] != b"\0":  # a crash of the machine can leave a hole of zeros
            raise
        return read_entry(line.lstrip(b"\0"))


def _read_carefully(line: bytes) -> Entry:
    """Read an entry without its fields of unexpected types."""
    value = read_json(line)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    fields: dict[str, Any] = {}
    for name, key in zip(Entry.__struct_fields__, Entry.__struct_encode_fields__, strict=True):
        if key in value:
            try:
                fields[name] = msgspec.convert(value[key], _TYPES[name])
            except msgspec.ValidationError:
                continue
    return Entry(**fields)


_TYPES: Final[dict[str, Any]] = {field.name: field.type for field in msgspec.structs.fields(Entry)}


# Messages --------------------------------------------------------------------------------------------------------


class _User(msgspec.Struct, rename="camel", tag_field="type", tag="user", gc=False):
    message: UserContent
    uuid: str = ""
    session_id: str = ""
    timestamp: str | None = None
    tool_use_result: Any = None
    agent_id: str | None = None
    is_meta: bool | None = None
    origin: MessageOrigin | None = None


class _Assistant(msgspec.Struct, rename="camel", tag_field="type", tag="assistant", gc=False):
    message: AssistantContent
    uuid: str = ""
    session_id: str = ""
    timestamp: str | None = None
    request_id: str | None = None
    error: str | None = None
    is_api_error_message: bool | None = None
    agent_id: str | None = None


_Readable: TypeAlias = _User | _Assistant
_decode_message: Final = msgspec.json.Decoder(_Readable).decode


def read_message(line: bytes, parent_tool_use_id: str | None = None) -> tuple[TranscriptMessage, str | None]:
    """Return the message in a `user` or `assistant` line, and the problem with it, if any.

    `raw` of the message is the entry as the CLI wrote it. Blocks that do not match their model become `UnknownBlock`s.

    Raises:
        ValueError: The line is not such an entry.
    """
    problem = None
    try:
        found = _decode_message(line)
    except (ValueError, RecursionError):
        line = line.lstrip(b"\0")
        found, problem = _read_misfit(line)
    message = _message(found, parent_tool_use_id)
    keep_source(message, "_source", line)
    return message, problem


def _message(found: _Readable, call: str | None) -> TranscriptMessage:
    if type(found) is _Assistant:
        return AssistantMessage(
            message=found.message,
            uuid=found.uuid,
            session_id=found.session_id,
            parent_tool_use_id=call,
            timestamp=found.timestamp,
            request_id=found.request_id,
            error=found.error,
            is_api_error_message=found.is_api_error_message,
            agent_id=found.agent_id,
        )
    assert type(found) is _User  # noqa: S101 - the union has two
    return UserMessage(
        message=found.message,
        uuid=found.uuid,
        session_id=found.session_id,
        parent_tool_use_id=call,
        timestamp=found.timestamp,
        tool_use_result=found.tool_use_result,
        agent_id=found.agent_id,
        is_synthetic=found.is_meta,
        origin=found.origin,
    )


def _read_misfit(line: bytes) -> tuple[_Readable, str | None]:
    """Read as much as possible of a message that its decoder rejects."""
    text = line.decode("utf-8", "replace")
    problem = None if "\ufffd" not in text else "not UTF-8"
    try:
        found, misfit = _fit(read_json(text))
    except ValueError as error:
        entry = read_entry(line)
        if entry is None or not entry.is_message:
            raise
        model: Any = _User if entry.type == "user" else _Assistant
        content, _ = _fit_content(UserContent if model is _User else AssistantContent, None)
        return model(message=content, uuid=entry.uuid or ""), str(error)
    return found, misfit or problem


def _fit(value: Any) -> tuple[_Readable, str | None]:
    """Read an entry without the fields that do not match its model."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind not in ("user", "assistant"):
        raise ValueError("not a message")
    model: Any = _User if kind == "user" else _Assistant
    given = value.get("message")
    content, problem = _fit_content(UserContent if model is _User else AssistantContent, given)
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(model):
        if field.name != "message" and field.encode_name in value:
            try:
                fields[field.name], _ = fit(field.type, value[field.encode_name])
            except Misfit:
                problem = problem or f"{field.encode_name} does not fit its model"
    found: _Readable = model(message=content, **fields)
    return found, problem


def _fit_content(model: type[UserContent] | type[AssistantContent], given: Any) -> tuple[Any, str | None]:
    """Return a message, with blocks that do not match their model as unknown ones."""
    try:
        return fit(model, given)[0], None
    except Misfit as error:
        content = given.get("content") if isinstance(given, dict) else given
        listed = content if isinstance(content, list) else [] if content is None else [content]
        unknown: list[Any] = [
            UnknownBlock(raw=block if isinstance(block, dict) else {"value": block}) for block in listed
        ]
        role = "user" if model is UserContent else "assistant"
        return msgspec.structs.replace(model(role=role, content=[]), content=unknown), f"message.{error}"  # type: ignore[arg-type]

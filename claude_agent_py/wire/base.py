"""Base classes of the wire models, which are frozen `msgspec` structs.

msgspec decodes a frame in a quarter of the time that pydantic takes. Pydantic validates what people write: options,
agents, tool parameters, structured output.

* Field names are snake_case. `field(name=...)` sets a different name on the wire; the fields of a `CamelModel` are
  camelCase there.
* A `ClassVar[Literal[...]]` is the model's tag. It is always encoded, and unions use it to choose the model. Models
  outside of unions have it in the class statement: `class EndSessionRequest(RequestModel, tag="end_session")`.
* Fields that equal their default are not encoded.
* Fields that a model does not declare are kept in the `raw` of the frame.

`Number` is used where the wire sends integers or floats: `float` would turn `3` into `3.0`. An integer beyond 64 bits
is invalid: Python's have no limit, and calculations with floats fail.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar, get_origin

import msgspec
from msgspec import Struct, field
from typing_extensions import dataclass_transform

from claude_agent_py._base.json_object import JSONObject as JSONObject

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | float
Word = TypeVar("Word")

if TYPE_CHECKING:
    Open: TypeAlias = Word | str
else:

    class Open:
        """`Open[Literal["a", "b"]]`: one of these strings, or one added by a newer CLI. At run time a plain `str`.

        The words stay in the annotation, for `scripts/drift.py`.
        """

        def __class_getitem__(cls, words: object) -> Any:
            return Annotated[str, words]


class _ModelType(msgspec.StructMeta):
    """Makes all fields keyword-only.

    The last string `ClassVar` of a model is its tag. A tag in the class statement also becomes a class attribute.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **settings: Any) -> Any:
        annotations = _annotations(namespace)
        for key, value in namespace.items():
            if isinstance(value, str) and get_origin(annotations.get(key)) is ClassVar:
                settings |= {"tag_field": key, "tag": value}
        model = super().__new__(mcls, name, bases, namespace, kw_only=True, **settings)
        tag_field = model.__struct_config__.tag_field or ""
        if settings.get("tag") and not hasattr(model, tag_field):
            setattr(model, tag_field, settings["tag"])
        return model


def _annotations(namespace: dict[str, Any]) -> Mapping[str, object]:
    if sys.version_info >= (3, 14):  # annotations are evaluated lazily
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        return annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF) if annotate else {}
    annotations: Mapping[str, object] = namespace.get("__annotations__", {})
    return annotations


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class WireModel(
    Struct, metaclass=_ModelType, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False
):  # gc=False: models hold no reference cycles, and a session keeps many thousands of them
    """Base of all JSON objects on the wire."""

    @property
    def raw(self) -> JSONObject:
        """The object as a dict, with the names of the wire."""
        return dump(self)

    def replace(self, **changes: object) -> Self:
        """Return a copy with the given fields changed."""
        return msgspec.structs.replace(self, **changes)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        """Allow a wire model as a field of a pydantic model."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(dump)
        )

    @classmethod
    def _validate(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        try:
            model = msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None
        if isinstance(model, FrameModel):
            keep_source(model, "_source", value)
        return model


class CamelModel(WireModel, rename="camel"):
    """A JSON object with camelCase names on the wire."""


SYNTHETIC_MODEL: Final = "<synthetic>"
"""The model of messages that the CLI writes itself."""
INTERRUPTED: Final = "[Request interrupted by user"
"""The start of the note that the CLI adds to a conversation when its turn is stopped."""
REJECTED: Final = "The user doesn't want to proceed with this tool use"
"""The start of the result of a call that ended with its turn, or that a person refused (CLI 2.1.332)."""
CUT_OFF: Final = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. "
    "Check whether it took effect before relying on it or running it again.]"
)
"""What the CLI adds to a conversation that it resumes, as the result of a call that was cut off (CLI 2.1.332)."""
NO_ANSWER: Final = "No response requested."
"""What the CLI adds to a conversation that it resumes, as the answer in a turn that was cut off (CLI 2.1.332)."""

UNKNOWN: Final = "(unknown)"
"""The tag of `UnknownModel`, which replaces a tag that no model of a union has."""

Unknown: TypeAlias = Literal["(unknown)"]
"""What type checkers take an unknown type for, so that comparing the `type` of a union with a known one narrows it."""


SOURCE: Final = "<source>"
"""Encoded name of `FrameModel._source`, chosen so that no field of the wire can collide with it."""


class UnknownModel(WireModel, tag=UNKNOWN):
    """An object whose tag matches no model of its union."""

    raw: JSONObject  # pyright: ignore[reportIncompatibleMethodOverride] - here a field
    """The object as received."""

    @property
    def type(self) -> Unknown:
        """The type of the object; empty if it has none."""
        return str(self.raw.get("type", ""))  # type: ignore[return-value]


class DiscreetModel(WireModel):
    """A JSON object whose repr hides fields that may hold secrets."""

    HIDDEN: ClassVar[tuple[str, ...]] = ()
    """Names of the hidden fields."""

    def __repr__(self) -> str:
        hidden = {name: ... for name in self.HIDDEN if getattr(self, name) is not None}
        return super(DiscreetModel, msgspec.structs.replace(self, **hidden)).__repr__()


class FrameModel(WireModel):
    """A JSON object that keeps the data it was decoded from: a frame, a reply, a hook's input."""

    _source: Any = field(default=None, name=SOURCE)
    """The JSON text or object; None unless the model was decoded."""

    @property
    def raw(self) -> JSONObject:
        """The object as received, including fields that the models do not declare, at any depth."""
        source = self._source
        if source is None:
            return dump(self)
        return _decode_leniently(source) if type(source) is bytes else source

    def replace(self, **changes: object) -> Self:
        """Return a copy with the given fields changed; undeclared fields in `raw` are kept."""
        changed = msgspec.structs.replace(self, **changes, _source=None)
        if self._source is not None:
            names = dict(zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True))
            values = dump(changed)
            keep_source(changed, "_source", self.raw | {names[name]: values.get(names[name]) for name in changes})
        return changed

    def _alone(self) -> Self:
        return self if self._source is None else msgspec.structs.replace(self, _source=None)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and WireModel.__eq__(self._alone(), other._alone())

    def __hash__(self) -> int:
        return hash((type(self), getattr(self, "uuid", None)))

    def __repr__(self) -> str:
        return WireModel.__repr__(self._alone())


def _decode_leniently(source: bytes) -> JSONObject:
    """Decode the source of a model, whose unknown fields may contain invalid UTF-8."""
    value: JSONObject
    try:
        value = msgspec.json.decode(source)
    except ValueError:
        value = json.loads(source.decode("utf-8", "replace"))
    return value


def dump(model: WireModel) -> JSONObject:
    """Return a model as a JSON object, with the names of the wire and without fields that equal their default.

    A decoded model is returned as it was received.
    """
    if isinstance(model, FrameModel) and model._source is not None:
        return model.raw
    value: JSONObject = _unwrap(msgspec.to_builtins(model, builtin_types=(bytes,)))
    return {"type": "system", **value} if getattr(model, "type", "") == "system" else value


def _unwrap(value: object) -> Any:
    """Replace nested unknown and decoded objects by their original data."""
    if isinstance(value, list):
        return [_unwrap(item) for item in value]
    if not isinstance(value, dict):
        return value
    source = value.get(SOURCE)
    if source is not None:
        return msgspec.json.decode(source) if isinstance(source, bytes) else source
    if UNKNOWN in (value.get("type"), value.get("subtype")) and isinstance(value.get("raw"), dict):
        return value["raw"]
    return {key: _unwrap(item) for key, item in value.items()}


keep_source: Final[Callable[[Any, str, Any], None]] = msgspec.structs.force_setattr
"""`keep_source(model, "_source", data)`: set a field of a model that was just decoded, although it is frozen."""


class MessageModel(FrameModel):
    """Base of the messages of a conversation."""

    uuid: str = ""
    """Id of the message; empty if the frame has none."""
    session_id: str = ""
    """Id of the session."""


class AnswerModel(MessageModel):
    """Base of messages that may name the prompts their turn answers."""

    user_message_uuid: str | None = None
    user_message_uuids: list[str] | None = None
    """Prompts that the turn includes, at most 64. Prompts sent without a uuid are not listed."""

    @property
    def prompt_uuids(self) -> tuple[str, ...]:
        """Uuids of the prompts that the turn answers, in order and without duplicates."""
        last = () if self.user_message_uuid is None else (self.user_message_uuid,)
        return tuple(dict.fromkeys((*(self.user_message_uuids or ()), *last)))


class SystemModel(MessageModel):
    """Base of the messages of type `system`, which the subtype tells apart."""

    type: ClassVar[Literal["system"]] = "system"


class RequestModel(WireModel, tag_field="subtype"):
    """Base of the bodies of the requests that this library sends."""

    subtype: ClassVar[str]

"""The base of every model of the wire: frozen `msgspec` structs.

What a machine writes is msgspec, and what people write (options, agents, tool parameters, structured output) is
pydantic: decoding a frame here takes a quarter of the time, and defining a model next to none.

* Names are snake_case here; a field that is named differently on the wire says so with `field(name=...)`, and every
  field of a `CamelModel` is camelCase there.
* A `ClassVar[Literal[...]]` is the model's tag: always on the wire, the same for every instance, and what a union of
  models is told apart by.
* A field without a value stands at its default, and is left out when the model is encoded.
* What a model does not know stays in `raw` of the frame that holds it.

Numbers are typed `Number` where the wire may send either kind: a plain `float` would turn `3` into `3.0`.
"""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self, TypeAlias, TypeVar, get_origin

import msgspec
from msgspec import Struct, field
from typing_extensions import dataclass_transform

Number: TypeAlias = int | float
JSONObject: TypeAlias = dict[str, Any]
Word = TypeVar("Word")

if TYPE_CHECKING:
    Open: TypeAlias = Word | str
else:

    class Open:
        """`Open[Literal["a", "b"]]`: one of these words, or one that a newer CLI says. At run time a plain `str`."""

        def __class_getitem__(cls, words: Any) -> Any:
            return Annotated[str, words]


class _ModelType(msgspec.StructMeta):
    """Makes models: every field is a keyword, and the last `ClassVar` with a text is the tag."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **settings: Any) -> Any:
        annotated = _annotations(namespace).items()
        tags = {key: namespace[key] for key, kind in annotated if get_origin(kind) is ClassVar and key in namespace}
        for key, tag in tags.items():
            if isinstance(tag, str):
                settings |= {"tag_field": key, "tag": tag}
        return super().__new__(mcls, name, bases, namespace, kw_only=True, **settings)


def _annotations(namespace: dict[str, Any]) -> Mapping[str, Any]:
    if sys.version_info >= (3, 14):  # a class has a function that makes them
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        return annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF) if annotate else {}
    annotations: Mapping[str, Any] = namespace.get("__annotations__", {})
    return annotations


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class WireModel(
    Struct, metaclass=_ModelType, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False
):  # gc=False: values that hold no cycle; a session holds many thousands
    """A JSON object of the wire."""

    @property
    def raw(self) -> JSONObject:
        """The object as a dict, by the names of the wire."""
        return dump(self)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values; `changes` go by the names used here."""
        return msgspec.structs.replace(self, **changes)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Let a pydantic model have a wire model as a field."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(dump)
        )

    @classmethod
    def _validate(cls, value: Any) -> Self:
        if isinstance(value, cls):
            return value
        try:
            model = msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None
        if isinstance(model, FrameModel):
            keep_source(model, "_source", value)
        return model


class DiscreetModel(WireModel):
    """A JSON object with fields that may hold secrets, which its repr does not show."""

    HIDDEN: ClassVar[tuple[str, ...]] = ()
    """The names of these fields."""

    def __repr__(self) -> str:
        hidden = {name: ... for name in self.HIDDEN if getattr(self, name) is not None}
        return WireModel.__repr__(msgspec.structs.replace(self, **hidden))


class CamelModel(WireModel, rename="camel"):
    """A JSON object whose names are camelCase on the wire."""


UNKNOWN: Final = "(unknown)"
"""What stands in place of a tag that no model of a union has."""


SOURCE: Final = "<source>"
"""The name of what a model was read from, among the names of the wire, which has no such field."""


class UnknownModel(WireModel, tag=UNKNOWN):
    """An object with a tag that no model of its union has."""

    raw: JSONObject  # pyright: ignore[reportIncompatibleMethodOverride] - here a field
    """The object as it came."""


class FrameModel(DiscreetModel):
    """A JSON object that keeps what it was read from, so nothing of it is lost: a frame, a reply, a hook's input."""

    _source: Any = field(default=None, name=SOURCE)
    """The JSON text or object; None where the model was made here."""

    @property
    def raw(self) -> JSONObject:
        """The object as it came, with the fields that its model does not know, at any depth."""
        source = self._source
        if source is None:
            return dump(self)
        raw: JSONObject = msgspec.json.decode(source) if type(source) is bytes else source
        return raw

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values; fields that the model does not know are kept."""
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
        return DiscreetModel.__repr__(self._alone())


def dump(model: WireModel) -> JSONObject:
    """Return the JSON object of a model: names of the wire, the fields that have a value, the tags.

    A model that was decoded gives back what came.
    """
    if isinstance(model, FrameModel) and model._source is not None:
        return model.raw
    value: JSONObject = _unwrap(msgspec.to_builtins(model, builtin_types=(bytes,)))
    return {"type": "system", **value} if getattr(model, "type", "") == "system" else value


def _unwrap(value: Any) -> Any:
    """Put unknown objects, and objects that keep what they were read from, back as they came."""
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
"""`keep_source(model, "_source", data)`: store what a model was just read from."""


class MessageModel(FrameModel):
    """A frame of the conversation. The ids may be left out in those that are made here."""

    uuid: str = ""
    """The frame's own id; empty where the wire has none."""
    session_id: str = ""
    """The session that the frame belongs to."""

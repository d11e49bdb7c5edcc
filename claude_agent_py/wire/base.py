"""The base of every model of the wire.

Owns three rules that all wire models share: a field that this version does not know is kept (and stands in
`model_extra`), a model is a value (frozen), and what was decoded encodes to the same JSON value. Knows nothing of
any particular message.

Numbers are typed `Number` (`int | float`) where the wire may send either: a plain `float` would turn `3` into `3.0`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel

Number: TypeAlias = int | float
JSONObject: TypeAlias = dict[str, Any]


class WireModel(BaseModel):
    """A JSON object of the wire whose names are snake_case there too."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        defer_build=True,
        populate_by_name=True,
        protected_namespaces=(),
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Show what is there, not the many fields that are not; and no field that may hold a secret."""
        fields, there = type(self).model_fields, self.model_fields_set
        yield from ((name, value) for name, value in self.__dict__.items() if name in there and fields[name].repr)
        yield from (self.__pydantic_extra__ or {}).items()


class CamelModel(WireModel):
    """A JSON object of the wire whose names are camelCase there and snake_case here."""

    model_config = ConfigDict(alias_generator=to_camel)


class TaggedModel(WireModel):
    """A wire model that names its kind in fixed fields (`type`, `subtype`, `behavior`, ...).

    Encoding leaves out what was never set, which keeps a round trip exact. The fields in `TAGS` are the exception:
    they have defaults in Python, and the wire needs them always.
    """

    TAGS: ClassVar[Mapping[str, Any]] = {}

    @model_serializer(mode="wrap")
    def _with_tags(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {**self.TAGS, **handler(self)}


class MessageModel(TaggedModel):
    """A frame of the conversation. Those that a person builds to send may leave the ids out."""

    uuid: str = ""
    """The frame's own id; empty where the wire gave none."""
    session_id: str = ""
    """The session that the frame belongs to."""


def dump(model: BaseModel) -> JSONObject:
    """Give the JSON object of a wire model: wire names, only what was set, tags always."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)

"""The rule by which unions stay open: a tag with a model of its own goes to that model and to no other.

Every open union here is `Known | Unknown`, tried from left to right, where `Known` is discriminated by a literal tag.
Without the rule a malformed known value would silently pass as an unknown one. Knows no particular model.
"""

from typing import Any, get_args

from pydantic_core import PydanticCustomError

KNOWN_TAG = "known_tag"
"""The error type of a fallback model that leaves a tag to the model which knows it."""


def refuse_known(tag: str, known: frozenset[str]) -> str:
    """Give the tag back when it is unknown, else raise: what the validator of a fallback model does."""
    if tag in known:
        raise PydanticCustomError(KNOWN_TAG, "{tag} has a model of its own", {"tag": tag})
    return tag


def tags_of(union: Any, field: str) -> frozenset[str]:
    """Give the tags of all members of `Annotated[A | B | ..., Field(discriminator=field)]`, nested ones included."""
    members = get_args(get_args(union)[0]) or (get_args(union)[0],)
    return frozenset(tag for member in members for tag in _tags(member, field))


def _tags(member: Any, field: str) -> frozenset[str]:
    if isinstance(member, type):
        return frozenset(get_args(member.__annotations__[field]))
    return tags_of(member, field)

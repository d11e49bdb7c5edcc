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
    return frozenset(members_of(union, field))


def members_of(union: Any, field: str) -> dict[str, type]:
    """Give those members by their tags; the last one where several have the same tag."""
    if isinstance(union, type):
        return dict.fromkeys(get_args(union.__annotations__[field]), union)
    members = get_args(get_args(union)[0]) or (get_args(union)[0],)
    return {tag: model for member in members for tag, model in members_of(member, field).items()}

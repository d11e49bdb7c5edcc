"""The JSON form of facts: one object a line, which `make_schema` describes."""

from typing import Any, Final

import msgspec

from claude_agent_py._journal.facts import VERSION, Fact
from claude_agent_py.wire.base import JSONObject

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Fact).decode


def encode_fact(fact: Fact) -> bytes:
    """Return a fact as one line of JSON, without the line break."""
    return _encode(fact)


def decode_fact(line: bytes | str) -> Fact:
    """Return the fact in a line of JSON.

    Raises:
        ValueError: The line is not a fact of this version.
    """
    fact: Fact = _decode(line)
    return fact


def make_schema() -> JSONObject:
    """Return the JSON Schema (2020-12) of a fact."""
    schema: dict[str, Any] = msgspec.json.schema(Fact)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Fact of a session, version {VERSION}",
        **schema,
    }

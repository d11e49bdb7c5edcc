"""The JSON form of facts: one object a line, which `make_schema` describes."""

import json
from typing import Final

import msgspec

from claude_agent_py._base.bounded_reading import without_surrogates
from claude_agent_py._journal.facts import VERSION, AnyFact, Fact, TaskFinished
from claude_agent_py.wire.base import JSONObject

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode  # the answer of a handler may contain anything
_decode: Final = msgspec.json.Decoder(Fact).decode


def encode_fact(fact: AnyFact) -> bytes:
    """Return a fact as one line of JSON, without the line break. Lone surrogates become U+FFFD."""
    if type(fact) is TaskFinished and fact.message is not None:
        fact = fact.replace(message=None)
    try:
        return _encode(fact)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(fact, enc_hook=str), ensure_ascii=False)
        return without_surrogates(text).encode()


def decode_fact(line: bytes | str) -> Fact:
    """Return the fact in a line of JSON.

    Raises:
        ValueError: The line is not a fact of this version.
    """
    fact: Fact = _decode(line)
    return fact


def make_schema() -> JSONObject:
    """Return the JSON Schema (2020-12) of a fact."""
    schema: JSONObject = msgspec.json.schema(Fact)
    definitions = schema["$defs"]
    del definitions["TaskFinished"]["properties"]["message"]  # `encode_fact` leaves it out
    for unused in ("TaskNotificationMessage", "HandbackReport"):
        del definitions[unused]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Fact of a session, version {VERSION}",
        **schema,
    }

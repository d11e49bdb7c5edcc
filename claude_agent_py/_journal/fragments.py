"""Extract strings from a line that cannot be decoded because it is cut or nested too deeply."""

import itertools
import re
from typing import Final

MAX_TOKENS: Final = 1_000_000
"""After how many tokens reading ends; a million takes about half a second."""

_TOKEN: Final = rb'(?s)"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]'


def readable_strings(line: bytes) -> dict[str, str]:
    """Return the string members of a JSON object, and members of nested objects as `"outer.inner"`.

    Deeper members are left out, so that a tool's input is not mistaken for a field of the frame.
    """
    found: dict[str, str] = {}
    depth, keys, last, is_value = 0, ["", ""], "", False
    for match in itertools.islice(re.finditer(_TOKEN, line), MAX_TOKENS):
        token = match[0]
        if token in b"{[":
            depth, is_value = depth + 1, False
        elif token in b"}]":
            depth -= 1
        elif depth not in (1, 2):
            continue
        elif token == b":":
            keys[depth - 1], is_value = last, True
        elif token == b",":
            is_value = False
        else:
            last = token[1:-1].decode(errors="replace")
            if is_value:
                found.setdefault(".".join(keys[:depth]), last)
    return found

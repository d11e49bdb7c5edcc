"""Read a function's description and parameters from a docstring in Google, NumPy or reST style."""

import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

PARAMETERS: Final = (
    "Args",
    "Arguments",
    "Params",
    "Parameters",
    "Keyword Args",
    "Keyword Arguments",
    "Other Parameters",
)
OTHERS: Final = ("Returns", "Yields", "Raises", "Attributes", "Example", "Examples")
HEADER: Final = re.compile(rf"({'|'.join((*PARAMETERS, *OTHERS))}):")
"""The header of a section in Google style; its content is indented."""
UNDERLINE: Final = re.compile(r"-{3,}")
"""The underline of a section header in NumPy style."""
FIELD: Final = re.compile(r":(\w+)(?:\s+([^:]*))?:\s*(.*)")
"""A field in reST style: kind, argument and text."""
PARAMETER_FIELDS: Final = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)")
NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?()")


@dataclass(frozen=True)
class Documentation:
    """The description and parameters from a docstring."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_docstring(docstring: str | None) -> Documentation:
    """Read a docstring. Never fails: text in no known style is part of the description."""
    lines = inspect.cleandoc(docstring or "").split("\n")
    starts = [number for number in range(len(lines)) if _begins_section(lines, number)]
    description = "\n".join(lines[: starts[0] if starts else None]).strip()
    parameters: dict[str, str] = {}
    for start, end in itertools.pairwise([*starts, len(lines)]):
        parameters |= _read_section(lines[start:end])
    return Documentation(
        description, {name: " ".join(text.split()) for name, text in parameters.items() if text.strip()}
    )


def _begins_section(lines: list[str], number: int) -> bool:
    line = lines[number].rstrip()
    below = lines[number + 1].rstrip() if number + 1 < len(lines) else ""
    if HEADER.fullmatch(line):
        return True
    return FIELD.match(line) is not None or (bool(line) and UNDERLINE.fullmatch(below) is not None)


def _read_section(section: list[str]) -> dict[str, str]:
    """Return the parameters that a section describes; other sections describe none."""
    header = section[0].rstrip()
    if found := FIELD.match(header):
        return _read_field(found, section[1:])
    if header.removesuffix(":") not in PARAMETERS:
        return {}
    if not header.endswith(":"):
        return _read_entries(section[2:], NUMPY_ENTRY)
    indented = itertools.takewhile(lambda line: not line[:1].strip(), section[1:])
    return _read_entries(textwrap.dedent("\n".join(indented)).split("\n"), GOOGLE_ENTRY)


def _read_field(found: re.Match[str], rest: list[str]) -> dict[str, str]:
    """Read `:param int limit: How many.` and its continuation lines up to an empty one."""
    kind, argument, text = found.groups()
    if kind not in PARAMETER_FIELDS or not argument:
        return {}
    return {argument.split()[-1].lstrip("*"): " ".join([text, *itertools.takewhile(str.strip, rest)])}


def _read_entries(lines: Iterable[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Read entries that start at the margin; other lines continue the previous entry."""
    parameters: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if found := pattern.fullmatch(line.rstrip()):
            names = re.findall(r"\w+", found[1])
            parameters |= dict.fromkeys(names, found[2] or "")
        else:
            parameters |= {name: f"{parameters[name]} {line}" for name in names}
    return parameters

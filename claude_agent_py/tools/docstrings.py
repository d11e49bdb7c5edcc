"""What a docstring says about a function: its description, and a line for each parameter.

Owns reading docstrings in Google, NumPy and reST style. The reading itself is done by the library `docstring-parser`
(extra `tools`), imported on first use; without it the summary is all that is known, and nothing fails.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Documentation:
    """What is known of a function from its docstring."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_docstring(docstring: str | None) -> Documentation:
    """Read a docstring. Never fails: one that cannot be read gives its summary."""
    text = inspect.cleandoc(docstring or "")
    if not text:
        return Documentation()
    try:
        import docstring_parser
    except ImportError:
        return Documentation(_summary(text))
    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Documentation(_summary(text))
    description = "\n\n".join(part.strip() for part in (parsed.short_description, parsed.long_description) if part)
    parameters = {param.arg_name.lstrip("*"): _one_line(param.description) for param in parsed.params}
    return Documentation(description, {name: told for name, told in parameters.items() if told})


def _summary(text: str) -> str:
    return _one_line(text.split("\n\n")[0])


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())

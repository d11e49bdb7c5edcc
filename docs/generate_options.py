"""Write the tables of `docs/options.md` from the options themselves and from the launch table.

python docs/generate_options.py           rewrites the text between the marks
python docs/generate_options.py --check   exits with 1 if that would change something
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from generated_parts import main, table

from claude_agent_py.options import fields as option_fields, values as option_values
from claude_agent_py.options.table import TABLE, Row

PAGE = Path(__file__).with_name("options.md")

TYPES = {
    "AgentLike": "AgentDefinition or dict",
    "AnyPath": "path",
    "Bytes": "int",
    "Count": "int",
    "Function": "function",
    "Handler": "function",
    "Names": "list[str]",
    "Rules": "list[str]",
    "StrictBool": "bool",
    "Seconds": "float",
    "Text": "str",
    "ChosenEffort": "str",
    "ChosenPermissionMode": "str",
    "Sequence": "list",
    "Mapping": "dict",
    "Iterable": "list",
    "Path": "path",
}
DEFAULTS = {
    "()": "[]",
    "Field(default_factory=_empty)": "{}",
    "Field(default_factory=_default_timeouts)": "Timeouts()",
    "Field(default_factory=_default_limits)": "Limits()",
}


class Option(NamedTuple):
    section: str
    name: str
    type: str
    default: str
    text: str


def read(module: object, class_name: str) -> list[Option]:
    """Read the fields of a class from its source."""
    source = inspect.getsource(module)  # type: ignore[arg-type]
    lines = source.splitlines()
    node = next(n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == class_name)
    found = []
    for statement, after in zip(node.body, node.body[1:], strict=False):
        if not isinstance(statement, ast.AnnAssign) or statement.value is None or is_class_variable(statement):
            continue
        found.append(
            Option(
                section=section_above(lines, node.lineno, statement.lineno),
                name=ast.unparse(statement.target),
                type=type_of(statement.annotation),
                default=default_of(statement.value),
                text=" ".join(docstring(after).split()),
            )
        )
    return found


def is_class_variable(statement: ast.AnnAssign) -> bool:
    return "ClassVar" in ast.unparse(statement.annotation)


def docstring(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""


def section_above(lines: list[str], first: int, last: int) -> str:
    """Return the nearest comment line above a field."""
    above = [line.strip() for line in lines[first:last] if line.startswith("    # ")]
    return above[-1].removeprefix("# ") if above else ""


def type_of(annotation: ast.expr) -> str:
    """Return the accepted types in a short form. None is omitted: it is the default then."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        return type_of(annotation.slice.elts[0])
    members = [member for member in union(annotation) if ast.unparse(member) != "None"]
    if len(members) > 1 or members != [annotation]:
        return " or ".join(dict.fromkeys(type_of(member) for member in members))
    for name in ast.walk(annotation):
        if isinstance(name, ast.Name):
            name.id = TYPES.get(name.id, name.id)
    text = ast.unparse(annotation)
    return " or ".join(text[8:-1].split(", ")) if text.startswith("Literal[") else text


def union(annotation: ast.expr) -> Iterator[ast.expr]:
    if isinstance(annotation, ast.BinOp):
        yield from union(annotation.left)
        yield from union(annotation.right)
    else:
        yield annotation


def default_of(value: ast.expr) -> str:
    text = ast.unparse(value)
    if text.startswith("Field(default_factory=") and text not in DEFAULTS:
        return f"{text.removeprefix('Field(default_factory=')[:-1]}()"
    return DEFAULTS.get(text, text)


def place(row: Row) -> str:
    """Return how an option is passed on."""
    texts = {
        "flag": f"`{row.name}`",
        "variable": f"variable `{row.name}`",
        "field": f"`{row.name}` of `initialize`",
        "settings": "the settings",
    }
    return texts.get(row.kind, row.name)


def goes_to(option: str) -> str:
    """Return how an option is passed on. Rows of the kinds `here` and `start` count only for their first option."""
    rows = [row for row in TABLE if option in row.reads]
    own = [row for row in rows if row.reads[0] == option or row.kind not in ("here", "start")]
    return ", ".join(dict.fromkeys(place(row) for row in own))


def value(option: Option) -> str:
    """Return a default in readable units."""
    return option.default.replace(" * MEBIBYTE", " MiB").replace(" * 1024", " KiB")


def options_tables() -> str:
    """Return a table for each section of the options."""
    sections: dict[str, list[tuple[str, ...]]] = {}
    for option in read(option_fields, "OptionFields"):
        cells = f"`{option.name}`", option.type, f"`{value(option)}`", option.text, goes_to(option.name)
        sections.setdefault(option.section, []).append(cells)
    head = "option|type|default|meaning|passed as"
    return "".join(f"\n### {section}\n\n{table(head, rows)}" for section, rows in sections.items()) + "\n"


def values_table(class_name: str) -> str:
    """Return the table of a value object."""
    rows = [(f"`{option.name}`", f"`{value(option)}`", option.text) for option in read(option_values, class_name)]
    return f"\n{table('field|default|meaning', rows)}\n"


def parts() -> dict[str, str]:
    return {
        "ClientOptions": options_tables(),
        "Timeouts": values_table("Timeouts"),
        "Limits": values_table("Limits"),
    }


if __name__ == "__main__":
    main(PAGE, parts)

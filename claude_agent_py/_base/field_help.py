"""What `help()` and `inspect.signature` show of the fields of a model: their types, defaults and texts, as written.

pydantic knows the validators of a field, but not how its type is written nor the text below it. Both are read from the
source on the first request, never on import.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Mapping
from functools import lru_cache
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, Literal, NamedTuple, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

LINE_CHARS: Final = 80
"""Longer signatures get a line for each parameter."""

EMPTY: Final[Mapping[Any, str]] = {dict: "{}", list: "[]"}
"""What the factories of empty containers make."""
_QUALIFIERS: Final = re.compile(r"\b(?:\w+\.)+(?=\w)")


_KINDS: Final = {
    None: Parameter.KEYWORD_ONLY,
    True: Parameter.KEYWORD_ONLY,
    False: Parameter.POSITIONAL_OR_KEYWORD,
}


class FieldSignature(Signature):
    """A signature with a line for each parameter, unless all fit on one."""

    __slots__ = ()

    def __str__(self) -> str:
        line = super().__str__()
        if len(line) <= LINE_CHARS:
            return line
        parameters = [str(parameter) for parameter in self.parameters.values()]
        parameters.insert(sum(each.kind != Parameter.KEYWORD_ONLY for each in self.parameters.values()), "*")
        return "(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + ")"


class FieldType(NamedTuple):
    """The annotation of a parameter. It shows the type of a field without validators."""

    model: type[BaseModel]
    field: str

    def __repr__(self) -> str:
        node = _find(self.model, self.field)
        if node is None:  # no source
            return _plain(get_type_hints(self.model)[self.field])
        return ast.unparse(_PlainTypes(node.module).visit(node.annotation))


class _Text(str):
    """Text whose repr has no quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def read_signature(model: type[BaseModel]) -> Signature:
    """Return the signature of a model. It reads the source only when it is printed."""
    parameters = [
        Parameter(name, _KINDS[field.kw_only], default=_default(field), annotation=FieldType(model, name))
        for name, field in model.model_fields.items()
    ]
    return FieldSignature(sorted(parameters, key=lambda parameter: parameter.kind))


def read_documentation(model: type[BaseModel]) -> str:
    """Return the docstring of a model, followed by its fields with their texts."""
    parts = [own_docstring(model)] if own_docstring(model) else []
    if model.model_fields:
        described = (_describe(model, parameter) for parameter in read_signature(model).parameters.values())
        parts.append("Args:\n" + textwrap.indent("\n".join(described), "    "))
    return "\n\n".join(parts)


def own_docstring(model: type[BaseModel]) -> str:
    """Return the docstring as written; empty if there is none."""
    return inspect.cleandoc(vars(model).get("__doc__") or "")


def _describe(model: type[BaseModel], parameter: Parameter) -> str:
    node = _find(model, parameter.name)
    text = inspect.cleandoc(node.text) if node is not None else ""
    return f"{parameter}\n{textwrap.indent(text, '    ')}".rstrip()


def _default(field: FieldInfo) -> object:
    if field.is_required():
        return Parameter.empty
    if field.default_factory is not None:
        made = inspect.get_annotations(field.default_factory).get("return", field.default_factory)
        return _Text(EMPTY.get(get_origin(made) or made) or f"{getattr(made, '__name__', '...')}()")
    return _Text(field.default.__name__) if hasattr(field.default, "__name__") else field.default


# The source ------------------------------------------------------------------------------------------------------


class _Written(NamedTuple):
    """A field in the source."""

    annotation: ast.expr
    text: str
    module: str


def _find(model: type[BaseModel], field: str) -> _Written | None:
    """Return the source of a field, from the model or its nearest base, or None."""
    for base in model.__mro__[: model.__mro__.index(BaseModel)]:
        found = _read_module(base.__module__).get(f"{base.__qualname__}.{field}")
        if found is not None:
            return found
    return None


@lru_cache(maxsize=64)
def _read_module(name: str) -> dict[str, _Written]:
    """Return the annotated names of the classes of a module; empty without its source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return {}
    found: dict[str, _Written] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for statement, after in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
                if isinstance(statement, ast.AnnAssign):
                    where = f"{node.name}.{ast.unparse(statement.target)}"
                    found[where] = _Written(statement.annotation, _docstring(after), name)
    return found


def _docstring(node: ast.stmt) -> str:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return node.value.value if is_text else ""  # type: ignore[attr-defined]


class _PlainTypes(ast.NodeTransformer):
    """Replaces `Annotated[...]`, and the aliases for it, by the type in it; shows the choices of a `Literal`."""

    def __init__(self, module: str) -> None:
        self._names = vars(sys.modules[module])

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
            return self.visit(node.slice.elts[0])  # type: ignore[no-any-return]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        value = self._names.get(node.id)
        if get_origin(value) in (Annotated, Literal):
            return ast.parse(_plain(value), mode="eval").body
        return node


def _plain(annotation: Any) -> str:
    """Return the text of a type without the names of modules."""
    bare = annotation.__origin__ if get_origin(annotation) is Annotated else annotation
    return _QUALIFIERS.sub("", inspect.formatannotation(bare))

"""Public names whose modules are loaded on first use (PEP 562).

The `if TYPE_CHECKING:` block of a module is the only list of its names: type checkers read the imports there, and
`attach` reads the same lines from the source when a name is first asked for.

    if TYPE_CHECKING:
        from package.module import Name as Name
        from package.models import *
    else:
        __getattr__, __dir__ = attach(__name__)

A star stands for all classes and type aliases of a module.
"""

import importlib
import sys

TYPE_CHECKING = False  # avoids importing `typing`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def attach(module: str) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return the `__getattr__` and the `__dir__` of a module, from the imports in its `if TYPE_CHECKING:` block."""
    homes: dict[str, str] = {}

    def read() -> "dict[str, str]":
        if not homes:
            homes.update(_find_imports(module))
        return homes

    def load(name: str) -> "Any":
        if name == "__all__":
            return [name for name, home in read().items() if home != module]
        home = None if name.startswith("__") else read().get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}{_hint(module, name, homes)}")
        if home == module:
            return importlib.import_module(f"{module}.{name}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[module], name, value)  # later accesses skip `__getattr__`
        return value

    return load, lambda: sorted({*vars(sys.modules[module]), *read()})


def _find_imports(module: str) -> "dict[str, str]":
    """Return the module of each name that the `if TYPE_CHECKING:` block imports."""
    import ast

    homes: dict[str, str] = {}
    for statement in ast.parse(_read_source(module)).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for imported in statement.body:
                if isinstance(imported, ast.ImportFrom) and imported.module is not None:
                    names = [alias.name for alias in imported.names]
                    if names == ["*"]:
                        names = _find_definitions(imported.module)
                    homes |= dict.fromkeys(names, imported.module)
    return homes


def _find_definitions(module: str) -> "list[str]":
    """Return the classes and type aliases that a module defines, without loading it."""
    import re

    return re.findall(r"^(?:class )?([A-Z]\w*)(?=[(:]| =)", _read_source(module).decode(), re.MULTILINE)


def _read_source(module: str) -> "bytes":
    if module in sys.modules:
        spec: Any = sys.modules[module].__spec__
    else:
        from importlib.util import find_spec  # takes a while, and few names need it

        spec = find_spec(module)
    source: bytes = spec.loader.get_data(spec.origin)
    return source


def _hint(module: str, name: str, homes: "dict[str, str]") -> str:
    """Return a hint on which namespace of the package has the name, if any."""
    if name.startswith("_"):
        return ""
    namespaces = [f"{module}.{space}" for space, home in homes.items() if home == module]
    found = [space for space in namespaces if name in dir(importlib.import_module(space))]
    return f": {name} is in {' and '.join(found)}" if found else ""

"""Public names whose modules are loaded on first use (PEP 562).

The `if TYPE_CHECKING:` block of a module is the only list of its names: type checkers read the imports there, and
`attach` reads the same lines from the source when a name is first asked for.

    if TYPE_CHECKING:
        from package.module import Name as Name
    else:
        __getattr__, __dir__ = attach(__name__)
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

    spec: Any = sys.modules[module].__spec__
    for statement in ast.parse(spec.loader.get_data(spec.origin)).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            imports = [inner for inner in statement.body if isinstance(inner, ast.ImportFrom)]
            return {alias.name: str(imported.module) for imported in imports for alias in imported.names}
    return {}


def _hint(module: str, name: str, homes: "dict[str, str]") -> str:
    """Return a hint on which namespace of the package has the name, if any."""
    if name.startswith("_"):
        return ""
    namespaces = [f"{module}.{space}" for space, home in homes.items() if home == module]
    found = [space for space in namespaces if name in dir(importlib.import_module(space))]
    return f": {name} is in {' and '.join(found)}" if found else ""

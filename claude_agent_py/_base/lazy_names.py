"""Public names whose modules are loaded on first use (PEP 562).

    if TYPE_CHECKING:
        from package.models import *
        from package.module import Name as Name
    else:
        __getattr__, __dir__ = attach(__name__, {"package.models": "*", "package.module": "Name"})

Type checkers read the imports, the program reads the table, and a test compares them.
"""

import importlib
import sys

TYPE_CHECKING = False  # avoids importing `typing`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def attach(module: str, names: "Mapping[str, str]") -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return the `__getattr__` and `__dir__` of a module that offers the names of other modules.

    `names` has the names for each module, separated by spaces; `*` are all public names that the module defines. The
    subpackages of the module itself are under its own name. `__getattr__` also returns `__all__`.
    """
    homes = {name: home for home, listed in names.items() for name in listed.split() if name != "*"}
    whole = [home for home, listed in names.items() if "*" in listed.split()]

    def find_all() -> dict[str, str]:
        return {**homes, **{name: home for home in whole for name in _defined(home)}}

    def load(name: str) -> "Any":
        if name == "__all__":
            return [public for public, home in find_all().items() if home != module]
        home = homes.get(name)
        if home is None and not name.startswith("_"):
            home = next((home for home in whole if name in _defined(home)), None)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}{_hint(name, module, names)}")
        if home == module:
            return importlib.import_module(f"{module}.{name}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[module], name, value)  # later accesses skip `__getattr__`
        return value

    return load, lambda: sorted({*vars(sys.modules[module]), *find_all()})


class LazyModule:
    """A module that is imported when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: object = None

    def __getattr__(self, name: str) -> "Any":
        if self._module is None:
            self._module = importlib.import_module(self._name)
        return getattr(self._module, name)


def _defined(home: str) -> list[str]:
    """Return the public names that a module defines: its classes, its functions and what it annotates."""
    module = importlib.import_module(home)
    annotated = module.__annotations__
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (name in annotated or getattr(value, "__module__", None) == home)
    ]


def _hint(name: str, module: str, names: "Mapping[str, str]") -> str:
    """Return a hint on which subpackage has the name, if any."""
    if name.startswith("_"):
        return ""
    spaces = [f"{module}.{space}" for space in names.get(module, "").split()]
    found = [space for space in spaces if name in dir(importlib.import_module(space))]
    return f": {name} is in {' and '.join(found)}" if found else ""

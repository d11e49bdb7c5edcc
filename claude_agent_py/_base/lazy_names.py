"""Public names whose modules are loaded on first use (PEP 562).

    if TYPE_CHECKING:
        from package.module import Name as Name
    else:
        __all__, __getattr__, __dir__ = attach(__name__, {"package.module": "Name"})

Type checkers read the imports, the program reads the table, and a test compares them.
"""

import importlib
import sys

TYPE_CHECKING = False  # avoids importing `typing`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def attach(
    module: str, names: "Mapping[str, str]"
) -> "tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]":
    """Return the `__all__`, `__getattr__` and `__dir__` of a module that offers the names of other modules.

    `names` has the names for each module, separated by spaces. Its own subpackages are under the module itself.
    """
    homes = {name: home for home, listed in names.items() for name in listed.split()}

    def load(name: str) -> "Any":
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}{_hint(name, module, names)}")
        if home == module:
            return importlib.import_module(f"{module}.{name}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[module], name, value)  # later accesses skip `__getattr__`
        return value

    public = [name for name, home in homes.items() if home != module]
    return public, load, lambda: sorted({*vars(sys.modules[module]), *homes})


def _hint(name: str, module: str, names: "Mapping[str, str]") -> str:
    """Return a hint on which subpackage has the name, if any."""
    if name.startswith("_"):
        return ""
    spaces = [f"{module}.{space}" for space in names.get(module, "").split()]
    found = [space for space in spaces if name in dir(importlib.import_module(space))]
    return f": {name} is in {' and '.join(found)}" if found else ""

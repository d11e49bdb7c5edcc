"""Public names whose modules are loaded on first use (PEP 562).

    if TYPE_CHECKING:
        from package.models import *
        from package.module import Name as Name
    else:
        __getattr__, __dir__ = attach(__name__, {"package.models": "*", "package.module": "Name"})

Type checkers read the imports, the program reads the table, and a test compares them.

A missing name that another public module has, that the official SDK has, or that is close to a public one gets a hint.
`from package import name` discards the text of an AttributeError, so it gets the hint as an ImportError.
"""

import importlib
import sys

TYPE_CHECKING = False  # avoids importing `typing`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import Any

_subpackages: "dict[str, list[str]]" = {}
"""The public subpackages of each package."""


def attach(module: str, names: "Mapping[str, str]") -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return the `__getattr__` and `__dir__` of a module that offers the names of other modules.

    `names` has the names for each module, separated by spaces; `*` are all public names that the module defines. The
    subpackages of the module itself are under its own name. `__getattr__` also returns `__all__`. A module that defines
    its names itself passes no names.
    """
    _subpackages[module] = names.get(module, "").split()
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
            error = MissingNameError(module, name)
            if _is_from_import(sys._getframe(1)) and f"{module}.{name}" not in sys.modules and error.hint():
                raise ImportError(f"cannot import name {name!r} from {module!r}{error.hint()}", name=module)
            raise error
        if home == module:
            return importlib.import_module(f"{module}.{name}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[module], name, value)  # later accesses skip `__getattr__`
        return value

    return load, lambda: sorted({*vars(sys.modules[module]), *find_all()})


class MissingNameError(AttributeError):
    """A module lacks a name. Its text has a hint, which is only looked for if the text is used: `hasattr` is common."""

    def __init__(self, module: str, name: str) -> None:
        super().__init__(f"module {module!r} has no attribute {name!r}", name=name)
        self._module, self._name = module, name

    def hint(self) -> str:
        """Return what to use instead, or an empty text."""
        return "" if self._name.startswith("_") else find_hint(self._name, self._module.partition(".")[0])

    def __str__(self) -> str:
        return f"{super().__str__()}{self.hint()}"


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


def find_hint(name: str, root: str) -> str:
    """Return a hint on which public module of the root package has a name, if any."""
    from claude_agent_py._base.official_names import (  # only needed for a missing name
        OFFICIAL_NAMES,
        find_close,
        translations,
    )

    if name not in OFFICIAL_NAMES and (found := _find(name, root)):  # some mean something else here
        return f": {name} is in {' and '.join(found)}"
    for translation in translations(name):
        if not translation.isidentifier():
            return f": instead of the official SDK's {name}, use {translation}"
        if found := _find(translation, root):
            return f": the official SDK's {name} is {translation} in {' and '.join(found)}"
    known = {public for space in _spaces(root) for public in importlib.import_module(space).__all__}
    near = [f"{public} in {_find(public, root)[0]}" for public in find_close(name, known)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _find(name: str, root: str) -> list[str]:
    """Return the public modules that have a name, or just the root package if it has it."""
    found = [space for space in _spaces(root) if name in importlib.import_module(space).__all__]
    return found[:1] if root in found else found


def _spaces(root: str) -> list[str]:
    """Return the public modules of the root package, itself first."""
    return [root, *(f"{root}.{space}" for space in _subpackages.get(root, ()))]


def _is_from_import(frame: "FrameType") -> bool:
    """Return whether the frame executes `from module import name`, after Python has looked for a submodule."""
    from opcode import opmap  # only needed for a missing name

    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]

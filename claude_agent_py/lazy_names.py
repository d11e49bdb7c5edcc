"""Public names whose modules load on first use (PEP 562), written down once, as ordinary imports.

`with LazyNames(globals()):` around `from module import Name as Name` statements: type checkers read the imports, and at
run time nothing is imported until `Name` is asked for. The block also makes the module's `__all__` and `__dir__`.
"""

from __future__ import annotations

import builtins
import importlib

TYPE_CHECKING = False  # `typing` is not imported: the root package needs this module and nothing else
if TYPE_CHECKING:
    from typing import Any


class LazyNames:
    """Turns the imports of a `with` block into names that load on first use.

    While the block runs, `builtins.__import__` is replaced; imports of any other module pass through it unchanged.

    Args:
        namespace: `globals()` of the module that the block stands in.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace: dict[str, Any] | None = namespace
        self._module: str = namespace["__name__"]
        self._home: dict[str, str] = {}

    def __enter__(self) -> None:
        before = builtins.__import__

        def note(name: str, scope: object = None, inner: Any = None, names: Any = (), level: int = 0) -> Any:
            if scope is None or scope is not self._namespace:
                return before(name, scope, inner, names, level)  # type: ignore[arg-type]
            return _Module(name)

        self._before, self._note = before, note
        builtins.__import__ = note  # type: ignore[assignment]

    def __exit__(self, *failure: object) -> None:
        if builtins.__import__ is self._note:
            builtins.__import__ = self._before
        namespace = self._namespace
        assert namespace is not None  # noqa: S101 - set by __init__
        self._namespace = None  # whoever still holds `note` is passed through
        for name in [name for name, value in namespace.items() if isinstance(value, _Name)]:
            self._home[name] = namespace.pop(name).module
        names = [name for name, module in self._home.items() if module != self._module]
        namespace["__all__"] = [*namespace.get("__all__", ()), *names]
        namespace["__getattr__"] = self._load
        namespace["__dir__"] = lambda: sorted({*namespace, *self._home})
        self._loaded = namespace

    def _load(self, name: str) -> Any:
        module = self._home.get(name)
        if module is None:
            raise AttributeError(f"module {self._module!r} has no attribute {name!r}{self._hint(name)}")
        if module == self._module:
            return importlib.import_module(f"{module}.{name}")
        value = self._loaded[name] = getattr(importlib.import_module(module), name)
        return value

    def _hint(self, name: str) -> str:
        """Say in which of the module's own namespaces a name is, if any."""
        if name.startswith("_"):
            return ""
        namespaces = [f"{module}.{space}" for space, module in self._home.items() if module == self._module]
        found = [space for space in namespaces if name in dir(importlib.import_module(space))]
        return f": {name} is in {' and '.join(found)}" if found else ""


class _Module:
    """Stands in for an imported module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _Name:
        return _Name(self._name)


class _Name:
    """Stands in for a name until the block is over."""

    def __init__(self, module: str) -> None:
        self.module = module

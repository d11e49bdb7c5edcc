"""Packages that take a second to import: only the processes pay for them that run a test which uses them."""

from importlib import import_module
from typing import Any


class Later:
    """Stands for a module, and imports it when the first of its public names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name not in (
            "__all__",
            "__version__",
            "__name__",
        ):  # pytest looks for marks of its own in each value of a module
            raise AttributeError(name)
        return getattr(import_module(self._name), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(self._name))

"""Names of a package whose modules are imported when the names are first asked for (PEP 562).

Owns how that is done. Which names there are, and where, each package says itself. The root package does not use this:
it has errors of its own for names that are missing, and is to load nothing beside itself.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def loader(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package.

    Args:
        package: Its `__name__`.
        home: The module of each name: its name within the package, or its full name.
    """

    def load(name: str) -> Any:
        module = home.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        is_full = module.startswith("claude_agent_py.")
        value = getattr(importlib.import_module(module if is_full else f"{package}.{module}"), name)
        setattr(sys.modules[package], name, value)  # so that this is asked once for each
        return value

    return load

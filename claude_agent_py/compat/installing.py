"""`install`: make `import claude_agent_sdk` find this package."""

import importlib
import sys
from types import ModuleType
from typing import Final

_NAME: Final = "claude_agent_sdk"
_INTERNAL: Final = f"{_NAME}._internal"

_HOMES: Final = {
    _NAME: "claude_agent_py.compat",
    f"{_NAME}.types": "claude_agent_py.compat.types",
    f"{_NAME}.testing": "claude_agent_py.compat.testing",
    f"{_NAME}.client": "claude_agent_py.compat.client",
    f"{_NAME}._errors": "claude_agent_py.compat.errors",
    f"{_INTERNAL}.message_parser": "claude_agent_py.compat.messages",
    f"{_INTERNAL}.transport": "claude_agent_py.compat.transport",
}


def install() -> None:
    """Make `import claude_agent_sdk`, and its modules that programs use, find this package. Idempotent.

    Call it before anything imports the official SDK, which need not be installed.

    Raises:
        RuntimeError: The official SDK is already imported.
    """
    compat = importlib.import_module(_HOMES[_NAME])
    loaded = sys.modules.get(_NAME)
    if loaded is compat:
        return
    if loaded is not None:
        raise RuntimeError(
            f"{_NAME} is already imported, from {getattr(loaded, '__file__', None)}: "
            "call claude_agent_py.compat.install() before the first import of it"
        )
    homes = {name: importlib.import_module(home) for name, home in _HOMES.items()}
    sys.modules.update(homes | {_INTERNAL: ModuleType(_INTERNAL)})
    for name in (_INTERNAL, *homes):
        parent, _, leaf = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], leaf, sys.modules[name])

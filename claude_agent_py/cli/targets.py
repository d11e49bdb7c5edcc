"""What a command finds in a module of yours."""

import importlib
import os
import sys
from operator import attrgetter

from claude_agent_py._base.errors import OptionsError


def load_object(target: str, default: str = "options", *, option: str | None = None) -> object:
    """Import what `module:name` names; without a name, the default. The module may be in the working directory.

    A name may have dots.

    Args:
        target: The text.
        default: The name, if `target` has none.
        option: The argument of the command, for the error.

    Raises:
        OptionsError: It cannot be imported.
    """
    module, _, name = target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found: object = attrgetter(name or default)(importlib.import_module(module))
    except Exception as error:  # your module may raise anything
        what = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
        raise OptionsError(f"{target} cannot be loaded: {what}{error}", option=option) from error
    return found

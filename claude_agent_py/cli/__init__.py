"""The command line: `claude-agent-py`, or `python -m claude_agent_py`; and the answers that a person types."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach
from claude_agent_py.cli.program import main as main

if TYPE_CHECKING:
    from claude_agent_py.permissions.typed_answers import read_form as read_form, read_typed as read_typed
else:
    _NAMES = {
        "claude_agent_py.cli.program": "main",
        "claude_agent_py.permissions.typed_answers": "read_form read_typed",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

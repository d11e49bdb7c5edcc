"""The command line: `claude-agent-py`, or `python -m claude_agent_py`."""

from claude_agent_py.cli.main import main

__all__ = ["main"]

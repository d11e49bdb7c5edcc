"""The command line: `claude-agent-py`, or `python -m claude_agent_py`."""

from claude_agent_py.cli.program import main as main

__all__ = ["main"]

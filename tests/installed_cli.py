"""The real CLI of the tests. Whatever else tests know of how the package finds a CLI is in `tests/launch`."""

from typing import Final

from claude_agent_py.options import find_cli as find_cli

CLI_VARIABLE: Final = "CLAUDE_AGENT_CLI"

"""The real CLI of the tests. Whatever else tests know of how the package finds a CLI is in `tests/launch`."""

from claude_agent_py._launch.locate import (
    CLI_VARIABLE as CLI_VARIABLE,
    find_cli as find_cli,
    read_version as read_version,
)

"""The version of the package, and of the CLI that it is tested with."""

__version__ = "0.1.0"

CLI_VERSION = "2.1.332"
"""The Claude Code CLI that `install-cli` fetches and that the tests run against."""

MINIMUM_CLI_VERSION = "2.1.328"
"""The oldest CLI on which all tests with the real CLI pass. Up to 2.1.260 a session with an external MCP server does
not start; up to 2.1.327 messages of subagents, usage, resumed turns or the deferring of tools differ."""

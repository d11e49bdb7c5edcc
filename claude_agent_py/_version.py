"""The version of the package, and of the CLI that it is tested with."""

__version__ = "0.1.0"

CLI_VERSION = "2.1.328"
"""The Claude Code CLI that `install-cli` fetches and that the tests run against."""

MINIMUM_CLI_VERSION = "2.1.238"
"""The oldest CLI whose task messages have the fields that tasks depend on (`is_backgrounded`)."""

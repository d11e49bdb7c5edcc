"""Closed string types for options.

Data from the CLI may contain names that this version does not know (`PermissionMode`, `EffortLevel`). Options must not:
the CLI exits, or drops all agents, on a name that it does not know.
"""

from typing import Literal, TypeAlias

ChosenPermissionMode: TypeAlias = Literal[
    "default", "manual", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto"
]
"""`manual` is an alias of `default`."""
ChosenEffort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
SettingSource: TypeAlias = Literal["user", "project", "local"]
"""A settings file that a session reads: the user's, the project's, or the project's local one."""
MemoryScope: TypeAlias = Literal["user", "project", "local"]

"""The names that users choose from, closed where the wire is open.

What the CLI sends may hold a name that this version does not know (`PermissionMode` in `modes`, `EffortLevel` in
`catalog`); what a user writes must be one that the CLI knows, because it ends, or drops all agents, over one that it
does not.
"""

from typing import Literal, TypeAlias

ChosenPermissionMode: TypeAlias = Literal[
    "default", "manual", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto"
]
"""`manual` is another word for `default`."""
ChosenEffort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
SettingSource: TypeAlias = Literal["user", "project", "local"]
MemoryScope: TypeAlias = Literal["user", "project", "local"]

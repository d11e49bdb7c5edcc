"""Types for permission modes."""

from typing import Literal, TypeAlias

KnownPermissionMode: TypeAlias = Literal["default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto"]
PermissionMode: TypeAlias = KnownPermissionMode | str
"""`default` asks before dangerous operations; `acceptEdits` allows file edits; `bypassPermissions` allows everything
(the session must be launched with it enabled); `plan` allows no changes; `dontAsk` denies everything that no rule
allows; `auto` lets a classifier decide. `manual` is an alias of `default`."""

"""The permission modes of a session, open for those of another CLI.

Owns the two names. Apart from `permissions`, whose models only those sessions need that ask a person.
"""

from typing import Literal, TypeAlias

KnownPermissionMode: TypeAlias = Literal["default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto"]
PermissionMode: TypeAlias = KnownPermissionMode | str
"""`default` asks for what is dangerous; `acceptEdits` allows edits of files; `bypassPermissions` allows everything
(the session must be launched for it); `plan` plans and changes nothing; `dontAsk` denies what no rule allows; `auto`
lets a classifier decide. `manual` is another name of `default`."""

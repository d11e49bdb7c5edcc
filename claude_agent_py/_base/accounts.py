"""The accounts of the operating system's users."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import pwd


def find_account(user: str | int | None) -> pwd.struct_passwd | None:
    """Return the account of a user; None if there is none, for None, and on Windows."""
    if user is None or sys.platform == "win32":
        return None
    try:
        return pwd.getpwnam(user) if isinstance(user, str) else pwd.getpwuid(user)
    except (KeyError, ValueError):
        return None


def find_uid(user: str | int | None) -> int | None:
    """Return the id of a user, who may have no account if it is a number; None for None, and on Windows."""
    account = find_account(user)
    if account is not None:
        return account.pw_uid
    return user if isinstance(user, int) and sys.platform != "win32" else None

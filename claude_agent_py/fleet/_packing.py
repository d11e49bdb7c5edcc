"""Bring packed workspaces from the fleet's database to a machine, and back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from claude_agent_py._event_loop import run_file_work
from claude_agent_py.fleet import _claims
from claude_agent_py.fleet._database import Database
from claude_agent_py.fleet._tables import archives
from claude_agent_py.fleet.workspaces import Archive, Workspace

PART_BYTES: Final = 1024 * 1024
TRANSFER_SECONDS: Final = 600.0
"""For how long a pack may be on its way to or from the database."""
MARK: Final = ".packed"
"""In the folder of a session: the number of the step whose pack is unpacked there."""


async def unpack(database: Database, claim: _claims.Claim, workspace: Workspace, folder: Path) -> None:
    """Unpack the workspace that another machine packed, unless this one has it already."""
    if not isinstance(workspace, Archive):
        return
    stamp = await database.call(_stamp, claim.id, write=False)
    if stamp is None or stamp == await run_file_work(_read, folder):
        return
    data = await database.call(_load, claim.id, write=False, answer=TRANSFER_SECONDS)
    await run_file_work(workspace.unpack, folder, data)
    await run_file_work((folder / MARK).write_text, stamp)


async def keep(database: Database, claim: _claims.Claim, workspace: Workspace | None, folder: Path) -> None:
    """Pack the workspace into the database, if it is one that travels."""
    if isinstance(workspace, Archive):
        data = await run_file_work(workspace.pack, folder, claim.id)
        await database.call(_save, claim, data, answer=TRANSFER_SECONDS)
        await run_file_work((folder / MARK).write_text, str(claim.epoch))


def _read(folder: Path) -> str | None:
    try:
        return (folder / MARK).read_text()
    except OSError:
        return None


def _stamp(connection: Connection, session: str) -> str | None:
    """Return the epoch that packed the workspace, which is part -1."""
    query = select(archives.c.data).where(archives.c.session == session, archives.c.part == -1)
    found: bytes | None = connection.scalar(query)
    return None if found is None else bytes(found).decode()


def _load(connection: Connection, session: str) -> bytes:
    query = select(archives.c.data).where(archives.c.session == session, archives.c.part >= 0)
    return b"".join(bytes(part) for part in connection.execute(query.order_by(archives.c.part)).scalars())


def _save(connection: Connection, claim: _claims.Claim, data: bytes) -> None:
    """Replace the pack. Raises LostError."""
    _claims.check(connection, claim)
    connection.execute(delete(archives).where(archives.c.session == claim.id))
    parts: Mapping[int, bytes] = {i: data[at : at + PART_BYTES] for i, at in enumerate(range(0, len(data), PART_BYTES))}
    for part, piece in {-1: str(claim.epoch).encode(), **parts}.items():
        connection.execute(insert(archives).values(session=claim.id, part=part, data=piece))

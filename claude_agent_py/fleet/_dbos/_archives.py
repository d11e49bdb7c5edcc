"""Packed workspaces in the fleet's database: `pack_workspace` and `unpack_workspace`."""

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py.fleet._dbos import _claims
from claude_agent_py.fleet._dbos._database import Database
from claude_agent_py.fleet._dbos._tables import archives
from claude_agent_py.fleet.workspaces import Archive, Workspace

PART_BYTES: Final = 1024 * 1024
TRANSFER_SECONDS: Final = 600.0
"""Seconds that the transfer of a packed workspace to or from the database may take."""
MARK: Final = ".packed"
"""A file in the folder of a session: the epoch of the packed workspace that was unpacked there."""


async def unpack_workspace(database: Database, claim: _claims.Claim, workspace: Workspace, folder: Path) -> None:
    """Unpack the workspace that another machine packed, unless this machine has it already."""
    if not isinstance(workspace, Archive):
        return
    stamp = await database.read(_load_stamp, claim.id)
    if stamp is None or stamp == await run_file_work(_read_mark, folder):
        return
    data = await database.read(_load_data, claim.id, answer_seconds=TRANSFER_SECONDS)
    await run_file_work(workspace.unpack, folder, data)
    await run_file_work((folder / MARK).write_text, stamp)


async def pack_workspace(database: Database, claim: _claims.Claim, workspace: Workspace | None, folder: Path) -> None:
    """Pack the workspace into the database if it is an `Archive`."""
    if isinstance(workspace, Archive):
        data = await run_file_work(workspace.pack, folder, claim.id)
        await database.write(_save, claim, data, answer_seconds=TRANSFER_SECONDS)
        await run_file_work((folder / MARK).write_text, str(claim.epoch))


def _read_mark(folder: Path) -> str | None:
    try:
        return (folder / MARK).read_text()
    except OSError:
        return None


def _load_stamp(connection: Connection, session: str) -> str | None:
    """Return the epoch of the packed workspace, which is stored as part -1."""
    query = select(archives.c.data).where(archives.c.session == session, archives.c.part == -1)
    found: bytes | None = connection.scalar(query)
    return None if found is None else bytes(found).decode()


def _load_data(connection: Connection, session: str) -> bytes:
    query = select(archives.c.data).where(archives.c.session == session, archives.c.part >= 0)
    return b"".join(bytes(part) for part in connection.execute(query.order_by(archives.c.part)).scalars())


def _save(connection: Connection, claim: _claims.Claim, data: bytes) -> None:
    """Replace the packed workspace. Raises LostError."""
    _claims.check_claim(connection, claim)
    connection.execute(delete(archives).where(archives.c.session == claim.id))
    parts = {-1: str(claim.epoch).encode()}
    for part, start in enumerate(range(0, len(data), PART_BYTES)):
        parts[part] = data[start : start + PART_BYTES]
    for part, content in parts.items():
        connection.execute(insert(archives).values(session=claim.id, part=part, data=content))

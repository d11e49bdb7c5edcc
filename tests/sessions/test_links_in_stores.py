"""What a link inside of a `DirectoryStore` leads to is not read, listed, written or deleted."""

import os
import shutil
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import pytest

from claude_agent_py.errors import StoreError
from claude_agent_py.sessions import DirectoryStore, SessionKey, SessionStoreEntry

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")]

SESSION = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
KEY: SessionKey = {"project_key": "-work", "session_id": SESSION}
SUBAGENT: SessionKey = {**KEY, "subpath": "subagents/agent-1"}
LINKED = [
    "projects",
    "projects/-work",
    f"projects/-work/{SESSION}.jsonl",
    f"projects/-work/{SESSION}",
    f"projects/-work/{SESSION}/subagents",
    f"projects/-work/{SESSION}/subagents/agent-1.jsonl",
    "state",
    "state/-work",
    f"state/-work/{SESSION}.json",
    f"state/-work/{SESSION}.lock",
]


def entry(uuid: str) -> list[SessionStoreEntry]:
    return [cast("SessionStoreEntry", {"type": "user", "uuid": uuid, "customTitle": uuid})]


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("linked", LINKED)
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_link_in_the_folder_is_not_followed(linked: str, tmp_path: Path, anyio_backend: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    for made in (outside, root):
        store = DirectoryStore(made)
        for key in (KEY, SUBAGENT):
            await store.append(key, entry("SECRET" if made is outside else "own"))
    replaced = root / linked
    (shutil.rmtree if replaced.is_dir() else os.unlink)(replaced)
    replaced.symlink_to(outside / linked)
    before, seen, refused = files_in(outside), "", list[str]()

    calls: list[Awaitable[Any]] = [
        *(store.load(key) for key in (KEY, SUBAGENT)),
        store.list_subkeys(KEY),
        store.list_sessions("-work"),
        store.list_session_summaries("-work"),
        store.find_session(SESSION),
        *(store.append(key, entry("new")) for key in (KEY, SUBAGENT)),
        store.acquire_lease(KEY, "me"),
        *(store.delete(key) for key in (SUBAGENT, KEY)),
    ]
    for call in calls:
        try:
            seen += str(await call)
        except StoreError as error:
            refused.append(str(error))
    assert "SECRET" not in seen
    assert refused
    assert all("is a link" in each for each in refused)
    assert files_in(outside) == before


async def test_a_link_to_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    await DirectoryStore(tmp_path / "root").append(KEY, entry("own"))
    assert await DirectoryStore(tmp_path / "disk").load(KEY) == entry("own")

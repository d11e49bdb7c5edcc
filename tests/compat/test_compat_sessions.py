"""The functions for sessions return what the official SDK returns, and raise its errors."""

import errno
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from later import Later
from stored import SESSION, Stored, call

from claude_agent_py.compat import sessions as compat
from claude_agent_py.errors import SessionError
from claude_agent_py.sessions import DirectoryStore, MemoryStore, project_key_for_directory

if TYPE_CHECKING:
    import claude_agent_sdk as official
else:
    official = Later("claude_agent_sdk")

pytestmark = pytest.mark.anyio

OTHER = "22222222-2222-4222-8222-222222222222"
UNKNOWN = "99999999-9999-4999-8999-999999999999"
HERE = os.getcwd()


@pytest.fixture(autouse=True)
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Two sessions in the folder that both SDKs use."""
    stored = Stored(tmp_path / "config", project=project_key_for_directory(HERE))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(stored.config))
    stored.user("one")
    stored.assistant(call("t1", "Agent"))
    stored.result("t1", "looked")
    stored.assistant("first answer")
    stored.note("custom-title", customTitle="A title")
    stored.note("tag", tag="hot")
    stored.agent("a1", ["look", "looked"], agentType="Explore", toolUseId="t1", parentAgentId="a0")
    Stored(stored.config, OTHER, project=project_key_for_directory(HERE)).user("two")
    os.utime(stored.path, (2e9, 2e9))  # the order does not depend on the clock
    return stored


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(each) for each in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


READS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("list_sessions", (), {}),
    ("list_sessions", (HERE,), {"limit": 0, "offset": 1}),
    ("list_sessions", (), {"limit": 1}),
    ("list_sessions", (HERE,), {"limit": -1, "offset": -1}),
    *[("get_session_info", (id,), {}) for id in (SESSION, UNKNOWN, "no uuid")],
    *[("get_session_messages", (id,), {}) for id in (SESSION, UNKNOWN, "no uuid")],
    ("get_session_messages", (SESSION, HERE), {"limit": 2, "offset": 1}),
    ("get_session_messages", (SESSION,), {"limit": -1, "offset": -1}),
    *[("list_subagents", (id,), {}) for id in (SESSION, OTHER, UNKNOWN, "no uuid")],
    *[("get_subagent_messages", (SESSION, agent), {"offset": 1}) for agent in ("a1", "a2", "")],
]


@pytest.mark.one_backend
@pytest.mark.parametrize(("name", "args", "options"), READS)
def test_sessions_on_disk_are_read_as_by_the_official_sdk(
    name: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    ours, theirs = getattr(compat, name)(*args, **options), getattr(official, name)(*args, **options)
    assert plain(ours) == plain(theirs)


@pytest.fixture(params=["ours", "official", "of two methods"])
async def store(request: pytest.FixtureRequest) -> Any:
    """A store with the sessions."""

    class OnlyRequired:
        def __init__(self, whole: Any) -> None:
            self.append, self.load = whole.append, whole.load

    store: Any = MemoryStore() if request.param == "ours" else official.InMemorySessionStore()
    for session in (SESSION, OTHER):
        await compat.import_session_to_store(session, store)
    return OnlyRequired(store) if request.param == "of two methods" else store


async def outcome(function: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
    try:
        found = plain(await function(*args, **options))
    except ValueError as error:
        return str(error).partition(" -- ")[2].partition(".")[0] or str(error)
    if isinstance(found, dict):
        del found["last_modified"]  # the time of the call
    return found


async def test_sessions_in_a_store_are_read_as_by_the_official_sdk(store: Any) -> None:
    for name, args, options in READS:
        ours = await outcome(getattr(compat, f"{name}_from_store"), store, *args, **options)
        assert ours == await outcome(getattr(official, f"{name}_from_store"), store, *args, **options), (name, args)


@pytest.mark.one_backend
async def test_an_import_stores_what_the_official_sdk_stores_in_batches_of_the_same_size() -> None:
    class Counting(official.InMemorySessionStore):
        def __init__(self) -> None:
            super().__init__()
            self.sizes: list[int] = []

        async def append(self, key: Any, entries: Any) -> None:
            self.sizes.append(len(entries))
            await super().append(key, entries)

    ours, theirs = Counting(), Counting()
    await compat.import_session_to_store(SESSION, ours, batch_size=2)
    await official.import_session_to_store(SESSION, theirs, batch_size=2)
    key: Any = {"project_key": project_key_for_directory(HERE), "session_id": SESSION}
    agent: Any = {**key, "subpath": "subagents/agent-a1"}
    for place in (key, agent):
        assert await ours.load(place) == await theirs.load(place)
    assert ours.sizes == theirs.sizes


async def test_sessions_are_changed_and_the_errors_are_the_official_ones(stored: Stored, tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "store")
    await compat.import_session_to_store(SESSION, store)
    compat.rename_session(SESSION, " new ")
    compat.tag_session(SESSION, None)
    await compat.rename_session_via_store(store, SESSION, " new ")
    await compat.tag_session_via_store(store, SESSION, None)
    for info in (official.get_session_info(SESSION), await official.get_session_info_from_store(store, SESSION)):
        assert info is not None
        assert (info.custom_title, info.tag) == ("new", None)
    copies = [compat.fork_session(SESSION).session_id, (await compat.fork_session_via_store(store, SESSION)).session_id]
    assert official.get_session_info(copies[0]) is not None
    assert await official.get_session_info_from_store(store, copies[1]) is not None
    wrong: list[tuple[type[Exception], str, str, tuple[Any, ...]]] = [
        (ValueError, "Invalid session_id: x", "rename_session", ("x", "t")),
        (ValueError, "title must be non-empty", "rename_session", (SESSION, " ")),
        (ValueError, "tag must be non-empty", "tag_session", (SESSION, "\u200b")),
        (ValueError, "Invalid up_to_message_id: x", "fork_session", (SESSION, None, "x")),
        (ValueError, f"Message {UNKNOWN} not found in session {SESSION}", "fork_session", (SESSION, None, UNKNOWN)),
        (FileNotFoundError, f"Session {UNKNOWN} not found", "fork_session", (UNKNOWN,)),
    ]
    for error, text, name, args in wrong:
        with pytest.raises(error, match=text):
            getattr(compat, name)(*args)
        with pytest.raises(error, match=text):
            await getattr(compat, f"{name}_via_store")(store, *args)
    with pytest.raises(FileNotFoundError, match=f"Session {UNKNOWN} not found in project directory for /nowhere"):
        compat.delete_session(UNKNOWN, "/nowhere")
    compat.delete_session(SESSION)
    await compat.delete_session_via_store(store, SESSION)
    await compat.delete_session_via_store(store, UNKNOWN)
    assert official.get_session_info(SESSION) is None
    assert await official.get_session_info_from_store(store, SESSION) is None


@pytest.mark.one_backend
async def test_a_session_that_cannot_be_copied_is_an_error_of_the_official_sdk(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.path.write_text('{"type":"mode","mode":"normal"}\n')
    with pytest.raises(ValueError, match="has no messages to fork"):
        compat.fork_session(SESSION)
    real = os.open

    def refuse(path: Any, *args: Any, **more: Any) -> int:
        if path == str(stored.path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, *args, **more)

    stored.user("again")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SessionError, match="Permission denied"):
        compat.fork_session(SESSION)


@pytest.mark.one_backend
async def test_a_store_that_cannot_delete_keeps_the_session() -> None:
    class Plain:
        async def append(self, key: Any, entries: Any) -> None:
            called.append("append")

        async def load(self, key: Any) -> Any:
            called.append("load")

    store: Any = Plain()
    called: list[str] = []
    await compat.delete_session_via_store(store, SESSION)
    assert "append" not in called


@pytest.mark.one_backend
async def test_a_store_fails_with_its_own_exceptions() -> None:
    class Down(MemoryStore):
        async def load(self, key: Any) -> Any:
            raise ConnectionRefusedError("the database is down")

    with pytest.raises(ConnectionRefusedError, match="the database is down"):
        await compat.get_session_messages_from_store(Down(), SESSION)


@pytest.mark.one_backend
def test_every_function_for_sessions_has_the_official_signature() -> None:
    names = [name for name in dir(official) if "session" in name or "subagent" in name]
    functions = [name for name in names if inspect.isfunction(getattr(official, name))]
    assert len(functions) == 20
    for name in functions:
        ours, theirs = inspect.signature(getattr(compat, name)), inspect.signature(getattr(official, name))
        assert {n: (p.kind, p.default) for n, p in ours.parameters.items()} == {
            n: (p.kind, p.default) for n, p in theirs.parameters.items()
        }, name

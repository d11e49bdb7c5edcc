"""A client with a session store: where it resumes a session from, and what becomes of entries that the store lacks."""

import asyncio
import json
import os
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from bounds import set_bound
from cancelling import cancel_in_a_row
from peers import MakeClient, start_in_memory
from stored import SESSION, Stored

from claude_agent_py import AssistantMessage, Client, ClientOptions, Timeouts
from claude_agent_py.errors import (
    ConnectionClosedError,
    SessionLeasedError,
    SessionNotFoundError,
    StaleLeaseError,
    StoreError,
)
from claude_agent_py.sessions import (
    MemoryStore,
    SessionKey,
    SessionStoreEntry,
    StoredSessions,
    get_session,
    project_key_for_directory,
    push,
)
from claude_agent_py.testing import FakeCLI, frames, steps
from claude_agent_py.transport import LaunchPlan, Transport

pytestmark = pytest.mark.anyio

KEY: SessionKey = {"project_key": "here", "session_id": SESSION}
AGENT = 12345
"""The id of another user."""


class Store(MemoryStore):
    """A store that refuses as many batches as it is told to."""

    def __init__(self, refusals: int = 0) -> None:
        super().__init__()
        self.refusals = refusals

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError("no route to the store")
        await super().append(key, entries, epoch=epoch)

    def texts(self) -> list[str]:
        """Return the prompts and answers of the session."""
        return texts(self.entries(KEY))


class OnlyRequired:
    """A store with the two required methods, without sessions."""

    async def append(self, key: SessionKey, entries: Any) -> None: ...

    async def load(self, key: SessionKey) -> None: ...


def texts(entries: list[Any]) -> list[str]:
    said = [entry["message"]["content"] for entry in entries if entry["type"] in ("user", "assistant")]
    return [text if isinstance(text, str) else text[0]["text"] for text in said]


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the private folders of this test apart from those of others, and try each batch once."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    set_bound(monkeypatch, "MIRROR_PAUSES", ())
    return folder


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """A session on this machine with a prompt and an answer."""
    stored = Stored(tmp_path / "config", project="here")
    stored.user("one")
    stored.assistant("first")
    return stored


@pytest.fixture
def resume(tmp_path: Path, start_process: MakeClient) -> Callable[..., Client]:
    """Return a function that makes a client which resumes the session: `resume(fake, store)`."""

    def make(fake: FakeCLI, store: Any, **options: Any) -> Client:
        env = {"CLAUDE_CONFIG_DIR": str(tmp_path / "config")}
        given = {"session_store_project": "here", "cwd": tmp_path, "resume": SESSION, "env": env}
        return start_process(fake, session_store=store, **(given | options))

    return make


def recording(*script: Any) -> FakeCLI:
    return FakeCLI(*script, record_env=["CLAUDE_CONFIG_DIR"])


def config_of(fake: FakeCLI) -> Path:
    """Return the configuration folder of the last process."""
    folder = fake.starts[-1].environment["CLAUDE_CONFIG_DIR"]
    assert folder is not None
    return Path(folder)


def transcript_of(fake: FakeCLI) -> list[Any]:
    """Return the session that the last process was given."""
    [path] = config_of(fake).glob(f"projects/*/{SESSION}.jsonl")
    return read(path)


@pytest.mark.parametrize(
    ("store", "more", "problem"),
    [
        (MemoryStore, {}, "nor here$"),
        (MemoryStore, {"session_store_project": None}, "nor here$"),
        (OnlyRequired, {"session_store_project": None}, "name the session's project with session_store_project$"),
    ],
)
async def test_a_session_that_neither_the_store_nor_this_machine_has_is_not_found(
    store: Any, more: dict[str, Any], problem: str, resume: Callable[..., Client]
) -> None:
    fake = FakeCLI(steps.stderr(f"No conversation found with session ID: {SESSION}\n"), steps.exit(1))
    with pytest.raises(SessionNotFoundError, match=problem) as caught:
        async with resume(fake, store(), **more):
            pytest.fail("it starts")
    assert caught.value.session_id == SESSION


async def test_a_fork_needs_no_lease(stored: Stored, resume: Callable[..., Client]) -> None:
    store, fake = Store(), recording()
    await store.append(KEY, read(stored.path))
    await store.acquire_lease(KEY, "its writer")
    with pytest.raises(SessionLeasedError, match="its writer"):
        async with resume(FakeCLI(), store):
            pytest.fail("it starts")
    async with resume(fake, store, fork_session=True):
        assert texts(transcript_of(fake)) == ["one", "first"]
        assert "--fork-session" in fake.starts[0].argv
    assert store.texts() == ["one", "first"]


async def test_answers_of_this_machine_that_the_store_lacks_are_sent_first(
    stored: Stored, resume: Callable[..., Client]
) -> None:
    store, fake = Store(), recording()
    await store.append(KEY, read(stored.path))
    stored.user("two")
    stored.assistant("second")
    async with resume(fake, store):
        assert store.texts() == ["one", "first", "two", "second"]
        assert texts(transcript_of(fake)) == ["one", "first", "two", "second"]
        assert config_of(fake) != stored.config
    assert not config_of(fake).exists()


@pytest.mark.parametrize("continues", [True, False])
async def test_what_a_killed_process_left_is_sent_later_if_the_store_refuses_it(
    continues: bool, stored: Stored, resume: Callable[..., Client], temporary: Path
) -> None:
    """What does not continue the stored conversation becomes a branch that it has left."""
    store, fake = Store(), recording()
    await store.append(KEY, read(stored.path))
    left = temporary / f"claude-agent-py-session-{'0' * 16}" / "projects" / "p" / f"{SESSION}.jsonl"
    left.parent.mkdir(parents=True)
    entry = read(stored.path)[-1]
    parent = entry["uuid"] if continues else None
    message = {**entry["message"], "id": "msg_late", "content": [{"type": "text", "text": "late"}]}
    late = {**entry, "uuid": str(uuid.UUID(int=99)), "parentUuid": parent, "message": message}
    left.write_text(json.dumps(late) + "\n")
    store.refusals = 1
    conversation = ["one", "first", "late"] if continues else ["one", "first"]
    async with resume(fake, store) as client:
        given = get_session(SESSION, config_dir=config_of(fake))
        assert [message.text for message in given.messages] == conversation
        assert store.texts() == ["one", "first"]
        await client.sync_store()
        assert store.texts() == ["one", "first", "late"]
        kept = await StoredSessions(store, project_key=KEY["project_key"]).get(SESSION)
        assert [message.text for message in kept.messages] == conversation
    assert left.exists()


async def test_a_new_home_has_no_session_to_continue_or_resume(
    stored: Stored, resume: Callable[..., Client], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, store = FakeCLI(steps.turn("new")), Store()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(stored.config))
    options: Any = {"resume": None, "continue_conversation": True, "cwd": tmp_path, "session_store_project": None}
    project = stored.path.parent.rename(stored.path.parents[1] / project_key_for_directory(tmp_path)).name
    await store.acquire_lease({**KEY, "project_key": project}, "the writer of the other session")
    async with resume(fake, store, env={}, **options, home=True) as client:
        assert (await client.query("hi")).text == "new"
    assert SESSION not in " ".join(fake.starts[0].argv)
    lacking = FakeCLI(steps.stderr(f"No conversation found with session ID: {SESSION}\n"), steps.exit(1))
    empty, by_name = Store(), {**options, "resume": SESSION, "continue_conversation": False}
    with pytest.raises(SessionNotFoundError):
        async with resume(lacking, empty, env={}, **by_name, home=True):
            pytest.fail("it starts")
    assert empty.entries({**KEY, "project_key": project}) == []
    again = FakeCLI(steps.turn("more"))
    async with resume(again, Store(), env={}, **options) as client:
        assert (await client.query("hi")).text == "more"
    assert SESSION in " ".join(again.starts[0].argv)


async def test_a_session_that_only_an_unwritable_folder_may_have_is_refused(
    tmp_path: Path, resume: Callable[..., Client]
) -> None:
    (tmp_path / "config").write_text("")
    with pytest.raises(StoreError, match=f"cannot write transcripts in {tmp_path / 'config'} .* to continue a session"):
        async with resume(FakeCLI(), Store()):
            pytest.fail("it starts")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can act as another user")
async def test_the_files_of_a_resumed_session_are_given_to_the_user_of_the_cli(stored: Stored, tmp_path: Path) -> None:
    store, owners = Store(), dict[str, int]()
    await store.append(KEY, read(stored.path))

    def spawn(plan: Any) -> Any:
        paths = [plan.config_dir, *plan.config_dir.rglob("*")]
        owners.update((path.name, path.lstat().st_uid) for path in paths)
        return FakeCLI().transport()

    options = ClientOptions(
        spawn=spawn, cli_path="claude", user=AGENT, cwd=tmp_path, resume=SESSION, session_store=store,
        session_store_project="here", env={"CLAUDE_CONFIG_DIR": str(tmp_path / "his")},
    )  # fmt: skip
    async with Client(options):
        assert owners[f"{SESSION}.jsonl"] == AGENT
        assert owners == dict.fromkeys(owners, AGENT)


@pytest.mark.parametrize("settings", [None, {"model": "sonnet"}], ids=["", "and settings"])
async def test_a_program_of_another_place_gets_the_files_of_a_resumed_session(
    settings: Any, stored: Stored, tmp_path: Path
) -> None:
    store, given, missing = Store(), dict[Path, str](), list[str | None]()
    await store.append(KEY, read(stored.path))

    def spawn(plan: LaunchPlan) -> Transport:
        assert plan.files
        assert len(plan.files) == len(list(plan.files))
        given.update(plan.files)
        missing.append(plan.files.get(tmp_path / "missing"))
        return FakeCLI().transport()

    options = ClientOptions(
        spawn=spawn, cli_path="claude", cwd=tmp_path, resume=SESSION, session_store=store,
        session_store_project="here", env={"CLAUDE_CONFIG_DIR": str(tmp_path / "config")}, settings=settings,
    )  # fmt: skip
    async with Client(options):
        [transcript] = [text for path, text in given.items() if path.name == f"{SESSION}.jsonl"]
        assert texts([json.loads(line) for line in transcript.splitlines()]) == ["one", "first"]
        assert any("sonnet" in text for text in given.values()) is bool(settings)
    assert missing == [None]


async def test_an_answer_that_was_not_stored_before_a_clean_end_is_reported(start_process: MakeClient) -> None:
    lost = list[StoreError]()
    fake = FakeCLI(steps.wait_for_prompt(), frames.of_prompt(frames.init()), frames.assistant("half an answer"))
    async with start_process(fake, session_store=Store(), on_store_error=lost.append) as client:
        messages = client.messages()
        run = client.query("hi")
        async for message in messages:
            if isinstance(message, AssistantMessage):
                break
    with pytest.raises(ConnectionClosedError):
        await run
    assert [str(error).partition(":")[0].partition(" of ")[0] for error in lost] == [
        "the session store lacks 1 messages"
    ]


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_cancellations_by_asyncio_in_a_row_leave_nothing_of_a_session_that_was_not_resumed(
    stored: Stored, resume: Callable[..., Client], temporary: Path, anyio_backend: str
) -> None:
    is_copying = anyio.Event()

    class Stalling(Store):
        async def list_subkeys(self, key: Any) -> list[str]:
            is_copying.set()
            await anyio.sleep_forever()
            return []

    store = Stalling()
    await store.append(KEY, read(stored.path))
    connecting = asyncio.create_task(resume(FakeCLI(), store).connect())
    with anyio.fail_after(60):
        await is_copying.wait()
        assert list(temporary.iterdir()) != []
        await cancel_in_a_row(connecting)
        await asyncio.wait([connecting])
    assert connecting.cancelled()
    assert await store.find_lease(KEY) is None
    assert list(temporary.iterdir()) == []


@pytest.mark.each_backend
async def test_who_waits_for_a_store_that_hangs_waits_until_the_end_of_the_session(start_process: MakeClient) -> None:
    called = anyio.Event()

    class Hanging(Store):
        async def append(self, key: SessionKey, entries: Any, *, epoch: int | None = None) -> None:
            called.set()
            await anyio.sleep_forever()

    fake = FakeCLI(steps.turn("hello"))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            async with start_process(fake, session_store=Hanging(), timeouts=Timeouts(close=1)) as client:
                await client.query("hi")
                group.start_soon(client.sync_store)
                await called.wait()


async def test_what_is_not_a_transcript_of_a_session_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    odd = {"type": "transcript_mirror", "filePath": "/etc/notes.txt", "entries": [{"type": "user", "uuid": "1"}]}
    async with start_in_memory(FakeCLI(steps.wait_for_prompt(), odd, frames.result()), session_store=store) as client:
        assert (await client.query("hi")).text == "ok"
        await client.sync_store()
    assert store.keys == []
    assert "/etc/notes.txt is not the transcript of a session" in caplog.text


USED = {"m": {"inputTokens": 1, "outputTokens": 1, "costUSD": 0.01}}


@pytest.mark.parametrize("budget", [None, 1.0])
async def test_the_cost_of_each_turn_is_stored_if_there_is_a_limit(budget: float | None) -> None:
    """Otherwise at the end only: with a limit, the next process has to know it even if this one is killed."""
    store = Store()
    fake = FakeCLI(steps.wait_for_prompt(), frames.result(modelUsage=USED, session_id=SESSION))
    options: Any = {"session_store": store, "session_store_project": "here", "max_budget_usd": budget}
    async with start_in_memory(fake, **options) as client:
        await client.query("hi")
        await client.sync_store()
        assert [entry["type"] for entry in store.entries(KEY)] == (["cost-state"] if budget else [])
    assert [entry["type"] for entry in store.entries(KEY)] == ["cost-state"]


@pytest.mark.parametrize("listens", [True, False])
async def test_entries_of_a_cli_elsewhere_that_the_store_refuses_can_be_pushed(
    listens: bool, start_process: MakeClient, caplog: pytest.LogCaptureFixture, temporary: Path
) -> None:
    """The fake reports its transcript, and has no file."""
    store, errors = Store(refusals=1000), list[StoreError]()
    listen = errors.append if listens else None
    options: Any = {"session_store": store, "session_store_project": "here", "session_id": SESSION}
    async with start_process(FakeCLI(steps.turn("first")), **options, on_store_error=listen) as client:
        await client.query("one")
    [folder] = temporary.glob("claude-agent-py-session-*")
    assert f"{folder} has them, and sessions.push sends them again" in caplog.text
    assert [error.kept_in for error in errors] == ([None, str(folder)] if listens else [])
    store.refusals = 0
    assert await push(store, SESSION, config_dir=folder, project_key="here")
    assert store.texts() == ["one", "first"]


async def test_entries_that_nothing_has_are_reported_as_lost(
    start_process: MakeClient, caplog: pytest.LogCaptureFixture, temporary: Path
) -> None:
    store, errors = Store(refusals=1000), list[StoreError]()
    options: Any = {"session_store": store, "session_id": SESSION, "on_store_error": errors.append}
    async with start_process(FakeCLI(steps.turn("first")), **options) as client:
        await client.query("one")
        temporary.rmdir()
    assert [error.kept_in for error in errors] == [None, None]
    assert f"the entries of {SESSION} cannot be kept: the private folder cannot be created" in caplog.text
    assert "they are lost" in caplog.text


@pytest.mark.parametrize("home", [True, False])
async def test_entries_stay_in_the_transcript_unless_it_is_in_a_home_that_is_removed(
    home: bool, start_process: MakeClient, tmp_path: Path, temporary: Path
) -> None:
    store, errors, fake = Store(refusals=1000), list[StoreError](), recording(steps.turn("first"))
    options: Any = {"session_store": store, "session_id": SESSION, "on_store_error": errors.append}
    where: Any = {"home": True} if home else {"env": {"CLAUDE_CONFIG_DIR": str(tmp_path / "config")}}
    async with start_process(fake, **options, **where) as client:
        transcript = config_of(fake) / "projects" / "fake" / f"{SESSION}.jsonl"
        transcript.parent.mkdir(parents=True)
        transcript.write_text("")
        await client.query("one")
    if home:
        assert not config_of(fake).exists()
        assert [errors[-1].kept_in] == [str(folder) for folder in temporary.glob("claude-agent-py-session-*")]
    else:
        assert errors[-1].kept_in == str(tmp_path / "config")


async def test_entries_stay_in_the_transcript_of_a_resumed_session(
    stored: Stored, resume: Callable[..., Client]
) -> None:
    store, errors, fake = Store(), list[StoreError](), recording(steps.turn("second"))
    await store.append(KEY, read(stored.path))
    async with resume(fake, store, on_store_error=errors.append) as client:
        transcript = config_of(fake) / "projects" / "fake" / f"{SESSION}.jsonl"
        transcript.parent.mkdir(parents=True)
        transcript.write_text("")
        store.refusals = 1000
        await client.query("two")
    assert errors[-1].kept_in == str(config_of(fake))
    assert transcript.exists()


async def test_a_lease_that_is_lost_while_the_session_is_copied_is_reported(
    stored: Stored, resume: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stolen(Store):
        async def load(self, key: SessionKey) -> Any:
            if not errors:
                await self.acquire_lease(key, "another", steal=True)
                with anyio.fail_after(60):
                    await reported.wait()
            return await super().load(key)

    def listen(error: StoreError) -> None:
        errors.append(error)
        reported.set()

    set_bound(monkeypatch, "LEASE_SECONDS", 0.03)
    errors, reported, store = list[StoreError](), anyio.Event(), Stolen()
    await store.append(KEY, read(stored.path))
    async with resume(FakeCLI(), store, on_store_error=listen):
        pass
    [error] = errors
    assert isinstance(error, StaleLeaseError)
    assert "another" in str(error)

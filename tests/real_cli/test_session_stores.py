"""Session stores with the real CLI: what is mirrored, and what a fresh process resumes from."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from forks import Program, run_program
from leftovers import kill

from claude_agent_py import Client, ClientOptions, Timeouts, query, run, run_sync
from claude_agent_py.errors import ClaudeAgentError, OptionsError, SessionLeasedError, SessionNotFoundError, StoreError
from claude_agent_py.messages import MirrorErrorMessage, TranscriptMirrorMessage
from claude_agent_py.sessions import (
    Lease,
    MemoryStore,
    SessionKey,
    SessionStoreEntry,
    SQLiteStore,
    StoredSessions,
    project_key_for_directory,
    push,
)
from claude_agent_py.testing import FakeCLI, RecordedRequest, Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the private folders of this test apart from those of others."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))


PATIENT = Timeouts(close=60)
"""After the usual 10 seconds `close()` kills the CLI, or returns before the store has everything and its lease back:
on a busy machine that may be too soon."""


def key_of(model: ScriptedModel, session_id: str) -> SessionKey:
    return {"project_key": project_key_for_directory(model.sandbox.cwd), "session_id": session_id}


def on_disk(config: Path, session_id: str) -> list[dict[str, Any]]:
    [path] = config.glob(f"projects/*/{session_id}.jsonl")
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [entry for entry in entries if not entry["type"].startswith("api-request")]


def private_folders() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("claude-agent-py-session-")}


def a_subagent() -> Reply:
    arguments = {"description": "look", "prompt": "Look", "subagent_type": "general-purpose"}
    return Reply([tool_use("Agent", arguments)])


@dataclass(frozen=True)
class Begun:
    """A session of one turn, as the CLI wrote it, which many tests go on with."""

    session_id: str
    entries: list[SessionStoreEntry]

    async def put_into(self, store: Any, model: ScriptedModel) -> None:
        """Put the session into a store, as a session of the model's directory."""
        await store.append(key_of(model, self.session_id), self.entries)

    def put_on_disk(self, model: ScriptedModel, config: Path | None = None) -> None:
        """Put the session where the CLI keeps those of the model's directory."""
        folder = (config or model.sandbox.config_dir) / "projects" / project_key_for_directory(model.sandbox.cwd)
        folder.mkdir(parents=True)
        lines = [json.dumps(entry) for entry in self.entries]
        (folder / f"{self.session_id}.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")


@pytest.fixture(scope="module")
def begun() -> Begun:
    """The session, in which the prompt was "base"."""
    store = MemoryStore()
    with ScriptedModel(["answered"]) as model:
        session_id = run_sync("base", model.options(session_store=store)).session_id
        return Begun(session_id, store.entries(key_of(model, session_id)))


async def test_the_store_has_all_when_close_returns() -> None:
    async with ScriptedModel([a_subagent(), "done", "told"], agents={"Look": "looked"}) as model:
        store = MemoryStore()
        async with Client(model.options(session_store=store, session_store_flush="eager", timeouts=PATIENT)) as client:
            seen: list[object] = []

            async def read() -> None:
                seen.extend([message async for message in client.messages()])

            async with anyio.create_task_group() as readers:
                readers.start_soon(read)
                first = await client.query("hi", until="idle")
                await client.close()
        key = key_of(model, first.session_id)
        stored = store.entries(key)
        assert stored == on_disk(model.sandbox.config_dir, first.session_id)
        assert stored[-1]["type"] == "cost-state"  # written after the result
        [subagent] = await store.list_subkeys(key)
        entries = store.entries({**key, "subpath": subagent})
        assert {entry["type"] for entry in entries} >= {"agent_metadata", "user", "assistant"}
        assert not any(isinstance(message, TranscriptMirrorMessage) for message in seen)


RESUME = """
import json, sys, anyio
from claude_agent_py import Client, ClientOptions, Timeouts
from claude_agent_py.sessions import DirectoryStore, PostgresStore, RedisStore, S3Store, SQLiteStore

def opened(kind, where):
    if kind != "s3":
        kinds = {"postgres": PostgresStore, "redis": RedisStore, "sqlite": SQLiteStore, "directory": DirectoryStore}
        return kinds[kind](where)
    import boto3
    endpoint, bucket = where.rsplit("/", 1)
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1",
                          aws_access_key_id="a", aws_secret_access_key="b")
    return S3Store(bucket, client=client)

async def main():
    stores, session_id, given = map(json.loads, sys.argv[1:])
    for kind, where in stores.items():
        store, timeouts = opened(kind, where), Timeouts(close=60)
        options = ClientOptions(session_store=store, resume=session_id, inherit_env=False, timeouts=timeouts, **given)
        async with Client(options) as client:
            result = await client.query(f"What did I say in {kind}?", until="idle")
            print(json.dumps([result.text, result.session_id]), flush=True)
anyio.run(main)
"""


@pytest.fixture(params=["sqlite", pytest.param("server", marks=pytest.mark.long)])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, tuple[str, Any]]:
    """Return where another process finds a store in a file, or one on a server.

    That the others keep the same contract is tested in `tests/sessions/test_stores.py`.
    """
    if request.param == "sqlite":
        return {"sqlite": (str(tmp_path / "s.db"), SQLiteStore(tmp_path / "s.db"))}
    found = dict[str, tuple[str, Any]]()
    for server in ("redis", "postgres", "s3"):
        with suppress(pytest.skip.Exception):
            found[server] = request.getfixturevalue(f"a_{server}_store")
            break
    else:
        pytest.skip("this machine has no server of a store")
    return found


class OnlyRequired:
    """A store with the two required methods, without sessions."""

    async def append(self, key: SessionKey, entries: Any) -> None: ...

    async def load(self, key: SessionKey) -> None: ...


class Everywhere(MemoryStore):
    """A store that has its entries in others, too."""

    def __init__(self, *others: Any) -> None:
        super().__init__()
        self.others = others

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        await super().append(key, entries, epoch=epoch)
        for other in self.others:
            await other.append(key, entries)


async def test_a_fresh_process_resumes_in_another_directory(kept: dict[str, tuple[str, Any]], tmp_path: Path) -> None:
    """From one store after the other."""

    def answer(
        request: RecordedRequest,
    ) -> Any:  # by what is asked: the CLI may tell of the subagent in a turn of its own
        asked = re.findall(r"What did I say in (\w+)\?", str(request.messages))
        if asked:
            return f"You said kumquat in {asked[-1]}."
        return "noted" if request.tool_results else a_subagent()

    async with ScriptedModel(answer, agents={"Look": "the looked-at"}) as model:
        store = Everywhere(*(store for _, store in kept.values()))
        async with Client(model.options(session_store=store, timeouts=PATIENT)) as client:
            first = await client.query("The word is kumquat.", until="idle")
        key = key_of(model, first.session_id)
        before = await store.load(key) or []
        assert "the looked-at" in str(
            [await store.load({**key, "subpath": path}) for path in await store.list_subkeys(key)]
        )
        elsewhere, home = tmp_path / "elsewhere", tmp_path / "home"
        elsewhere.mkdir()
        home.mkdir()
        env = {**model.environment(), "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "config")}
        given = {"cwd": str(elsewhere), "env": env, "permission_mode": "bypassPermissions"}
        where = {kind: place for kind, (place, _) in kept.items()}
        arguments = map(json.dumps, (where, first.session_id, given))
        done = await anyio.to_thread.run_sync(run_program, [sys.executable, "-c", RESUME, *arguments])
        told = [json.loads(line) for line in done.stdout.splitlines()]
        assert told == [[f"You said kumquat in {kind}.", first.session_id] for kind in kept]
        assert not list(home.rglob("*.jsonl"))
        requests = model.requests_of("main")[-len(kept) :]
        for (kind, (_, there)), request in zip(kept.items(), requests, strict=True):
            said = json.dumps(request.body["messages"])
            for earlier in ("The word is kumquat.", f"What did I say in {kind}?", "look"):
                assert earlier in said, kind
            after = await there.load(key)
            assert after[: len(before)] == before, kind
            texts = json.dumps(after[len(before) :])
            assert texts.count("What did I say in ") > 0, kind
            assert f"You said kumquat in {kind}." in texts, kind
            assert await there.find_session(first.session_id) == [key["project_key"]], kind


async def test_the_private_folder_has_the_login_and_is_removed(begun: Begun, tmp_path: Path) -> None:
    store = MemoryStore()
    async with ScriptedModel(lambda request: "answered") as model:
        await begun.put_into(store, model)
        begun.put_on_disk(model)
        config = model.sandbox.config_dir
        login = {"claudeAiOauth": {"accessToken": "at", "refreshToken": "rt"}}
        (config / ".credentials.json").write_text(json.dumps(login))
        (config / "plugins").mkdir()
        (config / "CLAUDE.md").write_text("Say the word persimmon.")
        leading_away = {"env": {"CLAUDE_CONFIG_DIR": str(tmp_path / "away")}, "apiKeyHelper": "echo k"}
        (config / "settings.json").write_text(json.dumps(leading_away))
        before = private_folders()
        async with Client(model.options(session_store=store, resume=begun.session_id)) as client:
            [name] = private_folders() - before
            folder = Path(model.sandbox.temp).parent.parent / name
            assert folder.stat().st_mode & 0o077 == 0
            assert json.loads((folder / ".credentials.json").read_text()) == {"claudeAiOauth": {"accessToken": "at"}}
            assert json.loads((folder / "settings.json").read_text()) == {"env": {}, "apiKeyHelper": "echo k"}
            assert (folder / ".claude.json").stat().st_mode & 0o077 == 0
            await client.query("two")
            assert "persimmon" in json.dumps(model.requests_of("main")[-1].body)
        assert private_folders() == before
        assert json.loads((config / ".credentials.json").read_text()) == login
        assert len(list(config.rglob("*.jsonl"))) == 1
        assert not (tmp_path / "away").exists()


@pytest.mark.long
async def test_the_private_folder_of_a_session_that_does_not_start_is_removed(begun: Begun) -> None:
    store = MemoryStore()
    async with ScriptedModel([]) as model:
        await begun.put_into(store, model)
        before = private_folders()
        options = model.options(session_store=store, resume=begun.session_id, extra_args={"no-such-flag": None})
        with pytest.raises(ClaudeAgentError):
            await run("three", options)
        assert private_folders() == before


@pytest.mark.long
async def test_continuing_forking_and_missing_sessions(begun: Begun) -> None:
    async with ScriptedModel(lambda request: "answered") as model:
        store = MemoryStore()
        options = model.options(session_store=store, timeouts=PATIENT)
        await begun.put_into(store, model)
        async for message in query("banana", options):
            second = message.raw["session_id"]
        stored = store.entries(key_of(model, second))  # the iteration leaves nothing behind
        assert stored == on_disk(model.sandbox.config_dir, second)
        assert stored[-1]["type"] == "cost-state"
        third = await run("more", options.replace(continue_conversation=True))
        assert third.session_id == second
        assert (await run("again", options.replace(resume=second.upper()))).session_id == second
        assert "banana" in json.dumps(model.requests_of("main")[-1].body["messages"])
        forked = await run("FORKED", options.replace(resume=begun.session_id, fork_session=True))
        assert forked.session_id not in (begun.session_id, second)
        own = json.dumps(store.entries(key_of(model, forked.session_id)))
        assert "base" in own
        assert "FORKED" in own
        assert store.entries(key_of(model, begun.session_id)) == begun.entries
        unknown = options.replace(resume="11111111-1111-4111-8111-111111111111")
        with pytest.raises(SessionNotFoundError, match=r"neither in the project .* nor here$"):
            await run("x", unknown)
        with pytest.raises(SessionNotFoundError, match="name the session's project with session_store_project"):
            await run("x", unknown.replace(session_store=OnlyRequired()))
        with pytest.raises(OptionsError, match=r"^resume: 'a title' .*titles are not looked up"):
            await run("x", options.replace(resume="a title"))


@pytest.mark.long
async def test_a_fork_leaves_what_a_killed_process_left_to_the_original(begun: Begun) -> None:
    """The original may have a writer, and what it lacks would become a branch that hides its newest answer."""
    async with ScriptedModel(["forked"]) as model:
        store = MemoryStore()
        await begun.put_into(store, model)
        key = key_of(model, begun.session_id)
        late = {**next(entry for entry in begun.entries if entry["type"] == "user"), "uuid": str(uuid4())}
        left = Path(tempfile.gettempdir(), f"claude-agent-py-session-{'0' * 16}", "projects", "p")
        left.mkdir(parents=True)
        (left / f"{begun.session_id}.jsonl").write_text(json.dumps(late) + "\n")
        await store.acquire_lease(key, "its writer")
        await run("x", model.options(session_store=store, resume=begun.session_id, fork_session=True))
        assert store.entries(key) == begun.entries
        assert len(list(left.iterdir())) == 1


async def test_a_session_that_only_this_machine_has_is_stored_whole(begun: Begun) -> None:
    async with ScriptedModel(lambda request: "answered") as model:
        begun.put_on_disk(model)
        store = MemoryStore()
        await run("banana", model.options(session_store=store, resume=begun.session_id, timeouts=PATIENT))
        stored = store.entries(key_of(model, begun.session_id))
        assert [entry for entry in stored if "uuid" in entry] == [
            entry for entry in on_disk(model.sandbox.config_dir, begun.session_id) if "uuid" in entry
        ]
        assert "base" in json.dumps(stored)
        assert "banana" in json.dumps(stored)
        assert stored[-1]["type"] == "cost-state"  # run() leaves nothing behind


class Broken(MemoryStore):
    """A store that fails, or hangs, until it is mended."""

    def __init__(self, failure: str = "fails") -> None:
        super().__init__()
        self.failure = failure
        self.calls = 0

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        self.calls += 1
        if self.failure == "hangs":
            await anyio.sleep_forever()
        if self.failure == "fails":
            raise OSError("no route to the store")
        await super().append(key, entries, epoch=epoch)


@pytest.mark.parametrize("failure", ["fails", pytest.param("hangs", marks=pytest.mark.long)])
async def test_undelivered_entries_are_reported_and_can_be_pushed(failure: str) -> None:
    errors: list[StoreError] = []
    async with ScriptedModel(lambda request: "answered") as model:
        store = Broken(failure)
        options = model.options(session_store=store, on_store_error=errors.append, load_timeout=0.5)
        async with Client(options) as client:
            if failure == "fails":  # a store that recovers catches up in order
                first = await client.query("one")
                with anyio.fail_after(240):
                    while store.calls < 3:
                        await anyio.sleep(0.02)
                    store.failure = "mended"
                    await client.query("two")
                    while "two" not in json.dumps(store.entries(key_of(model, first.session_id))):
                        await anyio.sleep(0.02)
                stored = store.entries(key_of(model, first.session_id))
                assert stored == on_disk(model.sandbox.config_dir, first.session_id)[: len(stored)]
                store.failure = "fails"
                errors.clear()
            seen: list[object] = []

            async def read() -> None:
                async for message in client.messages():
                    seen.append(message)
                    if isinstance(message, MirrorErrorMessage):
                        return

            async with anyio.create_task_group() as readers:
                readers.start_soon(read)
                first = await client.query("hi")
            with anyio.fail_after(240):
                await client.close()
        [told] = [message for message in seen if isinstance(message, MirrorErrorMessage)]
        assert told.key is not None
        assert told.key.session_id == first.session_id
        assert [error.kept_in for error in errors] == [None, str(model.sandbox.config_dir)]
        assert ("no route to the store" if failure == "fails" else "in time") in str(errors[-1])
        store.failure = "mended"
        before = await store.load(key_of(model, first.session_id)) or []
        count = await push(store, first.session_id, config_dir=errors[-1].kept_in)
        whole = on_disk(model.sandbox.config_dir, first.session_id)
        assert store.entries(key_of(model, first.session_id)) == whole
        assert count == len(whole) - len(before)
        assert await push(store, first.session_id, config_dir=errors[-1].kept_in) == 0


@pytest.mark.long
@pytest.mark.parametrize("how", ["closed", "died"])
async def test_entries_of_a_private_home_outlive_it(how: str) -> None:
    errors: list[StoreError] = []
    async with ScriptedModel(lambda request: "answered") as model:
        store = Broken("fails")
        options = model.options(session_store=store, on_store_error=errors.append, home=True)
        async with Client(options) as client:
            first = await client.query("one")
            if how == "died":
                assert client.pid is not None
                kill(client.pid)
                with pytest.raises(ClaudeAgentError):
                    await client.query("two")
        kept_in = errors[-1].kept_in
        assert kept_in is not None
        assert os.stat(kept_in).st_mode & 0o077 == 0
        store.failure = "mended"
        assert await push(store, first.session_id, config_dir=kept_in, project_key=errors[-1].key["project_key"])
        [key] = store.keys
        entries: list[Any] = [*store.entries(key)]
        assert {"one", "answered"} <= {
            entry["message"]["content"] if entry["type"] == "user" else entry["message"]["content"][0]["text"]
            for entry in entries
            if "message" in entry
        }
        shutil.rmtree(kept_in)
        assert not list(Path(tempfile.gettempdir()).rglob("*.jsonl"))


@pytest.mark.long
async def test_entries_of_a_resumed_session_are_kept_until_they_are_pushed(begun: Begun) -> None:
    """Each process leaves the store in the state that the next one finds."""
    errors: list[StoreError] = []
    async with ScriptedModel(lambda request: "answered") as model:
        store = Broken("mended")
        await begun.put_into(store, model)
        options = model.options(session_store=store, on_store_error=errors.append, resume=begun.session_id)

        def kept_in() -> str:
            """Return where the last process kept what it could not deliver, which is no more than transcripts."""
            folder = errors[-1].kept_in
            assert folder is not None
            assert sorted(os.listdir(folder)) == ["projects"]  # no credentials
            return folder

        store.failure = "fails"
        await run("first", options)
        folders = [kept_in()]

        async with Client(options) as client:  # which sees what this machine has while the store takes nothing
            await client.query("second")
            store.failure = "mended"
            await client.query("third")
            seen = json.dumps(model.requests_of("main")[-1].body["messages"])
            assert all(text in seen for text in ("base", "first", "second", "third"))
            with anyio.fail_after(240):
                while "third" not in json.dumps(store.entries(store.keys[0])):
                    await anyio.sleep(0.02)
            session = await StoredSessions(store, project_key=store.keys[0]["project_key"]).get(begun.session_id)
            prompts = [message.text for message in session.messages if message.type == "user"]
            assert prompts == ["base", "first", "second", "third"]
            store.failure = "fails"
            await client.query("fourth")
        folders.append(kept_in())
        store.failure = "mended"
        async with Client(options) as client:  # brings what was kept
            await client.query("fifth")
            assert "fourth" in json.dumps(model.requests_of("main")[-1].body["messages"])
            assert client.session_id == begun.session_id
            assert not any(map(os.path.exists, folders))
            with anyio.fail_after(240):
                while "fifth" not in json.dumps(store.entries(store.keys[0])):
                    await anyio.sleep(0.02)
            store.failure = "fails"
            await client.query("undelivered")

        # What arrives late does not hide the turns of another machine.
        aside = Path(kept_in()).rename(Path(kept_in()).with_name("another-machine"))
        store.failure = "mended"
        await run("meanwhile", options)
        project = errors[-1].key["project_key"]
        assert await push(store, begun.session_id, config_dir=aside, project_key=project)
        await run("now", options)
        seen = json.dumps(model.requests_of("main")[-1].body["messages"])
        found = [text in seen for text in ("base", "fifth", "undelivered", "meanwhile", "now")]
        assert found == [True, True, False, True, True]


@pytest.mark.long
async def test_one_of_two_processes_has_the_lease_and_writes_no_more_once_it_lost_it(
    begun: Begun, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"
    errors: list[StoreError] = []
    async with ScriptedModel(lambda request: "answered") as model:
        options = model.options(session_store=SQLiteStore(path))
        await begun.put_into(options.session_store, model)
        async with Client(options.replace(resume=begun.session_id)) as client:
            await client.query("two")
            store = SQLiteStore(path)
            other = model.options(session_store=store, resume=begun.session_id, on_store_error=errors.append)
            with pytest.raises(SessionLeasedError, match=str(os.getpid())) as caught:
                await run("three", other)
            assert caught.value.session_id == begun.session_id
            assert "three" not in json.dumps([r.body for r in model.requests])
        key = key_of(model, begun.session_id)
        async with Client(other) as client:  # it was given back
            taken = await store.acquire_lease(key, "another", steal=True)
            before = await store.load(key)
            await client.query("four")
        assert await store.load(key) == before
        assert "written by another" in str(errors[-1])
        assert errors[-1].kept_in is not None
        await store.release_lease(taken)
        shutil.rmtree(errors[-1].kept_in)


KILLED = """
import json, os, sys, anyio
from claude_agent_py import Client, ClientOptions
from claude_agent_py.sessions import SQLiteStore
path, session_id, given = sys.argv[1:]
async def main():
    options = ClientOptions(session_store=SQLiteStore(path), resume=session_id, inherit_env=False, **json.loads(given))
    async with Client(options) as client:
        print(client.pid, flush=True)
        await client.query("before the end")
        print("answered", flush=True)
        await client.query("WAIT")
anyio.run(main)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX only")
async def test_a_killed_process_loses_nothing_that_the_cli_had_written(begun: Begun, tmp_path: Path) -> None:
    script = ["two", Reply([tool_use("Bash", {"command": "sleep 600"})]), "back"]
    async with ScriptedModel(script) as model:
        store = SQLiteStore(tmp_path / "s.db")
        await begun.put_into(store, model)
        given = {"cwd": str(model.sandbox.cwd), "env": model.environment(), "permission_mode": "bypassPermissions"}
        before = private_folders()
        command = [sys.executable, "-c", KILLED, str(tmp_path / "s.db"), begun.session_id, json.dumps(given)]
        with Program(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            pid = int(await anyio.to_thread.run_sync(process.stdout.readline))
            assert await anyio.to_thread.run_sync(process.stdout.readline) == "answered\n"
            [name] = private_folders() - before
            folder = Path(tempfile.gettempdir(), name)
            with anyio.fail_after(240):
                while "WAIT" not in json.dumps(on_disk(folder, begun.session_id)):
                    await anyio.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            kill(pid)
            await anyio.to_thread.run_sync(process.wait)
        written = on_disk(folder, begun.session_id)
        key = key_of(model, begun.session_id)
        with pytest.raises(SessionLeasedError):
            await run("again", model.options(session_store=store, resume=begun.session_id))
        await store.release_lease(await store.acquire_lease(key, "an operator", steal=True))
        await run("again", model.options(session_store=store, resume=begun.session_id))
        said = json.dumps(model.requests_of("main")[-1].body["messages"])
        assert "before the end" in said
        assert "WAIT" in said
        stored = await store.load(key) or []
        assert [entry for entry in written if entry not in stored] == []
        assert private_folders() == before


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_store_of_the_official_sdk_works_here(begun: Begun, anyio_backend: str) -> None:
    from claude_agent_sdk import InMemorySessionStore

    store = InMemorySessionStore()
    async with ScriptedModel([a_subagent(), "done", "again"], agents={"Look": "looked"}) as model:
        await begun.put_into(store, model)
        key = key_of(model, begun.session_id)
        async with Client(model.options(session_store=store, resume=begun.session_id, timeouts=PATIENT)) as client:
            await client.query("apple", until="idle")
        assert "base" in json.dumps(model.requests_of("main")[0].body["messages"])
        stored = store.get_entries(key)
        assert stored[: len(begun.entries)] == begun.entries
        assert "apple" in json.dumps(stored)
        assert stored[-1]["type"] == "cost-state"
        [subagent] = await store.list_subkeys(key)
        assert "looked" in json.dumps(store.get_entries({**key, "subpath": subagent}))


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_store_from_here_works_with_the_official_sdk(begun: Begun, tmp_path: Path, anyio_backend: str) -> None:
    import claude_agent_sdk
    from installed_cli import find_cli

    store = SQLiteStore(tmp_path / "s.db")
    async with ScriptedModel(lambda request: "answered") as model:

        async def ask(prompt: str, **more: Any) -> str:
            options = claude_agent_sdk.ClaudeAgentOptions(
                session_store=store, cli_path=str(find_cli()), env=model.environment(), cwd=model.sandbox.cwd, **more
            )
            async for message in claude_agent_sdk.query(prompt=prompt, options=options):
                if isinstance(message, claude_agent_sdk.ResultMessage):
                    session_id = message.session_id
            return session_id

        await begun.put_into(store, model)
        assert await ask("banana", resume=begun.session_id) == begun.session_id
        assert "base" in json.dumps(model.requests_of("main")[-1].body["messages"])
        listed = await claude_agent_sdk.list_sessions_from_store(store, directory=str(model.sandbox.cwd))
        assert [info.first_prompt for info in listed] == ["base"]
        result = await run("cherry", model.options(session_store=store, resume=begun.session_id))
        assert result.session_id == begun.session_id
        said = json.dumps(model.requests_of("main")[-1].body["messages"])
        assert "base" in said
        assert "banana" in said


class Dead(MemoryStore):
    """A store that loads, and answers nothing else."""

    is_dead = False

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        if self.is_dead:
            await anyio.sleep_forever()
        await super().append(key, entries, epoch=epoch)

    async def release_lease(self, lease: Lease) -> None:
        if self.is_dead:
            await anyio.sleep_forever()
        await super().release_lease(lease)


@pytest.mark.long
async def test_a_store_that_answers_no_more_does_not_hold_up_close(begun: Begun) -> None:
    errors: list[StoreError] = []
    async with ScriptedModel(lambda request: "answered") as model:
        store = Dead()
        timeouts = Timeouts(close=3.0)
        options = model.options(session_store=store, on_store_error=errors.append, timeouts=timeouts)
        await begun.put_into(store, model)
        store.is_dead = True
        async with Client(options.replace(resume=begun.session_id)) as client:
            await client.query("two")
            with anyio.fail_after(240):
                await client.close()
                await client.connection.shutdown.wait_closed()
        [error] = errors
        assert error.kept_in is not None
        assert os.listdir(error.kept_in) == ["projects"]
        shutil.rmtree(error.kept_in)


async def test_options_that_exclude_a_store() -> None:
    store = MemoryStore()
    for wrong in (
        {"session_store": MemoryStore},
        {"session_store": object()},
        {"session_store": store, "persist_session": False},
        {"session_store": store, "enable_file_checkpointing": True},
        {"session_store_project": "p"},
    ):
        with pytest.raises(OptionsError, match="session_store"):
            ClientOptions(**wrong)
    assert "MemoryStore" in repr(ClientOptions(session_store=store))
    options = ClientOptions(session_store=store, resume="11111111-1111-4111-8111-111111111111")
    with pytest.raises(OptionsError, match="transport"):
        await Client(options, transport=FakeCLI().transport()).connect()


@pytest.mark.long
async def test_a_temporary_folder_whose_name_the_cli_would_compose_is_not_used(
    begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decomposed = tmp_path / unicodedata.normalize("NFD", "\u00e9")
    decomposed.mkdir()
    store = MemoryStore()
    async with ScriptedModel(lambda request: "answered") as model:
        await begun.put_into(store, model)
        monkeypatch.setattr(tempfile, "tempdir", str(decomposed))
        options = model.options(session_store=store, resume=begun.session_id, home=True)
        assert (await run("banana", options)).text == "answered"
        assert "base" in json.dumps(model.requests_of("main")[-1].body)
    assert "\u00e9" not in os.listdir(tmp_path)


@pytest.mark.parametrize(
    "is_new", [pytest.param(each, marks=pytest.mark.long) for each in (True, False)], ids=["a new home", "a home"]
)
async def test_a_session_with_a_private_home_is_resumed(begun: Begun, is_new: bool, tmp_path: Path) -> None:
    store = MemoryStore()
    async with ScriptedModel(lambda request: "answered") as model:
        await begun.put_into(store, model)
        session_id = begun.session_id
        config = model.sandbox.config_dir
        (config / "CLAUDE.md").write_text("HOSTILE")
        names = ("HOME", "USERPROFILE", "CLAUDE_CONFIG_DIR")
        env = {name: value for name, value in model.environment().items() if name not in names}
        home = True if is_new else tmp_path / "home"
        options = ClientOptions(
            inherit_env=False, env=env, home=home, cwd=model.sandbox.cwd, session_store=store,
            permission_mode="bypassPermissions",
        )  # fmt: skip
        if not is_new:  # the session is in the home, too
            (tmp_path / "home").mkdir(mode=0o700)
            begun.put_on_disk(model, tmp_path / "home" / ".claude")
        await run("banana", options.replace(resume=session_id))
        said = json.dumps(model.requests_of("main")[-1].body)
        assert "base" in said
        assert "HOSTILE" not in said
        assert "banana" in json.dumps(store.entries(key_of(model, session_id)))
        if not is_new:
            assert "banana" not in json.dumps(on_disk(tmp_path / "home" / ".claude", session_id))


class StoreThatGoesAway(MemoryStore):
    """A store that refuses entries while it `is_away`."""

    is_away = False

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        if self.is_away:
            raise OSError("away")
        await super().append(key, entries, epoch=epoch)


def texts_in(store: MemoryStore, key: SessionKey) -> list[str]:
    """Return the prompts and answers that a store has of a session."""
    entries: list[Any] = store.entries(key)
    messages = [entry["message"]["content"] for entry in entries if entry["type"] in ("user", "assistant")]
    return [content if isinstance(content, str) else content[0]["text"] for content in messages]


@pytest.mark.long
async def test_what_the_first_process_could_not_deliver_is_sent_when_its_session_is_resumed_here() -> None:
    store = StoreThatGoesAway()
    async with ScriptedModel(["one", "two", "three"]) as model:
        async with Client(model.options(session_store=store, timeouts=Timeouts(close=4))) as client:
            session_id = (await client.query("first")).session_id
            await client.sync_store()
            store.is_away = True
            await client.query("second")
        store.is_away = False
        await run("third", model.options(session_store=store, resume=session_id, timeouts=PATIENT))
        assert "second" in json.dumps(model.requests[-1].messages)
        assert texts_in(store, key_of(model, session_id)) == ["first", "one", "second", "two", "third", "three"]


@pytest.mark.long
async def test_a_session_of_this_machine_that_is_continued_is_stored_whole(begun: Begun) -> None:
    store = MemoryStore()
    async with ScriptedModel(["two"]) as model:
        begun.put_on_disk(model)
        options = model.options(session_store=store, continue_conversation=True, timeouts=PATIENT)
        assert (await run("second", options)).session_id == begun.session_id
        assert texts_in(store, key_of(model, begun.session_id)) == ["base", "answered", "second", "two"]

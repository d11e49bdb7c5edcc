"""Session stores with the real CLI: what is mirrored, and what a fresh process resumes from."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from claude_agent_py import Client, query, run
from claude_agent_py.errors import ClaudeAgentError, OptionsError, SessionLeasedError, SessionNotFoundError, StoreError
from claude_agent_py.messages import MirrorErrorMessage, TranscriptMirrorMessage
from claude_agent_py.sessions import (
    DirectoryStore,
    MemoryStore,
    SessionKey,
    SessionStoreEntry,
    SQLiteStore,
    get_session,
    project_key_for_directory,
)
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


def key_of(model: ScriptedModel, session_id: str) -> SessionKey:
    return {"project_key": project_key_for_directory(model.sandbox.cwd), "session_id": session_id}


def on_disk(config: Path, session_id: str) -> list[dict[str, Any]]:
    [path] = config.glob(f"projects/*/{session_id}.jsonl")
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [entry for entry in entries if not entry["type"].startswith("api-request")]


def private_folders() -> set[str]:
    import tempfile

    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("claude-agent-py-session-")}


def a_subagent() -> Reply:
    arguments = {"description": "look", "prompt": "Look", "subagent_type": "general-purpose"}
    return Reply([tool_use("Agent", arguments)])


@pytest.mark.parametrize("flush", ["batched", "eager"])
async def test_the_store_has_all_when_close_returns(flush: str) -> None:
    async with ScriptedModel([a_subagent(), "done", "told"], agents={"Look": "looked"}) as model:
        store = MemoryStore()
        async with Client(model.options(session_store=store, session_store_flush=flush)) as client:
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


async def test_run_query_and_iteration_leave_nothing_behind() -> None:
    async with ScriptedModel(lambda request: "answered") as model:
        store = MemoryStore()
        options = model.options(session_store=store)
        ids = [(await run("one", options)).session_id, (await query("two", options)).session_id]
        async for message in query("three", options):
            last = message
        ids.append(str(last.session_id))  # type: ignore[attr-defined]
        for session_id in ids:
            stored = store.entries(key_of(model, session_id))
            assert stored == on_disk(model.sandbox.config_dir, session_id)
            assert stored[-1]["type"] == "cost-state"


RESUME = """
import json, sys, anyio
from claude_agent_py import Client, ClientOptions
from claude_agent_py.sessions import DirectoryStore, SQLiteStore
kind, where, session_id, given = sys.argv[1:]
if kind == "postgres":
    from claude_agent_py.sessions import PostgresStore
    store = PostgresStore(where)
elif kind == "redis":
    from claude_agent_py.sessions import RedisStore
    store = RedisStore(where)
elif kind == "s3":
    import boto3
    from claude_agent_py.sessions import S3Store
    endpoint, bucket = where.rsplit("/", 1)
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1",
                          aws_access_key_id="a", aws_secret_access_key="b")
    store = S3Store(bucket, client=client)
else:
    store = SQLiteStore(where) if kind == "sqlite" else DirectoryStore(where)
async def main():
    options = ClientOptions(session_store=store, resume=session_id, inherit_env=False, **json.loads(given))
    async with Client(options) as client:
        result = await client.query("What did I say?")
        print(json.dumps([result.text, result.session_id]))
anyio.run(main)
"""


@pytest.fixture(params=["directory", "sqlite", "postgres", "redis", "s3"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, Any]:
    """Return the kind of a store, where another process finds it, and the store."""
    match request.param:
        case "directory":
            return "directory", str(tmp_path / "d"), DirectoryStore(tmp_path / "d")
        case "sqlite":
            return "sqlite", str(tmp_path / "s.db"), SQLiteStore(tmp_path / "s.db")
        case server:
            where, store = request.getfixturevalue(f"a_{server}_store")
            return server, where, store


async def test_a_fresh_process_resumes_in_another_directory(kept: tuple[str, str, Any], tmp_path: Path) -> None:
    kind, where, store = kept
    script = [a_subagent(), "The word is kumquat.", "noted", "You said kumquat."]
    async with ScriptedModel(script, agents={"Look": "the looked-at"}) as model:
        async with Client(model.options(session_store=store)) as client:
            first = await client.query("The word is kumquat.", until="idle")
        before = await store.load(key_of(model, first.session_id))
        elsewhere, home = tmp_path / "elsewhere", tmp_path / "home"
        elsewhere.mkdir()
        home.mkdir()
        env = {**model.environment(), "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "config")}
        given = {"cwd": str(elsewhere), "env": env, "permission_mode": "bypassPermissions"}
        command = [sys.executable, "-c", RESUME, kind, where, first.session_id, json.dumps(given)]
        done = await anyio.run_process(command, stderr=None)
        assert json.loads(done.stdout) == ["You said kumquat.", first.session_id]
        said = json.dumps(model.requests_of("main")[-1].body["messages"])
        for earlier in ("The word is kumquat.", "What did I say?", "look"):
            assert earlier in said
        assert not list(home.rglob("*.jsonl"))
        after = await store.load(key_of(model, first.session_id))
        assert after[: len(before)] == before
        texts = json.dumps(after[len(before) :])
        assert "What did I say?" in texts
        assert "You said kumquat." in texts
        assert await store.find_session(first.session_id) == [key_of(model, first.session_id)["project_key"]]

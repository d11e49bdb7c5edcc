"""Each prompt of a session is answered or taken back, once, whatever becomes of its process."""

import os
import signal
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from stored import Stored
from test_sessions import is_end, read_until, writing

from claude_agent_py import ClientOptions
from claude_agent_py.errors import OptionsError
from claude_agent_py.serve import ServedSession, Sessions
from claude_agent_py.sessions import project_key_for_directory
from claude_agent_py.testing import Reply, ScriptedModel

pytestmark = pytest.mark.anyio


async def ask(session: ServedSession, prompt: str, prompt_id: str | None = None) -> Any:
    """Send a prompt, and return its end."""
    sent = await session.send(prompt, prompt_id=prompt_id)
    return (await read_until(session, lambda event: is_end(event) and event["prompt"] == sent))[-1][1]


@pytest.mark.real_cli
@pytest.mark.parametrize("is_first", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_no_process_gets_a_prompt_that_was_stopped_while_its_own_died(is_first: bool) -> None:
    async with ScriptedModel([Reply("One."), Reply("Three.")]) as model, Sessions(model.options()) as sessions:
        session = await sessions.create()
        await ask(session, "One")
        assert session.client is not None
        assert session.client.pid is not None
        os.kill(session.client.pid, signal.SIGSTOP)  # it reads nothing any more
        prompt = await session.send("Two")
        async with anyio.create_task_group() as group:
            if is_first:
                session.client.kill()
            group.start_soon(session.stop)
            if not is_first:
                await anyio.wait_all_tasks_blocked()
                session.client.kill()
        ended = await read_until(session, lambda event: is_end(event) and event["prompt"] == prompt)
        assert ended[-1][1]["status"] == "cancelled"
        assert (await ask(session, "Three"))["text"] == "Three."
        assert "Two" not in str(model.requests[-1].messages)


async def test_a_prompt_whose_work_everybody_has_left_ends_as_cancelled(tmp_path: Path) -> None:
    async with Sessions(writing(tmp_path, "word"), on_leave="stop", leave_after=0.0) as sessions:
        session = await sessions.create()
        await session.send("Write")
        with anyio.fail_after(60):
            while session.is_busy or session.state != "closed":
                await anyio.sleep(0.02)
        assert (await read_until(session, is_end))[-1][1]["status"] == "cancelled"


@pytest.mark.real_cli
async def test_the_id_of_a_prompt_is_used_once_also_for_a_later_process_and_another_server() -> None:
    prompt = str(uuid4()).upper()
    async with ScriptedModel([Reply("One."), Reply("Two.")]) as model:
        async with Sessions(model.options()) as sessions:
            session = await sessions.create()
            assert (await ask(session, "One", prompt))["prompt"] == prompt.lower()
            for _ in ("this process", "the next one"):
                for used in (prompt, prompt.lower()):
                    with pytest.raises(OptionsError, match="an earlier prompt had the id"):
                        await session.send("One", prompt_id=used)
                await session.close()
        async with Sessions(model.options()) as sessions:
            session = await sessions.get(session.id)
            with pytest.raises(OptionsError, match="an earlier prompt had the id"):
                await session.send("One", prompt_id=prompt)
            assert (await ask(session, "Two", str(uuid4())))["text"] == "Two."
    assert len(model.requests) == 2


async def test_the_ids_of_prompts_that_the_cli_merged_are_used_once_also_for_another_server(tmp_path: Path) -> None:
    stored = Stored(tmp_path / "config", project=project_key_for_directory(tmp_path))
    earlier = str(uuid4())
    prompts = [earlier, stored.user("one\ntwo", mergedSendUuids=[earlier])]
    stored.assistant("Both.")
    environment = {"CLAUDE_CONFIG_DIR": str(stored.config)}
    async with Sessions(ClientOptions(cwd=tmp_path, env=environment)) as sessions:
        session = await sessions.get(stored.id)
        for prompt in prompts:
            with pytest.raises(OptionsError, match="an earlier prompt had the id"):
                await session.send("One", prompt_id=prompt)

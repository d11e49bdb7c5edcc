"""Sessions on disk, as the real CLI writes them: read and changed while it runs, and resumed afterwards."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import anyio
import pytest
from anyio import to_thread

from claude_agent_py import Client, CLIStartError, TaskStatus
from claude_agent_py.errors import SessionBusyError
from claude_agent_py.sessions import (
    archive_session,
    delete_session,
    fork_session,
    get_session,
    list_sessions,
    project_key_for_directory,
    rename_session,
    search_sessions,
    tag_session,
    unarchive_session,
)
from claude_agent_py.tasks import Evidence
from claude_agent_py.testing import Answer, RecordedRequest, Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


def texts_of(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The texts of messages for the API, without those that the CLI adds."""
    return [
        (str(message["role"]), str(block["text"]))
        for message in messages
        for block in ([{"text": message["content"]}] if isinstance(message["content"], str) else message["content"])
        if message["role"] != "system" and not block["text"].startswith("<system-reminder>")
    ]


TURNS = 10
LAUNCHES = range(5, TURNS + 1, 5)
"""The turns in which a subagent is launched."""


def config_of(model: ScriptedModel) -> Path:
    return Path(model.sandbox.cwd).parent / "home" / ".claude"


def long_job() -> Callable[[RecordedRequest], Answer]:
    """Call three tools at once in each turn, and launch a subagent in some."""
    begun: set[int] = set()

    def answer(request: RecordedRequest) -> Answer:
        turn = re.search(r"Turn (\d+)\Z", request.last_user_text.strip())
        number = int(turn[1]) if turn else 0
        if not number or number in begun:
            return Reply("answered")
        begun.add(number)
        calls = [tool_use("Bash", {"command": f"echo {number} {letter}"}) for letter in "abc"]
        if number in LAUNCHES:
            agent = {"description": f"look {number}", "prompt": f"Look {number}", "subagent_type": "general-purpose"}
            calls.append(tool_use("Agent", agent))
        return Reply(calls)

    return answer


@contextmanager
def reader(session_id: str, config: Path) -> Iterator[list[str]]:
    """Read and rename the session over and over in a thread; yields the titles that were set."""
    titles: list[str] = []
    failures: list[BaseException] = []
    enough = Event()

    def read() -> None:
        try:
            while not enough.is_set():
                session = get_session(session_id, config_dir=config)
                uuids = [message.uuid for message in session.messages]
                assert len(uuids) == len(set(uuids)) == len(session.messages)
                assert [line for line in session.messages.damage if "not complete" not in line.reason] == []
                assert [info.session_id for info in list_sessions(config_dir=config)] == [session_id]
                title = f"title {len(titles)}"
                rename_session(session_id, title, config_dir=config)
                titles.append(title)
                tag_session(session_id, "busy", config_dir=config)
                enough.wait(0.02)
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=read)
    thread.start()
    try:
        yield titles
    finally:
        enough.set()
        thread.join()
    assert failures == []


@pytest.mark.long
async def test_a_long_session_is_read_and_renamed_while_the_cli_writes_it() -> None:
    looked = {f"Look {number}": f"looked at {number}" for number in LAUNCHES}
    async with ScriptedModel(long_job(), agents=looked) as model:
        config = config_of(model)
        async with Client(model.options()) as client:
            first = await client.query("Turn 1")
            with reader(first.session_id, config) as titles:
                for number in range(2, TURNS + 1):
                    await client.query(f"Turn {number}", until="idle" if number in LAUNCHES else "result")
            with pytest.raises(SessionBusyError):
                await to_thread.run_sync(lambda: delete_session(first.session_id, config_dir=config))
            before = get_session(first.session_id, config_dir=config)
            await client.query("/compact")
            await client.query(f"Turn {TURNS + 1}")
        assert len(titles) > 5

        session = get_session(first.session_id, config_dir=config)
        assert session.process is None
        prompts = [message.text for message in session.history if message.text.startswith("Turn ")]
        assert prompts == [f"Turn {number}" for number in range(1, TURNS + 2)]
        assert [message.uuid for message in before.messages] == [
            message.uuid for message in session.history[: len(before.messages)]
        ]
        assert len(session.messages) < len(session.history)
        assert session.messages[0].text.startswith("This session is being continued")

        calls = session.tool_calls
        assert all(call.done for call in calls)
        bash = [call.text for call in calls if call.name == "Bash"]
        assert bash == [f"{number} {letter}" for number in range(1, TURNS + 2) for letter in "abc"]

        assert [agent.description for agent in session.subagents] == [f"look {n}" for n in LAUNCHES]
        assert [agent.messages[-1].text for agent in session.subagents] == list(looked.values())
        assert {task.status for task in session.tasks} == {TaskStatus.COMPLETED}
        assert [task.description for task in session.tasks] == [f"look {n}" for n in LAUNCHES]

        [info] = list_sessions(model.sandbox.cwd, config_dir=config)
        assert info.project_key == project_key_for_directory(model.sandbox.cwd)
        assert (info.first_prompt, info.custom_title, info.tag) == ("Turn 1", titles[-1], "busy")
        assert info.cost_usd == session.usage.cost_usd
        assert session.usage.total.input_tokens
        [hit] = search_sessions("Turn 7", config_dir=config)
        assert hit.message.text == "Turn 7"


async def test_changed_archived_and_copied_sessions_are_resumed() -> None:
    async with ScriptedModel(["one", "two", "three", "four", "five"]) as model:
        config = config_of(model)
        async with Client(model.options()) as client:
            for prompt in ("first prompt", "second prompt", "third prompt"):
                await client.query(prompt)
            original = str(client.session_id)
            early = fork_session(original, config_dir=config)
            with pytest.raises(SessionBusyError) as caught:
                archive_session(original, config_dir=config)
            assert caught.value.pid == json.loads(next((config / "sessions").glob("*.json")).read_text())["pid"]
        rename_session(original, "The original", config_dir=config)
        rename_session(early.session_id, "The whole copy", config_dir=config)
        messages = get_session(early.session_id, config_dir=config).messages
        texts = [message.text for message in messages]
        assert texts == ["first prompt", "one", "second prompt", "two", "third prompt", "three"]
        copy = fork_session(early.session_id, None, messages[3].uuid, config_dir=config)
        assert copy.custom_title == "The whole copy (fork)"

        async with Client(model.options(resume=copy.session_id)) as client:
            await client.query("after the copy")
        request = model.requests[-1]
        assert request.contains("first prompt")
        assert request.contains("second prompt")
        assert not request.contains("third prompt")
        texts = [message.text for message in get_session(copy.session_id, config_dir=config).messages]
        assert texts == ["first prompt", "one", "second prompt", "two", "after the copy", "four"]

        sent = get_session(original, config_dir=config).to_api_messages()
        archive_session(original, config_dir=config)
        assert get_session(original, config_dir=config).info.archived
        async with Client(model.options(resume=original)) as client:
            await client.query("goes on")
        assert texts_of([*sent, {"role": "user", "content": "goes on"}]) == texts_of(model.requests[-1].messages)
        info = next(info for info in list_sessions(config_dir=config) if info.session_id == original)
        assert info.custom_title == "The original"
        with anyio.fail_after(240):  # the prompt unarchives it
            while get_session(original, config_dir=config).info.archived:
                await anyio.sleep(0.02)
        archive_session(original, config_dir=config)
        unarchive_session(original, config_dir=config)
        assert list_sessions(archived=True, config_dir=config) == []
        delete_session(copy.session_id, config_dir=config)
        left = {info.session_id for info in list_sessions(config_dir=config)}
        assert left == {original, early.session_id}


@pytest.mark.long
async def test_resuming_at_an_earlier_message_forks_or_leaves_a_branch_and_drops_no_more_than_is_named() -> None:
    async with ScriptedModel(["one", "two", "three", "four"]) as model:
        config = config_of(model)
        async with Client(model.options()) as client:
            kept, dropped = await client.query("first prompt"), await client.query("left behind")
        session = kept.session_id
        rename_session(session, "The original", config_dir=config)
        answer = get_session(session, config_dir=config).messages[1]
        options = model.options(resume=session, resume_session_at=answer.uuid)
        forking = options.replace(fork_session=True)
        with pytest.raises(CLIStartError, match="Resume rejected by --resume-drops-turn"):
            await Client(forking.replace(resume_drops_turn=kept.prompts[0])).connect()
        async with Client(forking.replace(resume_drops_turn=dropped.prompts[0])) as client:
            await client.query("forked by the CLI")
            forked = get_session(str(client.session_id), config_dir=config)
        assert not model.requests[-1].contains("left behind")
        assert [message.text for message in forked.messages] == ["first prompt", "one", "forked by the CLI", "three"]
        assert forked.info.custom_title == "The original"

        async with Client(options) as client:
            await client.query("instead")
        messages = get_session(session, config_dir=config).messages
        assert [message.text for message in messages] == ["first prompt", "one", "instead", "four"]
        assert messages.damage == []


@pytest.mark.long
async def test_background_shells_are_found_in_the_transcript(tmp_path: Path) -> None:
    script = [
        tool_use("Bash", {"command": "exit 3", "run_in_background": True, "description": "Fail"}),
        tool_use("Bash", {"command": f"while [ ! -e '{tmp_path}/end' ]; do sleep 0.05; done"}),
        "the first failed",
        tool_use("Bash", {"command": "sleep 600", "run_in_background": True}),
        "it runs",
    ]
    async with ScriptedModel(script) as model:
        config = config_of(model)
        async with Client(model.options()) as client:
            first = client.query("go")
            await client.tasks.until(lambda: bool(client.tasks.finished))
            (tmp_path / "end").touch()  # so that the notification came within the turn
            await first
            await client.query("again")
            session = str(client.session_id)
            live = get_session(session, config_dir=config).tasks
            assert [task.status for task in live] == [TaskStatus.FAILED, TaskStatus.RUNNING]
            known = {task.id: task.description for task in client.tasks}
            await client.tasks.stop(live[1].id)
        failed, stopped = get_session(session, config_dir=config).tasks
        assert {task.id: task.description for task in (failed, stopped)} == known
        assert failed.outcome is not None
        assert (failed.outcome.exit_code, failed.outcome.evidence) == (3, Evidence.NOTIFICATION)
        assert stopped.status is TaskStatus.STOPPED

"""A turn in which the CLI was killed goes on in another process, on the real CLI."""

import os
import signal
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from leftovers import processes_with
from one_session import have_queued

from claude_agent_py import (
    AgentDefinition,
    AssistantMessage,
    ChildAgent,
    Client,
    CLIExitError,
    ConnectionClosedError,
    RunResult,
    TaskManager,
    TaskNotificationMessage,
    TaskStatus,
    UserMessage,
)
from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.history import TaskHistory
from claude_agent_py.journal import TaskFinished
from claude_agent_py.messages import InitMessage, UserContent
from claude_agent_py.observe import Timeline
from claude_agent_py.sessions import MemoryStore, get_session, rename_session
from claude_agent_py.tasks import EndedBy
from claude_agent_py.testing import Gate, RecordedRequest, Reply, ScriptedModel, tool_use
from claude_agent_py.tools import ToolCallStatus

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL"),
]

CONTINUE = "Continue from where you left off."
UNKNOWN = "its outcome is unknown"


SLOW: dict[str, Any] = {"command": "for i in $(seq 100); do sleep 0.2; done", "description": "count"}


def slow(**more: Any) -> Any:
    """A command that takes longer than a test."""
    return tool_use("Bash", {**SLOW, **more})


def transcript_of(model: ScriptedModel, session_id: str | None) -> str:
    """The tool calls and messages that are on disk, a line each."""
    paths = (Path(model.sandbox.home) / ".claude" / "projects").glob(f"*/{session_id}.jsonl")
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return "\n".join(line for line in lines if '"type":"assistant"' in line)


async def on_disk(model: ScriptedModel, client: Client, text: str, times: int = 1) -> None:
    """Wait until the CLI has written something to the transcript, which it does a moment later."""
    with anyio.fail_after(240):
        while transcript_of(model, client.session_id).count(text) < times:
            await anyio.sleep(0.02)


def kill(client: Client) -> None:
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)


async def interrupted(model: ScriptedModel, prompt: str = "Do it", **options: Any) -> tuple[str, str]:
    """Have the CLI killed while it works on a prompt; returns the session and the uuid of the prompt."""
    async with Client(model.options(**options)) as client:
        uuid = str(uuid4())
        run = client.query(UserMessage(message=UserContent(role="user", content=prompt), uuid=uuid))
        async for message in run:
            if isinstance(message, AssistantMessage) and message.tool_uses[-1].input["command"] == SLOW["command"]:
                break
        await on_disk(model, client, "$(seq 100)")
        kill(client)
        with pytest.raises(CLIExitError) as caught:
            await run
        assert caught.value.exit_code == -signal.SIGKILL
        return str(client.session_id), uuid


def conversation(result: RunResult[Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"][0]["text"]) for message in result.to_api_messages()]


@pytest.mark.parametrize(
    "chosen",
    [
        {"resumed"},
        pytest.param({"half a line", "left out", "forked", "newest forked"}, marks=pytest.mark.long),
    ],
    ids=lambda chosen: " and ".join(sorted(chosen)),
)
async def test_a_fresh_client_continues_an_interrupted_turn(chosen: set[str]) -> None:
    """In every way that a session can be resumed, each from the transcript that the killed CLI left."""

    def answer(request: RecordedRequest) -> Any:
        if request.last_user_text.strip().endswith("and now"):
            return "next"
        return slow() if len(model.requests) == 1 else "It went on."

    async with ScriptedModel(answer) as model:
        session, prompt = await interrupted(model)
        [path] = (Path(model.sandbox.home) / ".claude" / "projects").glob("*/*.jsonl")
        whole = path.read_bytes()
        resumed = model.options(resume=session, resume_interrupted_turn=True)
        ways = {
            "resumed": resumed,
            "half a line": resumed,  # the call was being written when the process died
            "left out": model.options(
                continue_conversation=True, resume_interrupted_turn=True, show_cut_off_calls=False
            ),
            "forked": resumed.replace(fork_session=True),
            "newest forked": resumed.replace(resume=None, continue_conversation=True, fork_session=True),
        }
        for how, options in ((how, options) for how, options in ways.items() if how in chosen):
            for fork in path.parent.glob("*.jsonl"):
                fork.unlink()  # so that the session is the newest one
            path.write_bytes(whole[: whole.index(b"$(seq 100)")] if how == "half a line" else whole)
            before = len(model.requests)
            async with Client(options) as client:
                run = client.resumed_run
                assert run is not None, how
                result = await run
                assert (result.text, result.prompts, result.is_shared) == ("It went on.", [prompt], False), how
                assert client.resumed_run is not None
                assert (await client.resumed_run).text == "It went on."
                assert [m.text async for m in run if isinstance(m, AssistantMessage)] == ["It went on."]
                assert conversation(result) == [("user", "Do it"), ("assistant", "It went on.")]
                assert (client.session_id == session) is ("forked" not in how)
                [request] = model.requests[before:]
                if how == "resumed":
                    assert (await client.query("and now")).text == "next"
            assert request.contains(CONTINUE)
            assert request.contains(UNKNOWN) is (how not in ("half a line", "left out")), how
            assert ("$(seq 100)" in str(request.messages)) is (how not in ("half a line", "left out")), how
            assert sum("Do it" in str(message) for message in request.messages) == 1


@pytest.mark.long
async def test_there_is_no_resumed_run_without_an_interrupted_turn() -> None:
    async with ScriptedModel([slow(run_in_background=True), "it runs", "next"]) as model:
        async with Client(model.options()) as client:
            await client.query("first")
            session = str(client.session_id)
            await on_disk(model, client, "it runs")
            kill(client)
            [task] = client.tasks
            await task
        async with Client(model.options(resume=session, resume_interrupted_turn=True)) as client:
            assert client.resumed_run is None
            assert (await client.query("and now")).text == "next"  # the CLI reports the lost shell in a turn of its own


def ends_on_disk(model: ScriptedModel, session_id: str) -> list[dict[str, str]]:
    """Return how the tasks of a session ended, as each view of what is on disk tells it."""
    session = get_session(session_id, config_dir=model.sandbox.config_dir)
    words = {"ok": "completed", "error": "failed", "cancelled": "stopped"}
    return [
        {task.id: task.status.value for task in session.tasks},
        {fact.task_id: fact.outcome.status.value for fact in session.journal() if isinstance(fact, TaskFinished)},
        {
            span.agent: words[span.status]
            for span in Timeline.from_session(session).spans
            if span.kind in ("task", "subagent")
        },
    ]


async def test_a_resumed_session_knows_the_tasks_of_before() -> None:
    agent = {"description": "look", "subagent_type": "general-purpose", "run_in_background": True}
    done = tool_use("Agent", {**agent, "prompt": "Look 1"})
    cut_off = tool_use("Agent", {**agent, "prompt": "Look 2", "description": "look longer"})
    shell = slow(run_in_background=True)
    agents = {"Look 1": "seen", "Look 2": [slow(), "never"]}
    async with ScriptedModel([done, "one", "told", cut_off, shell, slow(), "It went on."], agents=agents) as model:
        async with Client(model.options()) as client:
            await client.query("first", until="idle")
            run = client.query("second")
            async for message in run:
                if isinstance(message, AssistantMessage) and not message.is_subagent:
                    called = message.tool_uses[-1].input
                    if called.get("command") == SLOW["command"] and not called.get("run_in_background"):
                        break
            async for said in client.tasks.running[0].messages():
                if isinstance(said, AssistantMessage) and said.tool_uses:
                    break
            await on_disk(model, client, '"description":"count"}')
            kill(client)
            with pytest.raises(CLIExitError):
                await run
            known = {task.id: (task.type, task.description, task.prompt) for task in client.tasks}
            session = str(client.session_id)
            ends = {task.id: task.status.value for task in client.tasks}
        assert list(ends.values()) == ["completed", "failed", "failed"]
        assert ends_on_disk(model, session) == [ends] * 3
        async with Client(model.options(resume=session, resume_interrupted_turn=True)) as client:
            assert client.resumed_run is not None
            assert (await client.resumed_run).text == "It went on."
            assert client.resumed_run.tasks == []
            assert {task.id: (task.type, task.description, task.prompt) for task in client.tasks} == known
            first, second, third = client.tasks
            assert client.tasks.running == []
            assert (first.status, first.summary) == (TaskStatus.COMPLETED, "seen")
            assert [m.text for m in await first.transcript()] == ["Look 1", "seen"]
            assert (await second.transcript())[0].text == "Look 2"
            for task in (second, third):
                outcome = await task
                assert (outcome.status, outcome.is_success) == (TaskStatus.FAILED, False)
                assert "process ended" in str(outcome.failure_reason)
                assert outcome.ended_by is EndedBy.PROCESS
        assert ends_on_disk(model, session) == [ends] * 3  # although the CLI has called them stopped since


@pytest.mark.long
async def test_tasks_of_before_have_parents_and_usage() -> None:
    """In a session that is resumed by its title, and from a store."""
    below = tool_use("Agent", {"description": "below", "prompt": "Deeper", "subagent_type": "general-purpose"})
    above = tool_use("Agent", {"description": "above", "prompt": "Look", "subagent_type": "general-purpose"})
    agents = {"Look": [below, "looked"], "Deeper": "seen"}
    async with ScriptedModel([above, "done"], agents=agents) as model:
        store = MemoryStore()
        async with Client(model.options(session_store=store)) as client:
            session = (await client.query("go", until="idle")).session_id
            await client.tasks.wait_all(timeout=60)  # until their transcripts are counted
            known = {task.id: task for task in client.tasks}
        rename_session(session, "The Session", config_dir=model.sandbox.config_dir)
        for given in ({"resume": "the session"}, {"resume": session, "session_store": store}):
            async with Client(model.options(**given)) as client:
                recalled = {task.id: task for task in client.tasks}
                assert len(recalled) == 2, given
                for task in recalled.values():
                    before = known[task.id]
                    assert (task.description, task.parent_id, task.depth) == (
                        before.description, before.parent_id, before.depth,
                    )  # fmt: skip
                    assert task.usage is not None
                    assert before.usage is not None
                    assert task.usage.total_tokens == before.usage.total_tokens > 0
                    assert (await task.transcript())[0].text in ("Look", "Deeper")
                assert [task.description for task in client.tasks.roots] == ["above"]


async def test_a_reopened_client_continues_its_runs_and_keeps_live_changes() -> None:
    """Twice: the process that goes on dies, too."""
    async with ScriptedModel([slow(), slow(), "At last.", "The second, too.", "next"]) as model:
        async with Client(model.options(allowed_tools=["Bash"])) as client:  # which acceptEdits refuses
            with pytest.raises(LocalProtocolError):
                await client.reopen()
            await client.set_model("claude-haiku-4-5")
            await client.set_permission_mode("acceptEdits")
            await client.settings.apply({"outputStyle": "Explanatory", "env": {"A": "1"}})
            await client.settings.apply({"env": {"A": "2"}})
            hooks = client.hooks
            run = client.query("Do it")
            queued = None
            for number in (1, 2):
                async for message in run:
                    if isinstance(message, AssistantMessage):
                        break
                if queued is None:
                    queued = client.query("And then?")
                await on_disk(model, client, "$(seq 100)", number)
                before, session, old = len(model.requests_of("main")), client.session_id, client.pid
                await died(client)
                for cut_off in (run, queued):
                    with pytest.raises(CLIExitError):
                        await cut_off.result()
                with pytest.raises(CLIExitError):
                    client.query("too early")
                await client.reopen()
                assert (client.session_id, client.resumed_run) == (session, None)
                assert client.pid != old

            assert queued is not None
            first, second = await run, await queued
            assert (first.text, second.text) == ("At last.", "The second, too.")
            assert [(call.name, call.status, call.was_cut_off, call.done) for call in first.tool_calls] == [
                ("Bash", ToolCallStatus.CANCELLED, True, True)
            ] * 2
            assert [m.text async for m in run if isinstance(m, AssistantMessage)] == ["At last."]
            assert [message async for message in run] == first.messages
            run = client.query("and now")
            begun = [message async for message in run if isinstance(message, InitMessage)]
            assert [message.permission_mode for message in begun] == ["acceptEdits"]
            assert (await run).text == "next"
            settings = (await client.settings.get()).effective
            assert (settings["outputStyle"], settings["env"]["A"]) == ("Explanatory", "2")
            assert client.hooks is hooks
            assert await hooks.remove(await hooks.add("Stop", lambda *_: None))
            assert client.is_open
        requests = model.requests_of("main")[before:]
        assert len(requests) == 3
        assert [
            sum(prompt in str(message) for message in requests[-1].messages) for prompt in ("Do it", "And then?")
        ] == [1, 1]
        assert {request.model for request in model.requests_of("main")} == {"claude-haiku-4-5"}
        with pytest.raises(ConnectionClosedError):
            await client.reopen()


@pytest.mark.long
async def test_tasks_listeners_and_followers_live_as_long_as_the_client() -> None:
    def shell(description: str, command: str = "echo hi") -> Any:
        return tool_use("Bash", {"command": command, "description": description, "run_in_background": True})

    def answer(request: RecordedRequest) -> Any:
        if request.last_user_text.endswith("first"):
            return Reply([shell("one"), shell("cut off", "sleep 600")])
        return shell("two") if request.last_user_text.endswith("second") else "ok"

    heard: list[str] = []
    notified: list[TaskNotificationMessage] = []
    async with ScriptedModel(answer) as model, TaskHistory(":memory:") as history:
        async with Client(model.options(on_task_notification=notified.append)) as client:
            tasks, own = client.tasks, TaskManager(client)
            tasks.on("finished", lambda event: heard.append(tasks[event.task_id].description))
            history.attach(tasks, "S")
            async for message in client.query("first", until="result"):
                own.track(message)
            cut_off, one = sorted(tasks, key=lambda task: task.description)
            await one.wait(timeout=60)
            with anyio.fail_after(240):
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(own.wait, cut_off.id)
                    await died(client)
            assert (cut_off.status, own[cut_off.id].status) == (TaskStatus.FAILED, TaskStatus.FAILED)
            await client.reopen()
            assert client.tasks is tasks
            assert cut_off.status is TaskStatus.FAILED
            await client.query("second", until="idle")
            assert sorted(task.description for task in tasks) == ["cut off", "one", "two"]
            await tasks.wait_all(timeout=60)
        assert sorted(heard) == ["cut off", "one", "two"]
        assert [message.task_id for message in notified] == [one.id, cut_off.id, list(tasks)[2].id]
        await history.flush()
        assert sorted(str(record.description) for record in await history.finished(session_id="S")) == [
            "cut off",
            "one",
            "two",
        ]


class OwnClient(Client):
    @cached_property
    def notes(self) -> list[str]:
        return []


async def test_prompts_that_the_cli_merged_go_on_as_one_after_a_reopening() -> None:
    """The transcript has them as one entry, with the uuid of the last."""
    gate = Gate()
    async with ScriptedModel([Reply("First.", after=gate), slow(), "All three."], on_exhausted="fail") as model:
        async with Client(model.options()) as client:
            states = client.events()
            runs = [client.query("Hello")]
            await gate.wait_reached()
            runs += [client.query(prompt) for prompt in ("Do it", "And that", "And more")]
            with anyio.fail_after(240):
                await have_queued(states, 4)
                gate.open()
                await on_disk(model, client, "$(seq 100)")
                await died(client)
                await client.reopen()
                assert [(await run).text for run in runs] == ["First.", *["All three."] * 3]
        last = str(model.requests_of("main")[-1].messages)
        assert [last.count(prompt) for prompt in ("Hello", "Do it", "And that", "And more")] == [1] * 4


async def test_a_prompt_that_joined_a_turn_goes_on_with_it_after_a_reopening() -> None:
    gate = Gate()
    hello = Reply(tool_use("Bash", {"command": "true"}), after=gate)
    async with ScriptedModel([hello, slow(), "Both."], on_exhausted="fail") as model:
        async with Client(model.options()) as client:
            states = client.events()
            runs = [client.query("Do it")]
            await gate.wait_reached()
            runs.append(client.query("And that"))
            with anyio.fail_after(240):
                await have_queued(states, 2)
                gate.open()
                await on_disk(model, client, "$(seq 100)")
                await died(client)
                await client.reopen()
                assert [(await run).text for run in runs] == ["Both.", "Both."]
        last = str(model.requests_of("main")[-1].messages)
        assert [last.count(prompt) for prompt in ("Do it", "And that")] == [1, 1]


@pytest.mark.long
async def test_a_run_that_is_being_read_continues_after_a_reopening() -> None:
    gate = Gate()
    async with ScriptedModel([Reply("late", after=gate), "It went on."]) as model:
        async with OwnClient(model.options()) as client:
            client.notes.append("mine")
            run = client.query("Do it")
            await gate.wait_reached()
            session = client.session_id
            kill(client)  # nothing of the session is on disk
            with pytest.raises(CLIExitError):
                [message async for message in run]
            await client.reopen()
            assert client.session_id == session is not None
            assert client.notes == ["mine"]
            assert [m.text async for m in run if isinstance(m, AssistantMessage)] == ["It went on."]
            result = await run
            assert result.text == "It went on."
            assert [message async for message in run] == result.messages
        gate.open()
        assert sum("Do it" in str(message) for message in model.requests[-1].messages) == 1


@pytest.mark.long
async def test_a_session_in_a_store_is_reopened() -> None:
    """Once where it began, and once where it was resumed."""
    store = MemoryStore()
    async with ScriptedModel([slow(), "It went on.", "next", slow(), "It went on.", "next"]) as model:
        options = model.options(session_store=store)
        for times, prompt in enumerate(("Do it", "Do more"), 1):
            async with Client(options.replace(resume_interrupted_turn=times == 2)) as client:
                assert client.resumed_run is None
                going = client.query(prompt)
                async for message in going:
                    if isinstance(message, AssistantMessage):
                        session = client.session_id
                        break
                await in_store(store, session, "$(seq 100)", times)
                await died(client)
                await client.reopen()
                result = await going
                assert (result.text, result.session_id) == ("It went on.", session)
                assert (await client.query("and now")).text == "next"
            [key] = [key for key in store.keys if "subpath" not in key]
            entries: list[Any] = [*store.entries(key)]
            uuids = [entry["uuid"] for entry in entries if "uuid" in entry]
            assert len(uuids) == len(set(uuids))
            prompts = [str(entry["message"]["content"]) for entry in entries if entry["type"] == "user"]
            assert prompts.count(prompt) == 1
            assert str(entries).count("'next'") == times
            options = options.replace(resume=session)


async def in_store(store: MemoryStore, session_id: str | None, text: str, times: int) -> None:
    """Wait until a store has a text in so many answers."""
    with anyio.fail_after(240):
        while (
            sum(
                text in str(entry)
                for key in store.keys
                if key["session_id"] == session_id
                for entry in store.entries(key)
                if entry["type"] == "assistant"
            )
            < times
        ):
            await anyio.sleep(0.02)


async def died(client: Client) -> None:
    kill(client)
    with pytest.raises(CLIExitError):
        [message async for message in client.messages()]


@pytest.mark.long
async def test_clients_that_cannot_be_reopened() -> None:
    with pytest.raises(LocalProtocolError):
        await Client().reopen()
    async with ScriptedModel(["one"]) as model:
        async with Client(model.options(persist_session=False)) as client:
            await client.query("hi")
            await died(client)
            with pytest.raises(LocalProtocolError, match="disk"):
                await client.reopen()


@pytest.mark.long
async def test_a_client_is_reopened_once_at_a_time_and_closed_meanwhile() -> None:
    """A child agent works on until then, and a resumed session does not know it."""
    refused: list[Exception] = []
    chosen, gate = str(uuid4()), Gate()
    worker = ChildAgent(AgentDefinition(description="Works", prompt="Work."), id="worker")
    async with ScriptedModel(["one"], sessions={"wait": [Reply("late", after=gate)]}) as model:
        client = Client(model.options(session_id=chosen))
        await client.connect()
        child = await client.spawn(worker, "wait")
        await gate.wait_reached()
        assert client.pid is not None
        os.kill(client.pid, signal.SIGSTOP)  # so that nothing of the session is on disk
        run = client.query("hi")
        await died(client)
        with pytest.raises(CLIExitError):
            await run
        assert child.status is TaskStatus.RUNNING

        async def reopen() -> None:
            try:
                await client.reopen()
            except (LocalProtocolError, ConnectionClosedError) as error:
                refused.append(error)

        async with anyio.create_task_group() as workers:
            workers.start_soon(reopen)
            workers.start_soon(reopen)
        assert [type(error) for error in refused] == [LocalProtocolError]
        assert (await child).status is TaskStatus.STOPPED
        result = await run
        assert (result.text, result.session_id) == ("one", chosen)
        await died(client)
        async with anyio.create_task_group() as workers:
            workers.start_soon(reopen)
            await anyio.sleep(0)
            workers.start_soon(client.close)
        assert [type(error) for error in refused] == [LocalProtocolError, ConnectionClosedError]
        assert not client.is_open
        assert not processes_with(f"HOME={model.sandbox.home}", "--output-format=stream-json")
        with pytest.raises(ConnectionClosedError):
            await client.reopen()
        async with Client(model.options(resume=chosen)) as client:
            assert list(client.tasks) == []
        gate.open()
        assert not model.requests_of("main")[-1].contains("task-notification")


@pytest.mark.long
async def test_a_killed_cli_writes_nothing_more_about_open_calls() -> None:
    with ScriptedModel([slow()]) as model:
        client = Client(model.options())
        client.kill()  # nothing runs yet
        config_dir = client.config_dir
        async with client:
            assert client.config_dir == config_dir == Path(model.sandbox.home) / ".claude"
            run = client.query("Do it", uuid=(prompt := str(uuid4())))
            async for message in run:
                if isinstance(message, AssistantMessage) and message.tool_uses:
                    break
            await on_disk(model, client, "$(seq 100)")
            client.kill()
            with pytest.raises(CLIExitError):
                await run
        [path] = (config_dir / "projects").glob(f"*/{client.session_id}.jsonl")
        assert prompt in path.read_text()
        assert '"tool_result"' not in path.read_text()
        assert processes_with("$(seq 100)") == []
        client.kill()  # nothing runs any more


async def test_a_conversation_in_a_private_home_goes_on_there_and_the_home_is_removed() -> None:
    with anyio.fail_after(240):
        async with ScriptedModel(lambda request: f"{len(request.messages)} messages") as model:
            async with Client(model.options(home=True)) as client:
                before = [(await client.query(prompt)).text for prompt in ("one", "two")]
                home = client.config_dir
                for prompt in ("three", "four"):
                    client.kill()
                    with pytest.raises(CLIExitError):
                        await client.query("lost")
                    await client.reopen()
                    before.append((await client.query(prompt)).text)
                assert client.config_dir == home
            assert home is not None
            assert not home.exists()
    counts = [int(text.split()[0]) for text in before]
    assert counts == sorted(counts)
    assert counts[-1] > counts[0] + 4

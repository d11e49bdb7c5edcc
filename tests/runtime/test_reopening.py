"""`Client.reopen` with programs that die: what the next process is started with, and which runs go on in it."""

import signal
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest
from peers import client_in_turn, crash
from stored import SESSION, Stored

from claude_agent_py import Client, Timeouts
from claude_agent_py.errors import (
    CLIExitError,
    CLINotFoundError,
    CLIStartError,
    ConnectionClosedError,
    InterruptedRunError,
    LocalProtocolError,
    PromptCancelledError,
    RunTimeoutError,
)
from claude_agent_py.observe import watch
from claude_agent_py.sessions import project_key_for_directory
from claude_agent_py.tasks import TaskFinished, TaskStarted
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script"),
]

Start: TypeAlias = Callable[..., Client]
DIES = steps.die(signal.SIGKILL)
PROMPT = "00000000-0000-4000-8000-00000000000a"
GOES_ON = "CLAUDE_CODE_RESUME_INTERRUPTED_TURN"


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Return a function that makes a client whose processes are these fakes, one after the other."""
    return partial(client_in_turn, tmp_path)


def starting(gate: Gate) -> list[Any]:
    """Answer `initialize` once a gate is open."""
    return [
        steps.wait_for_request("initialize"),
        steps.wait_gate(gate),
        steps.answer(frames.initialize_response()),
    ]


def dying(*before: Any) -> FakeCLI:
    """A CLI that dies in its first turn."""
    return FakeCLI(steps.wait_for_prompt(), *before, DIES)


async def cut_off(client: Client, prompt: Any = "hi", **more: Any) -> Any:
    """Return a run that the end of the process has cut off."""
    run = client.query(prompt, **more)
    with pytest.raises(CLIExitError):
        await run.result()
    return run


def write_session(tmp_path: Path, *prompts: dict[str, Any]) -> None:
    """Write prompts to the transcript, as the process that died did."""
    stored = Stored(tmp_path / "config", project=project_key_for_directory(tmp_path))
    for prompt in prompts:
        stored.user(prompt["message"]["content"], uuid=prompt["uuid"])
    stored.assistant("half of an answer")


@pytest.mark.parametrize(
    ("said", "more", "flags"),
    [
        ([], {}, []),
        ([frames.init(session_id=SESSION)], {"max_budget_usd": 1.0}, [f"--session-id={SESSION}"]),
        ([], {"resume": SESSION}, [f"--resume={SESSION}"]),
    ],
    ids=["before its session is known", "a new session", "a resumed session"],
)
async def test_a_session_that_is_not_on_disk_begins_anew(
    said: list[Any], more: dict[str, Any], flags: list[str], start: Start
) -> None:
    fake = FakeCLI(steps.turn("again"))
    with anyio.fail_after(60):
        async with start(dying(*said), fake, **more) as client:
            run = await cut_off(client)
            await client.reopen()
            assert (await run).text == "again"
    [begun] = fake.starts
    argv = " ".join(begun.argv).replace(" --", "\n--").replace("--resume ", "--resume=").replace("-id ", "-id=")
    assert [flag for flag in argv.splitlines() if flag.startswith(("--resume", "--session-id", "--fork"))] == flags


async def test_the_cost_of_another_session_does_not_count(start: Start, tmp_path: Path) -> None:
    other = Stored(tmp_path / "config", project=project_key_for_directory(tmp_path))
    other.user("hello")
    other.note("cost-state", totalCostUSD=5.0)
    with anyio.fail_after(60):
        async with start(dying(), FakeCLI(steps.turn("again")), max_budget_usd=1.0) as client:
            run = await cut_off(client)
            await client.reopen()
            assert (await run).spent_before_usd == 0.0


async def test_a_run_whose_turn_the_next_process_does_not_resume_has_ended(start: Start, tmp_path: Path) -> None:
    """The CLI had its prompt on disk, and would ignore it."""
    first, second = dying(frames.init(session_id=SESSION)), FakeCLI(steps.turn("next"))
    with anyio.fail_after(60):
        async with start(first, second) as client:
            run = await cut_off(client)
            write_session(tmp_path, *first.received_like({"type": "user"}))
            await client.reopen()
            with pytest.raises(CLIExitError, match="before it reported the result of the run"):
                await run
            assert (await client.query("go on")).text == "next"
    assert [frame["message"]["content"] for frame in second.received_like({"type": "user"})] == ["go on"]


async def test_prompts_that_the_cli_had_on_disk_as_one_are_not_sent_again(start: Start, tmp_path: Path) -> None:
    first = FakeCLI(steps.wait_for_prompt(), steps.wait_for_prompt(), frames.init(session_id=SESSION), DIES)
    second = FakeCLI(steps.turn("next"))
    with anyio.fail_after(60):
        async with start(first, second) as client:
            runs = [client.query("one"), client.query("two")]
            for run in runs:
                with pytest.raises(CLIExitError):
                    await run
            one, two = first.received_like({"type": "user"})
            stored = Stored(tmp_path / "config", project=project_key_for_directory(tmp_path))
            stored.user("one\ntwo", uuid=two["uuid"], mergedSendUuids=[one["uuid"]])
            with stored.path.open("a") as transcript:
                transcript.write('{"type":"user","mergedSendUuids":["half\n')
            await client.reopen()
            for run in runs:
                with pytest.raises(CLIExitError, match="before it reported the result of the run"):
                    await run
            assert (await client.query("go on")).text == "next"
    assert [frame["message"]["content"] for frame in second.received_like({"type": "user"})] == ["go on"]


async def test_a_prompt_is_sent_again_if_the_transcript_has_gone(start: Start, tmp_path: Path) -> None:
    gate, session = Gate(), frames.init(session_id=SESSION)
    greeting = frames.initialize_response(session_state="running")
    first, second = (
        dying(session),
        FakeCLI(steps.wait_gate(gate), frames.session_state("idle"), steps.turn("again"), initialize=greeting),
    )
    with anyio.fail_after(60):
        async with start(first, second) as client:
            run = await cut_off(client)
            write_session(tmp_path, *first.received_like({"type": "user"}))
            async with anyio.create_task_group() as group:
                group.start_soon(client.reopen)
                await second.wait_received({"request": {"subtype": "initialize"}})
                [transcript] = (tmp_path / "config").rglob(f"{SESSION}.jsonl")
                transcript.unlink()
                gate.open()
            assert (await run).text == "again"


async def test_a_run_that_ends_before_the_cli_reports_its_turn_is_not_sent_again(start: Start, tmp_path: Path) -> None:
    gate, session = Gate(), frames.init(session_id=SESSION)
    greeting = frames.initialize_response(session_state="running")
    second = FakeCLI(steps.wait_gate(gate), frames.session_state("idle"), initialize=greeting)
    with anyio.fail_after(60):
        async with start(dying(session), second) as client:
            run = await cut_off(client, timeout=1.0)
            write_session(tmp_path)
            async with anyio.create_task_group() as group:
                group.start_soon(client.reopen)
                await second.wait_received({"request": {"subtype": "initialize"}})
                with pytest.raises(RunTimeoutError):
                    await run
                gate.open()
    assert second.received_like({"type": "user"}) == []


async def test_a_prompt_that_was_withdrawn_is_not_sent_again(start: Start) -> None:
    async def prompts() -> AsyncIterator[str]:
        yield "one"
        yield "two"

    first = FakeCLI(steps.wait_for_prompt(), steps.wait_for_prompt(), frames.lifecycle("cancelled"), DIES)
    second = FakeCLI(steps.turn("again"))
    with anyio.fail_after(60):
        async with start(first, second) as client:
            run = await cut_off(client, prompts())
            await client.reopen()
            assert (await run).text == "again"
    assert [frame["message"]["content"] for frame in second.received_like({"type": "user"})] == ["one"]


async def test_closing_what_observed_the_last_process_leaves_what_observes_the_next_one(start: Start) -> None:
    second = FakeCLI(steps.turn([frames.task_started("a1"), *frames.task_end("a1"), frames.assistant("again")]))
    with anyio.fail_after(60):
        async with start(dying(), second) as client:
            watched, left = watch(client), client.journal()
            run = await cut_off(client)
            await client.reopen()
            facts = client.journal()
            watched.close()
            left.close()
            await run
        told = [fact.fact async for fact in facts]
    assert {"task_started", "task_finished"} <= set(told)


@pytest.mark.parametrize("subtype", ["set_model", "apply_flag_settings"])
async def test_changes_of_the_model_that_the_next_process_refuses_are_logged(
    subtype: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    second = FakeCLI(steps.turn("again"), answers={subtype: {"error": "no such model"}})
    with anyio.fail_after(60):
        async with start(dying(), second) as client:
            await (client.set_model("old") if subtype == "set_model" else client.settings.apply({"model": "old"}))
            run = await cut_off(client)
            await client.reopen()
            assert (await run).text == "again"
    assert f"the session does not accept {subtype} again: " in caplog.text
    assert "no such model" in caplog.text


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_client_whose_next_process_does_not_start_is_closed(
    is_there: bool, start: Start, tmp_path: Path
) -> None:
    with anyio.fail_after(60):
        async with start(dying(), FakeCLI(steps.stderr("no licence\n"), steps.exit(3))) as client:
            await cut_off(client)
            if not is_there:
                (tmp_path / "claude").unlink()
            with pytest.raises(CLIStartError if is_there else CLINotFoundError):
                await client.reopen()
            with pytest.raises(ConnectionClosedError):
                await client.reopen()
            with pytest.raises(ConnectionClosedError, match="is closed"):
                client.query("more")
            await client.wait_closed()
            assert client.info.claude_code_version is not None


async def test_a_client_that_is_reopened_has_what_its_last_process_told(start: Start) -> None:
    second = FakeCLI(answers={"initialize": None})
    with anyio.fail_after(60):
        async with start(dying(), second) as client, anyio.create_task_group() as group:
            await cut_off(client)
            told = client.info
            group.start_soon(client.reopen)
            while not second.requests("initialize"):
                assert client.info == told
                await anyio.sleep(0.01)
            assert client.info == told
            group.cancel_scope.cancel()


async def test_closing_while_the_last_process_is_cleared_away_ends_the_reopening(start: Start) -> None:
    second = FakeCLI()
    with anyio.fail_after(60):
        async with start(dying(), second) as client:
            await cut_off(client)
            async with anyio.create_task_group() as group:
                group.start_soon(client.close)
                with pytest.raises(ConnectionClosedError):
                    await client.reopen()
            assert not client.is_open
    assert second.starts == []


async def test_a_reopened_session_has_not_ended_for_those_who_wait(start: Start) -> None:
    ended = anyio.Event()

    async def wait(client: Client) -> None:
        await client.wait_closed()
        ended.set()

    with anyio.fail_after(60):
        async with start(dying(), FakeCLI(steps.turn("again"))) as client, anyio.create_task_group() as group:
            run = await cut_off(client)
            group.start_soon(wait, client)
            await client.reopen()
            assert (await run).text == "again"
            await anyio.wait_all_tasks_blocked()
            assert not ended.is_set()
            await client.close()
            await ended.wait()


async def test_a_turn_that_a_fork_resumes_has_the_prompts_of_the_newest_session(start: Start, tmp_path: Path) -> None:
    """The CLI reports only the id of the copy, which is not on disk yet."""
    prompt = {"message": {"content": "Do it"}, "uuid": "00000000-0000-4000-8000-00000000000a"}
    write_session(tmp_path, prompt)
    copy = "22222222-2222-4222-8222-222222222222"
    names: dict[str, Any] = {"user_message_uuids": [prompt["uuid"]]}
    fake = FakeCLI(
        frames.init(session_id=copy, **names),
        frames.assistant("It went on.", session_id=copy),
        frames.result("It went on.", session_id=copy, origin=None, **names),
        initialize=frames.initialize_response(session_state="running"),
    )
    more = {"continue_conversation": True, "fork_session": True, "resume_interrupted_turn": True}
    with anyio.fail_after(60):
        async with start(fake, **more) as client:
            assert client.resumed_run is not None
            result = await client.resumed_run
    assert (result.text, result.prompts) == ("It went on.", [prompt["uuid"]])
    assert [message["content"][0]["text"] for message in result.to_api_messages()] == ["Do it", "It went on."]


@pytest.mark.parametrize(
    "said",
    [[frames.init(session_id=SESSION), frames.assistant("half")], [frames.init(session_id=SESSION)], []],
    ids=["in its turn", "before its first answer", "before its turn"],
)
async def test_a_run_that_was_interrupted_after_the_crash_does_not_go_on(
    said: list[Any], start: Start, tmp_path: Path
) -> None:
    first, has_begun = dying(*said), bool(said)
    second = FakeCLI(steps.turn("next"), record_env=[GOES_ON])
    with anyio.fail_after(60):
        async with start(first, second) as client:
            run = await cut_off(client)
            if has_begun:
                write_session(tmp_path, *first.received_like({"type": "user"}))
            receipt = await run.interrupt()
            await client.reopen()
            with pytest.raises(InterruptedRunError if has_begun else PromptCancelledError):
                await run
            assert (await client.query("go on")).text == "next"
    assert receipt.outcome == ("interrupted" if has_begun else "dequeued")
    assert [frame["message"]["content"] for frame in second.received_like({"type": "user"})] == ["go on"]
    assert second.starts[0].environment[GOES_ON] is None


@pytest.mark.parametrize("times_out", [False, True], ids=["interrupted", "timed out"])
async def test_a_turn_whose_run_ends_before_the_next_process_resumes_it_is_interrupted_there(
    times_out: bool, start: Start, tmp_path: Path
) -> None:
    first, gate = dying(frames.init(session_id=SESSION)), Gate()
    names: dict[str, Any] = {"user_message_uuids": [PROMPT]}
    ends = frames.result("", subtype="error_during_execution", terminal_reason="aborted_streaming", **names)
    second = FakeCLI(
        [steps.wait_gate(gate), frames.init(session_id=SESSION, **names)],
        [steps.wait_for_request("interrupt"), steps.answer({}), ends],
        initialize=frames.initialize_response(session_state="running"),
    )
    with anyio.fail_after(60):
        async with start(first, second) as client:
            run = await cut_off(client, uuid=PROMPT, timeout=1.0 if times_out else None)
            write_session(tmp_path, *first.received_like({"type": "user"}))
            async with anyio.create_task_group() as group:
                group.start_soon(client.reopen)
                await second.wait_received({"request": {"subtype": "initialize"}})
                if not times_out:
                    assert (await run.interrupt()).outcome == "interrupted"
                with pytest.raises(RunTimeoutError if times_out else InterruptedRunError):
                    await run
                gate.open()
            assert client.resumed_run is not None
            with pytest.raises(InterruptedRunError):
                await client.resumed_run


async def test_a_queued_prompt_that_is_withdrawn_while_the_next_process_starts_is_not_sent_again(start: Start) -> None:
    gate = Gate()
    second = FakeCLI(starting(gate), steps.turn("next"))
    with anyio.fail_after(60):
        async with start(dying(), second) as client:
            run = await cut_off(client)
            async with anyio.create_task_group() as group:
                group.start_soon(client.reopen)
                await second.wait_received({"request": {"subtype": "initialize"}})
                assert (await run.interrupt()).outcome == "dequeued"
                gate.open()
            with pytest.raises(PromptCancelledError):
                await run
            assert (await client.query("go on")).text == "next"
    assert [frame["message"]["content"] for frame in second.received_like({"type": "user"})] == ["go on"]


async def test_closing_while_the_next_process_starts_ends_the_reopening(start: Start) -> None:
    """A CLI that is closed still answers, and then a prompt would be sent again."""
    gate = Gate()
    second = FakeCLI(starting(gate))
    client = start(dying(), second)

    async def reopen() -> None:
        with pytest.raises(ConnectionClosedError, match="the client is closed"):
            await client.reopen()

    with anyio.fail_after(60):
        await client.connect()
        await cut_off(client)
        async with anyio.create_task_group() as group:
            group.start_soon(reopen)
            await second.wait_received({"request": {"subtype": "initialize"}})
            group.start_soon(client.close)
            while not client.is_closed:
                await anyio.lowlevel.checkpoint()
            gate.open()


@pytest.mark.parametrize("note", ["queue-operation", ""], ids=["with a note", "empty"])
async def test_a_transcript_that_was_only_begun_is_begun_again(note: str, start: Start, tmp_path: Path) -> None:
    """The CLI (2.1.332) would neither resume the session nor begin it."""
    first, second = dying(frames.init(session_id=SESSION)), FakeCLI(steps.turn("again"))
    with anyio.fail_after(60):
        async with start(first, second) as client:
            run = await cut_off(client)
            stored = Stored(tmp_path / "config", project=project_key_for_directory(tmp_path))
            stored.path.touch()
            if note:
                stored.note(note, operation="enqueue")
            await client.reopen()
            assert not stored.path.exists()
            assert (await run).text == "again"
    assert f"--session-id {SESSION}" in " ".join(second.starts[0].argv).replace("=", " ")


async def test_a_process_that_died_before_its_first_turn_is_started_again_as_it_was(
    start: Start, tmp_path: Path
) -> None:
    write_session(tmp_path, {"message": {"content": "Delete all"}, "uuid": "00000000-0000-4000-8000-00000000000a"})
    resumed = {"resume": SESSION, "resume_session_at": "00000000-0000-4000-8000-00000000000b"}
    first, second = FakeCLI(record_env=[GOES_ON]), FakeCLI(steps.turn("again"), record_env=[GOES_ON])
    with anyio.fail_after(60):
        async with start(first, second, **resumed) as client:
            await crash(client)
            await client.reopen()
            assert client.resumed_run is None
            assert (await client.query("hi")).text == "again"
    [before], [after] = first.starts, second.starts
    assert {*after.argv} - {*before.argv} <= {"--permission-mode=default"}  # the one that was in effect
    assert {*before.argv} <= {*after.argv}
    assert before.environment == after.environment == {GOES_ON: None}


async def test_a_session_whose_transcript_is_gone_begins_anew_with_a_warning(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    session = frames.init(session_id=SESSION)
    first = FakeCLI(*steps.turn([session, frames.assistant("one")]), steps.wait_for_prompt(), DIES)
    with anyio.fail_after(60):
        async with start(first, FakeCLI(steps.turn("anew"))) as client:
            await client.query("hi")
            run = await cut_off(client)
            await client.reopen()
            assert (await run).text == "anew"
    assert "the conversation begins anew" in caplog.text


async def test_the_next_process_starts_when_the_listeners_of_the_last_one_have_ended(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    gate, heard = anyio.Event(), []

    async def listen(event: TaskStarted) -> None:
        heard.append(event.task_id)
        if event.task_id == "a1":
            with anyio.CancelScope(shield=True):
                await gate.wait()

    first = FakeCLI(steps.wait_for_prompt(), frames.task_started("a1"), DIES)
    second = FakeCLI(*steps.turn([frames.task_started("a2"), frames.assistant("again")]))
    with anyio.fail_after(60):
        async with start(first, second, timeouts=Timeouts(close=0.5)) as client:
            client.tasks.on("started", listen)
            run = await cut_off(client)
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.reopen)
                    while "close() stops waiting" not in caplog.text:
                        await anyio.lowlevel.checkpoint()
                    assert second.starts == []
                    gate.set()
            finally:
                gate.set()
            await run
            while heard != ["a1", "a2"]:
                await anyio.lowlevel.checkpoint()


async def test_a_listener_cannot_reopen_the_session_that_waits_for_it(start: Start) -> None:
    async def reopen(event: TaskFinished) -> None:
        with pytest.raises(LocalProtocolError, match="waits for the handlers and listeners"):
            await client.reopen()
        refused.set()

    refused = anyio.Event()
    first = FakeCLI(steps.wait_for_prompt(), frames.task_started("a1"), DIES)
    with anyio.fail_after(60):
        async with start(first, FakeCLI(steps.turn("again"))) as client:
            client.tasks.on("finished", reopen)
            run = await cut_off(client)
            await refused.wait()
            await client.reopen()
            assert (await run).text == "again"


async def test_a_listener_that_was_added_later_may_close_the_session(start: Start) -> None:
    async def close(event: TaskStarted) -> None:
        await client.close()
        closed.set()

    closed = anyio.Event()
    with anyio.fail_after(60):
        async with start(FakeCLI(steps.wait_for_prompt(), frames.task_started("a1"))) as client:
            client.tasks.on("started", close)
            run = client.query("hi")
            await closed.wait()
            with pytest.raises(ConnectionClosedError):
                await run


async def test_a_client_that_is_starting_is_waited_for(start: Start) -> None:
    with anyio.fail_after(60):
        client = start(FakeCLI())
        async with anyio.create_task_group() as group:
            group.start_soon(client.connect)
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(1.0) as limit:
                await client.wait_closed()
            assert limit.cancelled_caught
            await client.close()
            await client.wait_closed()


async def test_a_turn_that_was_interrupted_stays_left_if_the_next_process_dies_before_another(
    start: Start, tmp_path: Path
) -> None:
    first = dying(frames.init(session_id=SESSION), frames.assistant("half"))
    second, third = FakeCLI(record_env=[GOES_ON]), FakeCLI(steps.turn("next"), record_env=[GOES_ON])
    with anyio.fail_after(60):
        async with start(first, second, third) as client:
            run = await cut_off(client)
            write_session(tmp_path, *first.received_like({"type": "user"}))
            await run.interrupt()
            await client.reopen()
            await crash(client)
            await client.reopen()
            assert (await client.query("go on")).text == "next"
    assert [each.environment[GOES_ON] for each in (*second.starts, *third.starts)] == [None, None]
    assert f"--resume={SESSION}" in third.starts[0].argv


async def test_closing_is_bounded_while_a_reopening_waits_for_a_listener(start: Start) -> None:
    gate = anyio.Event()

    async def listen(event: TaskStarted) -> None:
        with anyio.CancelScope(shield=True):
            await gate.wait()

    async def reopen() -> None:
        with pytest.raises(ConnectionClosedError):
            await client.reopen()
        gate.set()

    first = FakeCLI(steps.wait_for_prompt(), frames.task_started("a1"), DIES)
    with anyio.fail_after(60):
        async with start(first, FakeCLI(), timeouts=Timeouts(close=0.5)) as client:
            client.tasks.on("started", listen)
            await cut_off(client)
            async with anyio.create_task_group() as group:
                group.start_soon(reopen)
                await anyio.wait_all_tasks_blocked()
                await client.close()


async def test_a_turn_that_begins_after_another_was_left_is_resumed(start: Start, tmp_path: Path) -> None:
    """The prompt of the other was not on disk, so that the next process had nothing to resume."""
    gate, other = Gate(), "00000000-0000-4000-8000-00000000000b"
    first = dying(frames.init(session_id=SESSION, user_message_uuids=[PROMPT]))
    names: dict[str, Any] = {"user_message_uuids": [other]}
    second = FakeCLI(starting(gate), steps.wait_for_prompt("go on"), frames.init(session_id=SESSION, **names), DIES)
    third = FakeCLI(
        [frames.init(session_id=SESSION, **names), frames.result("resumed", **names)],
        initialize=frames.initialize_response(session_state="running"),
        record_env=[GOES_ON],
    )
    with anyio.fail_after(60):
        async with start(first, second, third) as client:
            run = await cut_off(client, uuid=PROMPT)
            async with anyio.create_task_group() as group:
                group.start_soon(client.reopen)
                await second.wait_received({"request": {"subtype": "initialize"}})
                assert (await run.interrupt()).outcome == "interrupted"
                gate.open()
            run = await cut_off(client, "go on", uuid=other)
            write_session(tmp_path, *second.received_like({"type": "user"}))
            await client.reopen()
            assert (await run).text == "resumed"
    assert third.starts[0].environment[GOES_ON] is not None


async def test_it_is_too_late_to_interrupt_a_run_that_ended_as_its_task_died_with_the_process(
    start: Start, tmp_path: Path
) -> None:
    names: dict[str, Any] = {"user_message_uuids": [PROMPT]}
    first = dying(
        frames.init(session_id=SESSION, **names), frames.task_started("a1"), frames.result("It runs.", **names)
    )
    with anyio.fail_after(60):
        async with start(first, FakeCLI()) as client:
            run = await cut_off(client, uuid=PROMPT, until="idle")
            write_session(tmp_path, *first.received_like({"type": "user"}))
            await client.reopen()
            assert (await run).text == "It runs."
            assert (await run.interrupt()).outcome == "too_late"


async def test_the_transcript_of_a_conversation_that_was_rewound_to_its_beginning_is_kept(
    start: Start, tmp_path: Path
) -> None:
    first, second = dying(frames.init(session_id=SESSION)), FakeCLI()
    with anyio.fail_after(60):
        async with start(first, second) as client:
            await cut_off(client)
            stored = Stored(tmp_path / "config", project=project_key_for_directory(tmp_path))
            begin = stored.entry("attachment", attachment={"type": "date"})
            stored.user("hi")
            stored.assistant("an answer")
            stored.note("last-prompt", leafUuid=begin, explicit=True)
            await client.reopen()
    assert "an answer" in stored.path.read_text()
    assert f"--resume={SESSION}" in second.starts[0].argv

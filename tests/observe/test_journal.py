"""The journal: the same facts live, from a recording, from disk and from a store, and their JSON form."""

import json
import tracemalloc
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest
import recordings_loader as recordings
from each import for_each
from live import LiveJournal, View
from peers import MakeClient
from task_host import Host
from test_fold import SESSION, UNLIKE, entries_of, live_journal, path_of, write

from claude_agent_py import CLIExitError, OptionsError
from claude_agent_py.control import ControlResponse, ControlSuccess
from claude_agent_py.errors import HandlerError
from claude_agent_py.hooks import HookRun
from claude_agent_py.journal import (
    CallEnded,
    CallProgressed,
    CallStarted,
    Fact,
    Fault,
    InputAdded,
    Journal,
    MessageAdded,
    PromptSent,
    RequestOpened,
    RequestRetried,
    RequestSettled,
    StateChanged,
    TaskFinished,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
    TurnEnded,
    TurnStarted,
    decode_fact,
    encode_fact,
    make_schema,
    read_recording,
)
from claude_agent_py.messages import AssistantMessage, TextBlock, UserContent, UserMessage
from claude_agent_py.observe import watch
from claude_agent_py.sessions import MemoryStore, StoredSessions, get_session, import_session
from claude_agent_py.tasks import TaskIntake
from claude_agent_py.testing import FakeCLI, Gate, frames, steps
from claude_agent_py.wire import JSONObject, decode


def test_every_recording_has_the_same_facts_live() -> None:
    class Collecting(View):
        def __init__(self) -> None:
            self.facts: list[Fact] = []

        def add(self, facts: Iterable[Fact]) -> None:
            self.facts += facts

    def check(name: str) -> None:
        observer = Collecting()
        live_journal(name, observer)
        assert observer.facts == list(read_recording(path_of(name)))

    for_each(recordings.names(), check)


def test_facts_are_numbered_and_keep_everything_as_json() -> None:
    tags = set(make_schema()["discriminator"]["mapping"])

    def check(name: str) -> None:
        for number, fact in enumerate(read_recording(path_of(name)), 1):
            assert fact.number == number
            assert fact.fact in tags
            again = decode_fact(encode_fact(fact))
            told = fact.replace(message=None) if isinstance(fact, TaskFinished) else fact
            assert (type(again), again) == (type(fact), told)

    for_each(recordings.names(), check)


def identities(facts: Iterable[Fact]) -> dict[str, list[tuple[str, str]]]:
    """Return what each agent wrote and called, in order. Parts without content only report tokens."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for fact in facts:
        if isinstance(fact, CallStarted | CallEnded) or (isinstance(fact, MessageAdded) and fact.content):
            found[fact.agent].append((fact.fact, fact.id))
    return found


def prompts_of(facts: Iterable[Fact]) -> set[str]:
    """Return the prompts that have a uuid."""
    return {fact.id for fact in facts if isinstance(fact, PromptSent) and not fact.id.startswith(("#", "prompt"))}


def test_messages_and_calls_have_the_same_ids_on_disk(tmp_path: Path) -> None:
    compared = 0
    for number, name in enumerate(recordings.names()):
        if name in UNLIKE or not list(entries_of(name)):
            continue
        session = get_session(SESSION, config_dir=write(tmp_path / str(number), name))
        stored, recorded = list(session.journal()), list(read_recording(path_of(name)))
        assert identities(stored) == identities(recorded), name
        prompts = {fact.id for fact in recorded if isinstance(fact, PromptSent) and not fact.id.startswith("#")}
        assert {
            fact.id for fact in stored if isinstance(fact, PromptSent) and not fact.id.startswith("prompt")
        } <= prompts
        compared += 1
    assert compared >= 200


def test_a_session_in_a_store_has_the_facts_that_it_has_on_disk(tmp_path: Path) -> None:
    async def stored(config: Path) -> list[Fact]:
        store = MemoryStore()
        await import_session(store, SESSION, config_dir=config)
        session = await StoredSessions(store).get(SESSION)
        return list(session.journal())

    for name in ("turns/nested_agents", "tasks/s03_parallel_fg"):
        config = write(tmp_path / name, name)
        assert anyio.run(stored, config) == list(get_session(SESSION, config_dir=config).journal())


def test_a_start_told_twice_is_one_run_and_a_resumed_task_has_the_prompt_of_its_first_run() -> None:
    start = frames.task_started("a1", prompt="Look", tool_use_id="t1")
    again = {**frames.task_started("a1", run_id="1-a1"), "prompt": None}
    end = frames.task_notification("a1", summary="seen")
    journal = Journal()
    told = [journal.feed(decode(json.dumps(frame).encode())) for frame in (start, end, start, again)]
    started = [fact for facts in told for fact in facts if isinstance(fact, TaskStarted | TaskReopened)]
    assert [(fact.id, fact.prompt) for fact in started] == [("a1", "Look"), ("a1#2", "Look")]


def test_a_turn_that_is_interrupted_before_its_answer_is_no_part_of_the_next_one() -> None:
    """As in a transcript, which has no results of turns."""

    def told(task: str) -> JSONObject:
        text = f"<task-notification><task-id>{task}</task-id></task-notification>"
        return frames.user(text, origin=frames.task_origin(task))

    prompt = {"user_message_uuids": ["p1"]}
    session = (
        *(frames.init(**prompt), frames.assistant("Hi.", **prompt)),
        *(frames.task_started("b1"), frames.task_started("b2")),
        *(told("b1"), frames.user("[Request interrupted by user]")),
        *(told("b2"), frames.assistant("It ended.")),
    )
    journal = Journal()
    facts = [fact for frame in session for fact in journal.feed(decode(json.dumps(frame).encode()))]
    facts += journal.end()
    turns = [(fact.id, fact.causes) for fact in facts if isinstance(fact, TurnStarted)]
    assert turns == [("p1/1", ()), ("p1/2", ("b2",))]
    assert "cancelled" not in [fact.status for fact in facts if isinstance(fact, TurnEnded)]


def test_a_journal_does_not_grow_with_the_commands_that_have_ended() -> None:
    journal = Journal()

    def run(call: str) -> None:
        launch = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id=call)], id=call)
        began = frames.task_started(f"shell {call}", task_type="local_bash", is_backgrounded=False, tool_use_id=call)
        ended = frames.task_notification(f"shell {call}", tool_use_id=call)
        for frame in (launch, began, ended, frames.tool_result(call, "ok")):
            journal.feed(decode(json.dumps(frame).encode()))

    run("first")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(200):
            run(str(number))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 200 * 500


def fold_all(*told: JSONObject) -> list[Fact]:
    journal = Journal()
    return [fact for frame in told for fact in journal.feed(decode(json.dumps(frame).encode()))]


@pytest.mark.parametrize(
    ("stop_reason", "status", "call_status"),
    [("tool_use", "error", "cancelled"), (None, "error", "cancelled"), ("end_turn", "ok", "cancelled")],
)
def test_a_turn_without_a_result_ends_when_the_session_is_idle(
    stop_reason: str | None, status: str, call_status: str
) -> None:
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="t1")])
    call["message"]["stop_reason"] = stop_reason
    *_, ended_call, ended, state = fold_all(frames.init(), call, frames.session_state("idle"))
    assert isinstance(ended_call, CallEnded)
    assert isinstance(ended, TurnEnded)
    assert isinstance(state, StateChanged)
    assert (ended_call.id, ended_call.status) == ("t1", call_status)
    assert (ended.id, ended.status) == ("#1/1", status)


def test_a_turn_whose_result_cannot_be_read_failed() -> None:
    *_, fault, ended = fold_all(frames.init(), frames.assistant("Hi."), {"type": "result", "is_error": "no"})
    assert isinstance(fault, Fault)
    assert isinstance(ended, TurnEnded)
    assert (ended.status, ended.error) == ("error", fault.error)


def test_a_request_that_is_open_when_the_process_ends_is_cancelled() -> None:
    journal = Journal()
    for request in (frames.can_use_tool("r1"), frames.hook_callback("h1", "hook_0", {"hook_event_name": "Stop"})):
        journal.feed(decode(json.dumps(request).encode()), 1.0)
    settled = journal.end(5.0, None)
    assert [(type(fact), fact.id, fact.at) for fact in settled] == [
        (RequestSettled, "r1", 5.0),
        (RequestSettled, "h1", 5.0),
    ]
    assert {fact.status for fact in settled if isinstance(fact, RequestSettled)} == {"cancelled"}
    assert journal.open == []


@pytest.mark.parametrize(
    ("reply", "status"),
    [({"behavior": "completed"}, "ok"), ({"behavior": "cancelled"}, "denied"), (["of another form"], "ok")],
)
def test_a_dialog_is_open_until_its_reply(reply: Any, status: str) -> None:
    journal = Journal()
    asked = frames.control_request("r1", "request_user_dialog", dialog_kind="trust", tool_use_id="t1", payload={})
    [opened] = journal.feed(decode(json.dumps(asked).encode()), 1.0)
    assert isinstance(opened, RequestOpened)
    assert (opened.kind, opened.name, opened.call) == ("dialog", "trust", "t1")
    answer = ControlResponse(response=ControlSuccess(request_id="r1", response=reply))
    [settled] = journal.feed(answer, 2.0, sent=True)
    assert isinstance(settled, RequestSettled)
    assert settled.status == status
    assert journal.open == []


def test_a_denial_of_an_unknown_call_is_no_decision_about_a_later_one() -> None:
    denied = frames.system("permission_denied", tool_name="Bash", tool_use_id="t1", decision_reason_type="rule")
    call, result = frames.assistant([frames.tool_use_block("Bash", id="t1")]), frames.tool_result("t1", is_error=True)
    [ended] = [fact for fact in fold_all(denied, call, result) if isinstance(fact, CallEnded)]
    assert (ended.status, ended.permission) == ("failed", None)


@pytest.mark.parametrize(("stored", "status"), [({"decision": "reject"}, "denied"), ("odd", "failed")])
def test_a_decision_in_a_transcript_counts_if_it_can_be_read(stored: object, status: str) -> None:
    call = frames.assistant([frames.tool_use_block("Bash", id="t1")])
    result = frames.tool_result("t1", is_error=True, permissionDecision=stored)
    [ended] = [fact for fact in fold_all(call, result) if isinstance(fact, CallEnded)]
    assert ended.status == status


def fold_timed(*told: tuple[float, JSONObject]) -> list[tuple[str, float | None]]:
    journal = Journal()
    facts = [fact for at, frame in told for fact in journal.feed(decode(json.dumps(frame).encode()), at)]
    return [(fact.fact, fact.at) for fact in (*facts, *journal.finish())]


def test_a_turn_lasts_from_its_announcement_to_its_last_message_if_it_has_no_result() -> None:
    said, idle = frames.assistant("Hi."), frames.session_state("idle")
    said["message"]["stop_reason"] = "end_turn"
    caused = frames.user("<task-id>a1</task-id>", origin={"kind": "task-notification"})
    end = ("turn_ended", 5.0)
    whole = [("turn_started", 5.0), ("message_added", 5.0), end, ("state_changed", 8.0)]
    assert fold_timed((5.0, said), (8.0, idle)) == whole
    assert fold_timed((5.0, said)) == whole[:3]
    began = fold_timed((1.0, caused), (5.0, said), (8.0, idle))
    assert began == [("input_added", 1.0), ("turn_started", 1.0), *whole[1:]]
    # What was announced and did not come is not the beginning of the next turn.
    assert fold_timed((1.0, caused), (2.0, idle), (5.0, said))[1:] == [("state_changed", 2.0), *whole[:3]]


def test_an_error_of_the_api_without_a_name_is_unknown_and_a_prompt_without_an_id_has_a_number() -> None:
    failed = frames.assistant("API Error", is_api_error_message=True)
    journal = Journal()
    prompts = [
        journal.feed(message, sent=True)[0]
        for message in [UserMessage(message=UserContent(role="user", content="go"))] * 2
    ]
    assert [(type(fact), fact.id) for fact in prompts if isinstance(fact, PromptSent)] == [
        (PromptSent, "#1"),
        (PromptSent, "#2"),
    ]
    facts = [*journal.feed(decode(json.dumps(failed).encode())), *journal.finish()]
    assert [fact.error for fact in facts if isinstance(fact, MessageAdded)] == ["unknown"]
    assert [(fact.status, fact.error) for fact in facts if isinstance(fact, TurnEnded)] == [("error", "")]


def test_a_hook_has_its_handler_and_began_before_it_ran() -> None:
    def ran(request_id: str, error: HandlerError | None = None) -> HookRun:
        return HookRun(
            event="Stop",
            handler="check",
            callback_id="hook_0",
            request_id=request_id,
            agent_id=None,
            duration=0.5,
            output={"continue": True},
            error=error,
        )

    journal = Journal()
    request = frames.hook_callback("h1", "hook_0", {"hook_event_name": "Stop"})
    journal.feed(decode(json.dumps(request).encode()), 1.0)
    assert journal.feed(ran("h1"), 2.0) == []  # its reply settles the request
    reply = ControlResponse(response=ControlSuccess(request_id="h1", response={"continue": True}))
    [settled] = journal.feed(reply, 3.0, sent=True)
    assert isinstance(settled, RequestSettled)
    assert (settled.id, settled.name, settled.handler, settled.status, settled.at) == ("h1", "Stop", "check", "ok", 3.0)
    opened, settled = journal.feed(ran("h2"), 9.0)  # of whose request nothing is known
    assert isinstance(opened, RequestOpened)
    assert isinstance(settled, RequestSettled)
    assert (opened.id, opened.kind, opened.name, opened.handler, opened.at) == ("h2", "hook", "Stop", "check", 8.5)
    assert (settled.id, settled.handler, settled.at, settled.reply) == ("h2", "check", 9.0, {"continue": True})
    assert settled.status == "ok"
    opened, settled = journal.feed(ran("h3", HandlerError("check", "it raised")))
    assert isinstance(settled, RequestSettled)
    assert (opened.at, settled.at, settled.status) == (None, None, "error")


RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
ONE, TWO = ({"type": "text", "text": text} for text in ("one", "two"))


@pytest.mark.parametrize(
    ("content", "added"),
    [
        ("one", "one"),
        ([ONE], "one"),
        ([RESULT, ONE], "one"),
        ([ONE, TWO], [TextBlock(text="one"), TextBlock(text="two")]),
        ([RESULT], None),
        ([], None),
        ("", None),
    ],
)
def test_an_input_is_what_a_message_says_beside_the_results_of_calls(content: Any, added: object) -> None:
    inputs = [fact.content for fact in fold_all(frames.user(content)) if isinstance(fact, InputAdded)]
    assert inputs == ([] if added is None else [added])


def test_a_subagent_of_an_early_cli_is_known_by_the_call_that_launched_it() -> None:
    said = {**frames.assistant("Looking.", parent_tool_use_id="t9"), "agent_id": None}
    for launch, agent in (([frames.task_started("a1", tool_use_id="t9")], "a1"), ([], "t9")):
        *_, added = fold_all(frames.init(), *launch, said)
        assert isinstance(added, MessageAdded)
        assert added.agent == agent


def test_a_retry_says_in_seconds_when_the_next_attempt_is() -> None:
    retry = frames.system(
        "api_retry", attempt=1, max_retries=3, retry_delay_ms=1500, error="overloaded", error_status=529
    )
    [fact] = fold_all(retry)
    assert isinstance(fact, RequestRetried)
    assert (fact.attempt, fact.max_retries, fact.delay, fact.error, fact.error_status) == (1, 3, 1.5, "overloaded", 529)


@pytest.mark.parametrize("wrong", [{"progress": "half"}, {"total": []}, {"message": 1}, {"progressToken": {}}, None])
def test_a_report_of_progress_that_cannot_be_read_is_no_fact(wrong: JSONObject | None) -> None:
    def tell(request: JSONObject, *, sent: bool = False) -> list[Fact]:
        body = {"subtype": "mcp_message", "server_name": "s", "message": request}
        frame = {"type": "control_request", "request_id": "r", "request": body}
        return journal.feed(decode(json.dumps(frame).encode()), sent=sent)

    journal = Journal()
    call = frames.assistant([frames.tool_use_block("mcp__s__t", id="t1")])
    journal.feed(decode(json.dumps(call).encode()))
    meta = {"progressToken": 1, "claudecode/toolUseId": "t1"}
    tell({"method": "tools/call", "params": {"name": "t", "_meta": meta}})
    good = {"progressToken": 1, "progress": 1, "total": 2}
    report = {"method": "notifications/progress", "params": None if wrong is None else good | wrong}
    assert tell(report, sent=True) == []
    [fact] = tell({"method": "notifications/progress", "params": good}, sent=True)
    assert isinstance(fact, CallProgressed)
    assert (fact.progress, fact.total) == (1, 2)


def list_open(*told: object) -> list[tuple[str, str]]:
    """Return what is open after these frames. A prompt in a pair with True was sent to the CLI."""
    journal = Journal()
    for each in told:
        frame, is_sent = each if isinstance(each, tuple) else (each, False)
        journal.feed(decode(json.dumps(frame).encode()), sent=is_sent)
    return [(fact.fact, getattr(fact, "id", "")) for fact in journal.open]


@pytest.mark.parametrize("state", ["completed", "cancelled", "discarded", "refused"])
def test_a_prompt_that_gets_no_turn_of_its_own_is_not_open_for_ever(state: str) -> None:
    prompts = [({**frames.user("more"), "uuid": uuid}, True) for uuid in ("p1", "p2")]
    waiting = list_open(*prompts)
    assert waiting == [("prompt_sent", "p1"), ("prompt_sent", "p2")]
    started, ended = (
        {"type": "command_lifecycle", "command_uuid": "p1", "state": each, "session_id": "s", "uuid": "u"}
        for each in ("started", state)
    )
    assert list_open(*prompts, started, ended) == waiting[1:]


def test_the_calls_of_a_stopped_subagent_are_not_open_for_ever() -> None:
    told = []
    for task in ("a1", "a2"):
        told.append(frames.task_started(task))
        call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id=f"call of {task}")], id=task)
        told.append({**call, "agent_id": task, "parent_tool_use_id": f"t{task}"})
    told += [frames.task_notification("a1", status="stopped"), frames.init()]
    still_open = list_open(*told)
    assert ("call_started", "call of a2") in still_open
    assert ("call_started", "call of a1") not in still_open


@pytest.mark.anyio
async def test_a_client_streams_its_journal_and_a_late_reader_begins_with_what_is_open(start: MakeClient) -> None:
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="t1")], id="m1")
    gate = Gate()
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.PROMPT_FIELDS), call),
        steps.wait_gate(gate),
        steps.emit(frames.tool_result("t1", "a.py"), frames.result("Done.")),
    )
    async with start(fake) as client:
        first = client.journal()
        run = client.query("List the files")
        with anyio.fail_after(60):
            early = [await anext(first) for _ in range(4)]
            assert [type(fact) for fact in early] == [PromptSent, TurnStarted, MessageAdded, CallStarted]
            late = client.journal()
            assert [await anext(late) for _ in range(2)] == [early[1], early[3]]
            gate.open()
            await run
            ended = await anext(late)
    assert isinstance(ended, CallEnded)
    assert (ended.id, ended.call.name, ended.result.text) == ("t1", "Bash", "a.py")
    with anyio.fail_after(60):
        rest = [fact async for fact in first]
    assert [fact.number for fact in (*early, *rest)] == list(range(1, len(early) + len(rest) + 1))
    assert isinstance(rest[-1], TurnEnded)
    assert rest[0] == ended


@pytest.mark.anyio
async def test_a_late_reader_is_told_of_no_call_of_an_agent_that_is_not_known(start: MakeClient) -> None:
    gate, call = Gate(), frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="t1")], id="m1")
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.PROMPT_FIELDS), {**call, "parent_tool_use_id": "t0"}),
        steps.wait_gate(gate),
        frames.result("Done."),
    )
    async with start(fake) as client:
        messages, run = client.messages(), client.query("go")
        with anyio.fail_after(60):
            while not isinstance(await anext(messages), AssistantMessage):
                pass
            late = client.journal()
            gate.open()
            await run
        late.close()
        assert [type(fact) async for fact in late] == [TurnStarted, TurnEnded]


@pytest.mark.anyio
@pytest.mark.parametrize("is_followed", [True, False])
async def test_a_reader_that_begins_during_a_call_gets_its_end_and_how_the_turn_ended(
    start: MakeClient, is_followed: bool
) -> None:
    """Calls of a turn before, of a task that has ended, and those with a result are over."""
    bash = frames.tool_use_block("Bash", {"command": "ls"}, id="t2")
    gate = Gate()
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.PROMPT_FIELDS), frames.task_started("a1"), frames.task_started("a2")),
        steps.emit(*(frames.assistant([{**bash, "id": f"t{agent}"}], agent_id=agent) for agent in ("a1", "a2"))),
        steps.emit(frames.task_notification("a1"), frames.assistant([{**bash, "id": "t0"}])),
        steps.emit(frames.of_prompt(frames.result("Begun."))),
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.PROMPT_FIELDS), frames.assistant([{**bash, "id": "t1"}, bash])),
        steps.emit(frames.tool_result("t1", "a.py")),
        steps.wait_gate(gate),
        steps.emit(frames.tool_result("ta2", "b.py"), frames.session_state("idle")),
        steps.exit(0),
    )
    async with start(fake) as client:
        first = client.journal() if is_followed else None
        await client.query("one", until="result")
        with anyio.fail_after(60):
            messages = aiter(client.query("two"))
            while not isinstance(await anext(messages), UserMessage):
                pass
            late = client.journal()
            gate.open()
            told = [fact async for fact in late]
    del first
    begun = [(fact.id, fact.agent) for fact in told if isinstance(fact, CallStarted)]
    ended = [(fact.id, fact.status) for fact in told if isinstance(fact, CallEnded)]
    assert sorted(begun) == [("t2", ""), ("ta2", "a2")]
    assert ended == [("ta2", "succeeded"), ("t2", "cancelled")]
    assert [fact.status for fact in told if isinstance(fact, TurnEnded)] == ["error"]


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_a_turn_has_the_same_id_whoever_begins_to_read_during_it(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(
        steps.turn("Hi."),
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.PROMPT_FIELDS), frames.assistant("Wait.")),
        steps.wait_gate(gate),
        steps.emit(frames.of_prompt(frames.result("Done."))),
        steps.emit(frames.init(), frames.assistant("It ended."), frames.result(origin=frames.task_origin("b1"))),
        steps.exit(0),
    )
    prompt = "33333333-3333-4333-8333-333333333333"
    async with start(fake) as client:
        await client.query("one")
        with anyio.fail_after(60):
            messages = aiter(client.query("two", uuid=prompt))
            while not isinstance(await anext(messages), AssistantMessage):
                pass
            late = client.journal()
            turns = [await anext(late)]
            gate.open()
            turns += [fact async for fact in late if isinstance(fact, TurnStarted | TurnEnded)]
    assert [(type(fact), fact.id) for fact in turns] == [
        (TurnStarted, f"{prompt}/1"),
        (TurnEnded, f"{prompt}/1"),
        (TurnStarted, f"{prompt}/2"),
        (TurnEnded, f"{prompt}/2"),
    ]


def test_a_hook_whose_start_is_repeated_is_opened_once() -> None:
    hook = {"hook_id": "h1", "hook_name": "Stop", "hook_event": "Stop"}
    started = decode(frames.encode(frames.system("hook_started", **hook)))
    journal = Journal()
    told = [fact for message in (started, started) for fact in journal.feed(message)] + journal.end()
    assert [type(fact) for fact in told] == [RequestOpened, RequestSettled]


@pytest.mark.anyio
async def test_a_run_names_its_turns_as_the_session_does_if_another_run_came_between_them(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(
        steps.turn([frames.task_started("b1"), frames.assistant("It runs.")]),
        steps.turn("Hello."),
        steps.wait_gate(gate),
        steps.emit(*frames.task_end("b1")),
        steps.emit(frames.init(), frames.assistant("It ended."), frames.result(origin=frames.task_origin("b1"))),
        steps.turn("Bye."),
    )
    async with start(fake) as client:
        watched = watch(client)
        with anyio.fail_after(60):
            async with client.query("one", until="idle") as run:
                other = await client.query("two")
                gate.open()
                result = await run
            last = await client.query("three")
    spans, *theirs = [
        {span.id for span in each.timeline().spans if span.kind == "turn"} for each in (watched, result, other, last)
    ]
    first, second, third = (f"run:{each.sent[0].uuid}" for each in (result, other, last))
    assert theirs == [{f"{first}/1", f"{second}/2"}, {f"{second}/1"}, {f"{third}/1"}]
    assert spans == set.union(*theirs)


@pytest.mark.anyio
async def test_a_reader_that_begins_after_a_task_has_ended_gets_the_turn_that_it_caused(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(
        steps.turn([frames.task_started("b1"), frames.task_notification("b1")]),
        steps.wait_gate(gate),
        steps.emit(frames.init(), frames.assistant("It ended."), frames.result(origin=frames.task_origin("b1"))),
        steps.exit(0),
    )
    async with start(fake) as client:
        await client.query("one")
        late = client.journal()
        gate.open()
        with anyio.fail_after(60):
            assert [fact.causes async for fact in late if isinstance(fact, TurnEnded)] == [("b1",)]


@pytest.mark.anyio
async def test_a_session_that_nobody_follows_has_no_journal(start: MakeClient) -> None:
    async with start(FakeCLI(steps.turn("Hi."), steps.turn("Hi."))) as client:
        stream = client.journal()
        await client.query("hello")
        stream.close()
        assert client.session.journal is None
        stream.close()
        assert [type(fact).__name__ async for fact in stream][-1] == "TurnEnded"
        await client.query("hello")


@pytest.mark.anyio
async def test_the_journal_ends_with_a_reader_of_facts_among_messages(start: MakeClient) -> None:
    async with start(FakeCLI(*[steps.turn("Hi.")] * 2)) as client:
        events = client.events(facts=True)
        await client.query("hello")
        assert isinstance(await anext(events), PromptSent)
        del events
        await client.query("hello")
        assert client.session.journal is None


@pytest.mark.anyio
async def test_the_journal_of_a_closed_session_is_empty(start: MakeClient) -> None:
    async with start(FakeCLI(steps.wait_for_prompt(), steps.exit(1))) as client:
        stream = client.journal()
        with pytest.raises(CLIExitError):
            await client.query("hello")
        with anyio.fail_after(60):
            assert [type(fact) async for fact in stream] == [PromptSent]
            assert [fact async for fact in client.journal()] == []


@pytest.mark.anyio
async def test_a_late_reader_knows_the_tasks_that_run_and_how_they_end_with_the_process(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.PROMPT_FIELDS), frames.task_started("a1", description="look")),
        steps.emit(frames.result("Started.")),
        steps.wait_gate(gate),
        steps.exit(1),
    )
    async with start(fake) as client:
        await client.query("look around", until="result")
        facts = client.journal()
        gate.open()
        with anyio.fail_after(60):
            told = [fact async for fact in facts]
    assert isinstance(told[0], TaskStarted)
    assert (told[0].number, told[0].task_id, told[0].description) == (1, "a1", "look")
    assert told[0].at is not None
    assert told[0].at <= (told[-1].at or 0)
    assert [(fact.task_id, fact.new) for fact in told if isinstance(fact, TaskStatusChanged)] == [("a1", "failed")]
    [end] = [fact for fact in told if isinstance(fact, TaskFinished)]
    assert (end.task_id, end.outcome.status, end.outcome.is_reported) == ("a1", "failed", False)


def test_a_task_of_an_earlier_process_has_facts_when_it_is_reported_and_when_it_runs_again() -> None:
    class Collecting(View):
        def add(self, facts: Iterable[Fact]) -> None:
            told.extend(facts)

    def tell(*given: JSONObject) -> None:
        for frame in given:
            message = decode(json.dumps(frame).encode())
            tasks.update(message)
            journal.feed(message)
            tasks.publish()

    told: list[Fact] = []
    before = TaskIntake()
    for frame in (
        frames.task_started("p1", subagent_type="lead"),
        frames.task_started("a1", prompt="Look", subagent_type="helper", parent_task_id="p1"),
    ):
        before.track(decode(json.dumps(frame).encode()))
    before.process_exited("the process ended")
    tasks = TaskIntake(clock=lambda: 7.0)
    for task_id in ("p1", "a1"):
        tasks.recall(before.ledger.records[task_id])
    journal = LiveJournal(tasks.ledger, clock=tasks.clock)
    tasks.host = Host(journal.feed)
    journal.observe(Collecting())
    assert told == []
    left = {**frames.task_notification("a1", status="stopped", summary="left behind"), "run_id": None}
    tell(left, left)
    tell(frames.task_started("a1", run_id="1-a1", prompt="Look again", subagent_type="helper"))
    assert [(fact.fact, fact.id) for fact in told] == [
        ("task_started", "a1"),
        ("task_finished", "a1"),
        ("task_reopened", "a1"),
    ]
    assert isinstance(told[1], TaskFinished)
    assert (told[1].outcome.is_reported, told[1].outcome.summary) == (True, "left behind")
    whose = [(fact.at, getattr(fact, "agent", None), getattr(fact, "author", None)) for fact in told]
    assert whose == [(7.0, "p1", "lead")] * 3


@pytest.mark.anyio
async def test_a_reader_comes_back_and_misses_nothing(start: MakeClient) -> None:
    async with start(FakeCLI(steps.turn("One."), steps.turn("Two."), steps.turn("Three."))) as client:
        first = client.journal(retain=1000)
        await client.query("one")
        with anyio.fail_after(60):
            seen = [await anext(first)]
            while not isinstance(seen[-1], TurnEnded):
                seen.append(await anext(first))
        first.close()
        await client.query("two")  # nobody reads
        again = client.journal(after=seen[-1].number)
        behind = client.journal(after=seen[1].number)
        await client.query("three")
    with anyio.fail_after(60):
        rest = [fact async for fact in again]
        assert [fact async for fact in behind] == [*seen[2:], *rest]
        assert [fact async for fact in client.journal(after=seen[-1].number)] == rest  # the session has ended
    assert [fact.number for fact in (*seen, *rest)] == list(range(1, len(seen) + len(rest) + 1))
    assert sum(isinstance(fact, TurnEnded) for fact in rest) == 2


@pytest.mark.anyio
async def test_facts_that_are_not_retained_are_refused_instead_of_left_out(start: MakeClient) -> None:
    async with start(FakeCLI(steps.turn("One."), steps.turn("Two."))) as client:
        with pytest.raises(OptionsError, match="retains no facts"):
            client.journal(after=0)
        assert client.session.journal is None
        for wrong in (-1, 2.5):
            with pytest.raises(OptionsError, match="at least 0"):
                client.journal(retain=wrong)  # type: ignore[arg-type]
            with pytest.raises(OptionsError, match="at least 0"):
                client.journal(after=wrong)  # type: ignore[arg-type]
        client.journal(retain=2).close()
        await client.query("one")
        for wrong in (0, 1000):
            with pytest.raises(OptionsError, match=r"the facts .* are retained"):
                client.journal(after=wrong)
        client.journal(retain=0).close()
        assert client.session.journal is None
        with pytest.raises(OptionsError, match="retains no facts"):
            client.journal(after=0)
        await client.query("two")


@pytest.mark.anyio
async def test_a_report_that_comes_after_the_end_was_inferred_is_a_fact_of_its_own(start: MakeClient) -> None:
    is_over = Gate()
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.PROMPT_FIELDS), frames.task_started("a1", description="look")),
        steps.emit(frames.task_updated("a1", status="completed"), frames.result("Started.")),
        steps.wait_gate(is_over),
        steps.emit(frames.task_notification("a1", summary="seen")),
    )
    async with start(fake) as client:
        facts = client.journal()
        watched = watch(client)
        await client.query("look around", until="result")
        ends: list[TaskFinished | TaskRevised] = []
        with anyio.fail_after(60):
            async for fact in facts:
                if isinstance(fact, TaskFinished | TaskRevised):
                    ends.append(fact)
                    if fact.outcome.is_reported:
                        break
                    is_over.open()
        spans = [span for span in watched.spans if span.kind == "subagent"]
    told = [(fact.kind, fact.outcome.status, fact.outcome.is_reported, fact.outcome.summary) for fact in ends]
    assert (told[0], told[-1]) == (
        ("finished", "completed", False, ""),
        ("revised", "completed", True, "seen"),
    )
    assert [(span.id, span.status) for span in spans] == [("a1", "ok")]


@pytest.mark.anyio
async def test_a_session_that_has_ended_unobserved_has_no_facts_to_come_back_to(start: MakeClient) -> None:
    async with start(FakeCLI(steps.turn("Hi."))) as client:
        await client.query("hello")
        await client.close()
        with pytest.raises(OptionsError, match="retains no facts"):
            client.journal(after=0)

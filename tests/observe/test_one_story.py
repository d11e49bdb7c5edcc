"""All views of a session tell the same story: the same calls and tasks, with the same statuses and ends."""

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import pytest
import recordings_loader as recordings
from each import for_each
from hypothesis import assume, given, strategies as st
from later import Later
from live import Conversation, View, editor_updates
from one_session import have_queued
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from peers import read_into, start_in_memory
from test_fold import SESSION, UNLIKE, entries_of, frames_of, live_journal, path_of, spans_of, write

from claude_agent_py import (
    Client,
    ClientOptions,
    CLIExitError,
    ConnectionClosedError,
    HookContext,
    HookMatcher,
    PermissionContext,
    PermissionRequest,
    Run,
    RunResult,
    Task,
    TaskManager,
    ToolContext,
)
from claude_agent_py.errors import RunFailed
from claude_agent_py.hooks import HookInput
from claude_agent_py.journal import (
    CallEnded,
    CallProgressed,
    CallRunning,
    CallStarted,
    Fact,
    InputAdded,
    MessageAdded,
    PromptSent,
    RequestOpened,
    RequestSettled,
    TaskAnswered,
    TaskBackgrounded,
    TaskChanged,
    TaskFinished,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
    TurnEnded,
    TurnStarted,
    encode_fact,
    read_recording,
)
from claude_agent_py.messages import UnknownMessage, UserMessage
from claude_agent_py.observe import Span, Summary, Telemetry, Timeline, Used, watch
from claude_agent_py.permissions import Allow, Deny, PendingInteractions
from claude_agent_py.sessions import get_session
from claude_agent_py.tasks import RecordedTask, TaskEvent, TaskHistory, TaskStatus, TaskUsage
from claude_agent_py.testing import FakeCLI, Gate, Reply, ScriptedModel, frames, steps, tool_use
from claude_agent_py.tools import ToolCallRecord, ToolTraffic
from claude_agent_py.wire import JSONObject

if TYPE_CHECKING:
    import acp
else:
    acp = Later("acp")

DEADLINE = 60
OPEN: Final = "open"
"""The status of what has no end."""


SHARED: Final = (PromptSent, TurnStarted, TurnEnded, InputAdded, CallStarted, CallEnded, TaskStarted, TaskFinished)


class Call(NamedTuple):
    status: str
    agent: str


class Spent(NamedTuple):
    tokens: int
    cost: float | None
    uncounted: int = 0
    """Those of the tokens that nobody knows the model of."""


def spend(tokens: float, cost: float | None, uncounted: float = 0) -> Spent:
    return Spent(int(tokens), None if cost is None else round(cost, 9), int(uncounted))


def spend_of(usage: TaskUsage) -> Spent:
    return spend(usage.total_tokens, usage.cost_usd, usage.uncounted_tokens)


class Work(NamedTuple):
    """A task."""

    status: str
    ended_at: float | None
    is_shown: bool
    """Whether it runs, or ran, in the background."""


@dataclass
class Story:
    """The turns, the calls and the tasks of a session, by id, as its facts tell them."""

    turns: dict[str, str] = field(default_factory=dict)
    """Their statuses. A turn that leaves nothing in the conversation is not told."""
    spent: dict[str, Spent] = field(default_factory=dict)
    """By turn and by task. The next turn of the run shows what a silent one has cost."""
    silent: float = 0.0
    """What the silent turns since the latest other turn have cost."""
    rest: float = 0.0
    """What the silent turns have cost that no other turn of their run followed."""
    facts: list[Fact] = field(default_factory=list, compare=False, repr=False)
    summary: Summary = field(default_factory=Summary, compare=False, repr=False)
    """That of the timeline."""
    calls: dict[str, Call] = field(default_factory=dict)
    tasks: dict[str, Work] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> "Story":
        story = cls()
        for fact in facts:
            story.facts.append(fact)
            match fact:
                case TurnStarted():
                    story.start_turn(fact)
                case TurnEnded():
                    story.end_turn(fact)
                case CallStarted():
                    story.calls[fact.id] = Call(OPEN, fact.agent)
                case CallEnded():
                    story.calls[fact.id] = Call(fact.status.value, fact.agent)
                case TaskStarted() | TaskReopened():
                    story.tasks[fact.task_id] = Work(OPEN, None, fact.is_backgrounded)
                case TaskStatusChanged() if fact.new.is_terminal:
                    story.end(fact.task_id, fact.new, fact.at)
                case TaskFinished() | TaskRevised():
                    story.end(fact.task_id, fact.outcome.status, fact.at, fact.outcome.usage)
                case TaskBackgrounded():
                    story.tasks[fact.task_id] = story.tasks[fact.task_id]._replace(is_shown=True)
                case _:
                    pass
        return story

    def identities(self, *, but: Collection[str] = ()) -> Counter[tuple[str, str, str]]:
        """Return what every source has, by agent, type and id, but for some calls."""
        silent = {fact.id for fact in self.facts if isinstance(fact, TurnEnded) and fact.is_silent}
        return Counter(
            (fact.agent, fact.fact, fact.id)
            for fact in self.facts
            if isinstance(fact, SHARED) and fact.id not in silent and fact.id not in but
            if not (isinstance(fact, InputAdded) and NOT_SENT in str(fact.content))
        )

    def start_turn(self, fact: TurnStarted) -> None:
        self.turns[fact.id] = OPEN
        if fact.prompts:
            self.rest, self.silent = self.rest + self.silent, 0.0

    def end_turn(self, fact: TurnEnded) -> None:
        self.turns[fact.id] = fact.status
        if fact.is_silent:
            del self.turns[fact.id]
            self.silent += fact.cost_usd or 0.0
        elif fact.cost_usd is not None:
            self.spent[fact.id] = spend(fact.tokens.total if fact.tokens else 0, fact.cost_usd + self.silent)
            self.silent = 0.0

    def sum_up(self, parts: Iterable[str]) -> float:
        """Return what some turns or tasks have cost."""
        return sum(self.spent[part].cost or 0.0 for part in parts if part in self.spent)

    def end(self, task: str, status: TaskStatus, at: float | None, usage: TaskUsage | None = None) -> None:
        if usage is not None:
            self.spent[task] = spend_of(usage)
        known = self.tasks[task]
        self.tasks[task] = known._replace(status=status.value, ended_at=known.ended_at or at)


# What differs, and why. Everything that is not in these tables is the same.

WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "editor": {OPEN: "in_progress", "succeeded": "completed", "completed": "completed"},
    "chat": {OPEN: "→", "succeeded": "✓"},
    "timeline": {OPEN: "running", "succeeded": "ok", "completed": "ok", "failed": "error", "stopped": "cancelled"},
}
"""The protocol of editors and the chat have one word for all that did not succeed."""
OTHERWISE: Final = {"editor": "failed", "chat": "✗"}
ONLY_MAIN: Final = (
    "subagents' calls are in a chat the line of their task, and in a stored session those of its subagents"
)
IN_ITS_CALL: Final = "an editor shows a subagent that its call waits for as that call"
A_PART: Final = "a shell in the foreground is a part of its call"
WITHOUT_A_START: Final = "of some tasks of an earlier process there is only the report, which has no type"
CORRECTED: Final = 0.1
"""Seconds. The CLI may tell the exact end of a task after it has reported the task, or after its end was noticed."""
OF_MESSAGES: Final = (
    "the timeline of a run is folded from the messages that it has recorded, and only if somebody wants it: it lacks "
    "hooks and questions"
)
HIDDEN: Final = "calls that the CLI takes out of a conversation that it resumes are not in its journal on disk"
NOT_SENT: Final = "<task-notification>"
"""The CLI does not send what it tells the model about tasks that an earlier process left."""
ON_DISK: Final = "recordings lack the files that tell how a task ended, and what a subagent of a subagent launched"


def in_words(view: str, status: str) -> str:
    return WORDS[view].get(status, OTHERWISE.get(view, status))


def of_records(calls: Iterable[ToolCallRecord]) -> dict[str, str]:
    return {call.id: call.status.value if call.done else OPEN for call in calls}


def check_editor(story: Story, items: Iterable[object]) -> None:
    updates = editor_updates()
    shown: dict[str, str] = {}
    for item in items:
        for update in updates.feed(item):
            if isinstance(update, acp.schema.ToolCallStart | acp.schema.ToolCallProgress) and update.status:
                shown[update.tool_call_id] = update.status
    calls = {call: in_words("editor", told.status) for call, told in story.calls.items()}
    tasks = {f"task:{task}": in_words("editor", told.status) for task, told in story.tasks.items() if told.is_shown}
    assert shown == calls | tasks, IN_ITS_CALL


def check_chat(story: Story, items: Sequence[object]) -> None:
    chat = Conversation()
    entries = list(dict.fromkeys(entry for item in items for entry in chat.apply(item)))
    marks = [entry.mark for entry in entries if entry.kind == "tool"]
    assert marks == [in_words("chat", told.status) for told in story.calls.values() if not told.agent], ONLY_MAIN
    ended = [item.outcome.status.value for item in items if isinstance(item, TaskFinished)]
    lines = [entry.text for entry in entries if entry.kind == "task" and entry.mark != "↓"]
    assert len(lines) == len(ended)
    assert all(f" {status}" in line for status, line in zip(ended, lines, strict=True))


def check_timeline(story: Story, spans: Iterable[Span]) -> None:
    spans = list(spans)
    calls = {span.id: span.status for span in spans if span.kind == "tool"}
    assert calls == {call: in_words("timeline", told.status) for call, told in story.calls.items()}
    turns = {span.id: span.status for span in spans if span.kind == "turn"}
    assert turns == {f"run:{turn}": in_words("timeline", status) for turn, status in story.turns.items()}
    tasks = {span.agent: (span.status, span.end) for span in spans if span.kind in ("subagent", "task", "child")}
    assert {task: status for task, (status, _) in tasks.items()} == {
        task: in_words("timeline", told.status) for task, told in story.tasks.items()
    }
    known = {task: told.ended_at for task, told in story.tasks.items() if told.ended_at or told.status == OPEN}
    assert {task: end for task, (_, end) in tasks.items() if task in known} == pytest.approx(known, abs=CORRECTED)


def check_run(session: Iterable[Span], run: Iterable[Span]) -> None:
    """Compare the timeline of the only run of a session with that of the session."""

    def tell(spans: Iterable[Span]) -> dict[str, tuple[object, ...]]:
        told = [span for span in spans if span.kind not in ("hook", "waiting")]
        return {
            span.id: (
                *(
                    span.kind,
                    span.name,
                    span.status,
                    span.parent,
                    span.agent,
                    spend(span.tokens.total if span.tokens else 0, span.cost_usd),
                ),
                *(None if at is None else pytest.approx(at, abs=CORRECTED) for at in (span.start, span.end)),
            )
            for span in told
        }

    assert tell(run) == tell(session), OF_MESSAGES


def check_tasks(story: Story, known: Iterable[Task]) -> None:
    tasks = {
        task.id: (task.status.value if task.done else OPEN, task.ended_at)
        for task in known
        if not task.is_ambient and (task.id in story.tasks or (task.type and (task.is_agent or task.is_backgrounded)))
    }
    expected = {
        task: (told.status, pytest.approx(told.ended_at, abs=CORRECTED) if told.ended_at else None)
        for task, told in story.tasks.items()
    }
    assert tasks == expected, f"{A_PART}; {WITHOUT_A_START}"


def check_history(story: Story, tree: Iterable[RecordedTask]) -> None:
    found: dict[str, str] = {}
    waiting = list(tree)
    while waiting:
        task = waiting.pop()
        found[task.id] = task.status.value if task.status.is_terminal else OPEN
        if task.id in story.spent:
            assert task.usage is not None
            assert spend_of(task.usage) == story.spent[task.id]
        waiting += task.children
    expected = {task: told.status for task, told in story.tasks.items()}
    assert {task: status for task, status in found.items() if task in expected} == expected, A_PART


def check_usage(story: Story, timeline: Timeline, traced: Iterable[ReadableSpan], known: Iterable[Task]) -> None:
    """Compare the tokens and costs of turns and tasks."""
    turns = {turn: story.spent[turn] for turn in story.turns if turn in story.spent}
    tasks = {task: story.spent[task] for task in story.tasks if task in story.spent}
    shown = {span.id.removeprefix("run:"): span for span in timeline.spans if span.kind != "run"}
    assert {turn: spend(span.tokens.total, span.cost_usd) for turn in turns if (span := shown[turn]).tokens} == turns
    figures = {task: shown[task].attributes for task in tasks}
    assert {
        task: spend(about["total_tokens"], shown[task].cost_usd, about.get("uncounted_tokens", 0))
        for task, about in figures.items()
    } == tasks
    assert {task.id: spend_of(task.usage) for task in known if task.usage} == tasks
    used = timeline.summary.by_agent
    for task, told in tasks.items():
        assert spend(used[task].tokens.total + told.uncounted, used[task].cost_usd, told.uncounted) == told
    exported = [dict(span.attributes or {}) for span in traced]
    assert {span.get("gen_ai.tool.call.id") for span in exported} - {None} == story.calls.keys()
    agents = [span for span in exported if span.get("gen_ai.operation.name") == "invoke_agent"]
    of_turns = [span for span in agents if "claude_agent.task.id" not in span]
    tokens = sum_of(of_turns, "gen_ai.usage.input_tokens") + sum_of(of_turns, "gen_ai.usage.output_tokens")
    assert spend(tokens, sum_of(of_turns, "claude_agent.cost_usd")) == spend(
        sum(spent.tokens for spent in turns.values()), sum(spent.cost or 0.0 for spent in turns.values())
    )


def check_costs(story: Story, summary: Summary, results: Sequence[RunResult]) -> None:
    """Compare the costs of a whole session, whose turns all have a result."""
    whole = story.sum_up(story.turns) + story.silent + story.rest
    assert sum(result.cost_usd for result in results) == pytest.approx(whole)
    assert (summary.cost_usd or 0.0) == pytest.approx(whole)
    main = max(0.0, whole - story.sum_up(story.tasks))
    assert (summary.by_agent.get("", Used()).cost_usd or 0.0) == pytest.approx(main)
    assert sum(result.usage_by_agent[""].cost_usd or 0.0 for result in results) == pytest.approx(main)


def sum_of(spans: Iterable[Mapping[str, Any]], attribute: str) -> Any:
    return sum(span.get(attribute, 0) for span in spans)


def facts_among(items: Iterable[Any]) -> list[Fact]:
    """Return the facts. The events of tasks that are no facts have no number."""
    return [item for item in items if hasattr(item, "fact") and item.number]


class Collecting(View):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def add(self, facts: Sequence[Fact]) -> None:
        self.items += facts


def check_recording(name: str, attach: Callable[[TaskManager], object] = lambda manager: None) -> Story:
    """Compare the views of a session that does what is recorded, and return its story."""
    items: list[Any] = []
    managers: list[TaskManager] = []

    def begin(tasks: Any) -> None:
        managers.append(TaskManager(intake=tasks))
        attach(managers[0])
        tasks.host.take = lambda events: items.extend(event for event in events if not event.number)

    live_journal(name, Collecting(items), begin)
    story = Story.of(facts_among(items))
    assert Story.of(read_recording(path_of(name))) == story
    traffic = ToolTraffic()
    for _, frame, is_sent in frames_of(name):
        if not is_sent:
            traffic.fold(frame)
    assert of_records(traffic.calls) == {call: told.status for call, told in story.calls.items()}
    check_tasks(story, managers[0])
    check_editor(story, items)
    check_chat(story, items)
    check_timeline(story, spans_of(name))
    return story


@pytest.mark.anyio
async def test_every_recording_is_one_story_in_every_view() -> None:
    managers: list[TaskManager] = []  # the history follows them as long as they live
    stories: dict[str, Story] = {}

    async with TaskHistory(":memory:") as history:

        def check(name: str) -> None:
            def attach(manager: TaskManager) -> None:
                managers.append(manager)
                history.attach(manager, name)

            stories[name] = check_recording(name, attach)

        for_each(recordings.names(), check)
        for name, story in stories.items():
            check_history(story, (await history.rebuild(name)).roots)


@given(st.sampled_from(recordings.names()), st.sets(st.floats(0, 1, exclude_max=True), min_size=1, max_size=4))
def test_a_recording_that_lacks_some_frames_is_one_story_in_every_view(name: str, lost: set[float]) -> None:
    lines = recordings.FOLDER.joinpath(f"{name}.jsonl").read_text().splitlines()
    whole = [line for line in lines if json.loads(line)["dir"] in ("in", "out")]
    places = {int(place * len(whole)) for place in lost}
    kept = [line for place, line in enumerate(whole) if place not in places]
    assume(kept)
    end = json.dumps({"t": json.loads(whole[-1])["t"], "dir": "exit", "m": 0})
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "lossy.jsonl").write_text("\n".join([*kept, end]))
        check_recording(f"{folder}/lossy")


def test_every_recording_has_the_same_calls_on_disk(tmp_path: Path) -> None:
    def check(name: str) -> None:
        session = get_session(SESSION, config_dir=write(tmp_path / name, name))
        story, stored = Story.of(read_recording(path_of(name))), Story.of(session.journal())
        assert stored.calls == story.calls
        assert stored.tasks.keys() <= story.tasks.keys(), ON_DISK
        assert of_records(session.tool_calls) == {
            call: told.status for call, told in story.calls.items() if not told.agent
        }, ONLY_MAIN

    for_each([name for name in recordings.names() if name not in UNLIKE and list(entries_of(name))], check)


# Live ----------------------------------------------------------------------------------------------------------------


async def tell(
    client: Client,
    work: Callable[[], Awaitable[Sequence[RunResult]]],
    begin: Callable[[], Awaitable[object]] | None = None,
) -> Story:
    """Do work with a client whose views are all followed, and compare them when its process has ended.

    If it begins otherwise than by connecting, the client is not closed.
    """
    items: list[Any] = []
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(tracer_provider=provider)
    with anyio.fail_after(DEADLINE):
        async with TaskHistory(":memory:") as history, anyio.create_task_group() as group:
            async with client if begin is None else begun(begin):
                earlier = {task.id for task in client.tasks}
                history.attach(client.tasks, "live")
                facts, spans = client.journal(), watch(client)
                client.session.observe(telemetry.observer())
                group.start_soon(read_to_the_end, items, client.events(facts=True))
                results = await work()
            told = [fact async for fact in facts]
            tree = (await history.rebuild("live")).roots
    assert facts_among(items) == told
    story = Story.of(told)
    story.summary = spans.timeline().summary
    known = [task for task in client.tasks if task.id in story.tasks or task.id not in earlier]
    check_tasks(story, known)
    check_editor(story, items)
    check_chat(story, items)
    check_timeline(story, spans.spans)
    check_history(story, tree)
    check_usage(story, spans.timeline(), exporter.get_finished_spans(), known)
    if results:
        if len({span.id for span in spans.spans if span.kind == "run"}) == len(results) == 1 and not earlier:
            check_run(spans.spans, results[0].timeline().spans)
        if begin is None and all(fact.cost_usd is not None for fact in told if isinstance(fact, TurnEnded)):
            check_costs(story, spans.timeline().summary, results)
        shown = {span.id for result in results for span in result.timeline().spans if span.kind == "turn"}
        assert begin is not None or shown <= {f"run:{turn}" for turn in story.turns}
        records = [call for result in results for call in result.tool_calls if call.id in story.calls or begin is None]
        calls = of_records(records)
        expected = {call: told.status for call, told in story.calls.items()}
        assert calls == expected
        denials = {denial.tool_use_id for result in results for denial in result.permission_denials}
        assert denials == {call for call, status in expected.items() if status == "denied"}
    return story


@asynccontextmanager
async def begun(begin: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    await begin()
    yield


async def read_to_the_end(seen: list[Any], source: AsyncIterator[Any]) -> None:
    with suppress(CLIExitError):
        await read_into(seen, source)


SHELL: Final = {"task_type": "local_bash", "description": "Tests"}


def launched() -> list[JSONObject]:
    """Return the frames of a turn that launches a shell and looks at a file."""
    launch = frames.tool_use_block("Bash", {"command": "make test", "run_in_background": True}, id="t1")
    return [
        frames.assistant([launch]),
        frames.task_started("b1", is_backgrounded=True, tool_use_id="t1", **SHELL),
        frames.tool_result("t1", "Command running in background with ID: b1."),
        frames.system("background_tasks_changed", tasks=[{"task_id": "b1", **SHELL}]),
    ]


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_a_task_whose_end_nobody_reported_ends_in_every_view() -> None:
    fake = FakeCLI(
        steps.turn([*launched(), frames.assistant("They run.")]),
        steps.emit(frames.system("background_tasks_changed", tasks=[])),
    )
    client = start_in_memory(fake)

    async def work() -> list[RunResult]:
        result = await client.query("go")
        await client.tasks.wait("b1")
        return [result]

    story = await tell(client, work)
    assert (story.tasks["b1"].status, story.calls["t1"].status) == ("completed", "succeeded")


@pytest.mark.anyio
async def test_an_end_that_a_late_report_corrects_is_corrected_in_every_view() -> None:
    gate = Gate()
    fake = FakeCLI(
        steps.turn([*launched(), frames.assistant("They run.")]),
        steps.emit(frames.task_updated("b1", status="completed")),
        steps.wait_gate(gate),
        steps.emit(frames.task_notification("b1", status="failed", summary="exit code 2")),
    )
    client = start_in_memory(fake)

    async def work() -> list[RunResult]:
        corrections = client.tasks.events(TaskRevised)
        result = await client.query("go", until="result")
        assert (await client.tasks.wait("b1")).status is TaskStatus.COMPLETED
        gate.open()
        await anext(corrections)
        return [result]

    story = await tell(client, work)
    assert story.tasks["b1"].status == "failed"


@pytest.mark.anyio
@pytest.mark.each_backend
@pytest.mark.parametrize("is_asked", [False, True])
async def test_the_end_of_the_process_ends_everything_in_every_view(is_asked: bool) -> None:
    gate = Gate()
    look = frames.tool_use_block("Read", {"file_path": "/a"}, id="t2")
    asked = frames.can_use_tool("r1", tool_use_id="t2")
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.PROMPT_FIELDS), *launched(), frames.assistant([look]), asked),
        steps.wait_gate(gate),
        steps.exit(1),
    )
    client = start_in_memory(fake, interactions=PendingInteractions(), permission_mode="default")

    async def work() -> list[RunResult]:
        facts = client.journal()
        run = client.query("go")
        while not isinstance(await anext(facts), RequestOpened):
            pass
        if is_asked:
            client.abort()
        else:
            gate.open()
        with pytest.raises((CLIExitError, ConnectionClosedError)):
            await run
        return []

    story = await tell(client, work)
    assert (story.tasks["b1"].status, story.calls["t2"].status) == ("stopped" if is_asked else "failed", "cancelled")
    assert list(story.turns.values()) == ["cancelled" if is_asked else "error"]
    assert [fact.status for fact in story.facts if isinstance(fact, RequestSettled)] == ["cancelled"]


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_task_listeners_get_the_facts_of_the_journal() -> None:
    shell = {"task_id": "b1", **SHELL}
    started = frames.task_started("b1", is_backgrounded=True, tool_use_id="t2", **SHELL)
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(
            frames.init(**frames.PROMPT_FIELDS),
            frames.task_started("a1", "look", is_backgrounded=True, subagent_type="looker"),
            frames.task_updated("a1", status="paused"),
            frames.task_updated("a1", status="running"),
            started,
            frames.system("background_tasks_changed", tasks=[{**shell, "parent_task_id": "a1"}]),
            frames.task_started("b2", is_backgrounded=False, tool_use_id="t3", **SHELL),  # a part of its call
            frames.task_started("m1", is_backgrounded=True, ambient=True, task_type="dream"),
            frames.can_use_tool("r1", agent_id="a1"),
        ),
        steps.wait_for_reply("r1"),
        steps.emit(*(frames.task_notification(task, summary="seen") for task in ("a1", "b1", "b2", "m1"))),
        frames.of_prompt(frames.result()),
    )
    inbox = PendingInteractions()
    client = start_in_memory(fake, interactions=inbox, permission_mode="default")
    events: list[TaskEvent] = []
    facts: list[Fact] = []

    async def work() -> list[RunResult]:
        journal, stream = client.journal(), client.tasks.events()
        run = client.query("go")
        waiting = await anext(inbox.arrivals())
        await waiting.answer(Allow(), by="Ann")
        result = await run
        await client.tasks.wait_all(["a1", "b1", "b2"])
        await client.close()
        events.extend([event async for event in stream])
        facts.extend([fact async for fact in journal])
        return [result]

    story = await tell(client, work)
    assert {task: told.status for task, told in story.tasks.items()} == {"a1": "completed", "b1": "completed"}
    about_tasks = [fact for fact in facts if isinstance(fact, TaskEvent)]
    assert [id(event) for event in events if event.number] == [id(fact) for fact in about_tasks]
    assert {event.task_id for event in events if not event.number} == {"b2", "m1"}, A_PART
    of_agent = [fact for fact in about_tasks if fact.task_id == "a1"]
    statuses = [fact.new for fact in of_agent if isinstance(fact, TaskStatusChanged)]
    assert statuses[:4] == ["paused", "running", "awaiting_user", "running"]
    [answered] = [fact.answered for fact in of_agent if isinstance(fact, TaskAnswered)]
    assert (answered.by, [fact.kind for fact in of_agent].count("asked")) == ("Ann", 1)
    [changed] = [fact for fact in about_tasks if isinstance(fact, TaskChanged)]
    assert (changed.task_id, changed.parent_id) == ("b1", "a1")


FIRST: Final = "11111111-1111-4111-8111-111111111111"
SECOND: Final = "22222222-2222-4222-8222-222222222222"


CALLS: Final = frames.assistant(
    [frames.tool_use_block(name, id=id) for name, id in (("Bash", "t1"), ("mcp__tools__count", "t2"), ("Write", "t4"))]
)
LEFT: Final = (
    frames.assistant([frames.tool_use_block("Bash", id="t5")], agent_id="a2"),
    frames.task_notification("a2"),
)
DENIED: Final = frames.system("permission_denied", tool_name="Write", tool_use_id="t4", decision_reason_type="rule")
ANSWER: Final = frames.assistant("Two.")


def waiting_session(gate: Gate) -> FakeCLI:
    """Return a session with two prompts, hooks of both kinds, and calls in all states."""
    meta = {"claudecode/toolUseId": "t2", "progressToken": 1}
    hook = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "tool_use_id": "t1"}
    results = [
        frames.tool_result(id, text, is_error=text == "No") for id, text in (("t1", "a"), ("t2", "2"), ("t4", "No"))
    ]
    done = [frames.tool_result("t5", "b", agent_id="a2"), *results, frames.task_notification("a1")]
    beat = {"tool_use_id": "t1-heartbeat-0", "parent_tool_use_id": "t1", "heartbeat": True}
    progress = {"tool_name": "Bash", "elapsed_time_seconds": 30, **beat}
    named: JSONObject = {"user_message_uuid": FIRST, "user_message_uuids": [FIRST]}
    settings_hook = {"hook_id": "h1", "hook_name": "Stop", "hook_event": "Stop"}
    return FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(
            frames.init(**named), *(frames.task_started(id, is_backgrounded=False) for id in ("a1", "a2")), CALLS
        ),
        steps.emit(frames.task_updated("a1", None, is_backgrounded=True), *LEFT),
        steps.emit({"type": "tool_progress", "session_id": SESSION, "uuid": "u", **progress}),
        steps.emit(DENIED, frames.system("hook_started", **settings_hook)),
        steps.emit(frames.hook_callback("r1", "hook_0", hook, tool_use_id="t1")),
        steps.emit(frames.can_use_tool("r2", agent_id="a1", tool_use_id="t3")),
        steps.emit(frames.mcp_message("r3", "tools", "tools/call", name="count", arguments={}, _meta=meta)),
        steps.wait_for_prompt(),
        steps.wait_gate(gate),
        *(steps.wait_for_reply(request) for request in ("r1", "r2", "r3")),
        steps.emit(frames.system("hook_response", outcome="success", **settings_hook)),
        steps.emit(*done, frames.result("One.", **named)),
        steps.emit(frames.init(**frames.PROMPT_FIELDS), ANSWER, frames.result("Two.")),
        steps.exit(0),
    )


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_a_journal_that_begins_late_tells_the_same_as_one_from_the_start() -> None:
    async def tell_late(is_followed: bool) -> list[Fact]:
        gate, arrived, leave = Gate(), Counter[str](), anyio.Event()

        async def wait(what: str) -> None:
            arrived[what] += 1
            await leave.wait()

        async def permit(request: PermissionRequest, context: PermissionContext) -> Allow:
            await wait("permission")
            return Allow()

        async def check(input: HookInput, context: HookContext) -> None:
            await wait("hook")

        async def count(context: ToolContext) -> str:
            """Count."""
            await wait("tool")
            context.report_progress(1, 2)
            return "2"

        options = {"can_use_tool": permit, "hooks": {"PreToolUse": [HookMatcher(None, check)]}, "custom_tools": [count]}
        async with start_in_memory(waiting_session(gate), permission_mode="default", **options) as client:
            first = client.journal() if is_followed else None
            run = client.query("one", uuid=FIRST)
            while len(arrived) < 3:
                await anyio.lowlevel.checkpoint()
            second = client.query("two", uuid=SECOND)
            late = client.journal()
            leave.set()
            gate.open()
            await run
            await second
            told = [fact async for fact in late]
        del first
        return told

    with anyio.fail_after(DEADLINE):
        followed, late = [await tell_late(is_followed) for is_followed in (True, False)]
    assert Counter(map(without_number, late)) == Counter(map(without_number, followed))
    assert all(fact.at is not None for fact in late)
    opened = {(fact.kind, fact.id, fact.agent) for fact in late if isinstance(fact, RequestOpened)}
    assert opened == {("hook", "h1", ""), ("hook", "r1", ""), ("permission", "r2", "a1")}
    assert {fact.id for fact in late if isinstance(fact, RequestSettled)} == {"h1", "r1", "r2"}
    assert [fact.id for fact in late if isinstance(fact, PromptSent)] == [SECOND]
    assert [fact.progress for fact in late if isinstance(fact, CallProgressed)] == [1]
    assert [fact.is_unlisted for fact in late if isinstance(fact, CallStarted)] == [False, True, False, False]
    ended = {fact.id: fact.status for fact in late if isinstance(fact, CallEnded)}
    assert ended == {"t1": "succeeded", "t2": "succeeded", "t4": "denied", "t5": "succeeded"}
    assert [fact.id for fact in late if isinstance(fact, CallRunning)] == ["t1"]
    assert [(fact.task_id, fact.is_backgrounded) for fact in late if isinstance(fact, TaskStarted)] == [("a1", True)]


def without_number(fact: Fact) -> str:
    """Return a fact as text, but for its number and its times."""
    return re.sub(r'"(number|\w*at)":[\d.]+,?', "", encode_fact(fact).decode())


def replay(name: str) -> Iterator[Any]:
    """Yield the steps of a recorded session, without its requests."""
    for record in recordings.records(name):
        match record.direction, record.value:
            case "in", {"type": "user"}:
                yield steps.wait_for_prompt()
            case "out", {"type": str(kind)} if not kind.startswith("control_"):
                yield steps.emit(record.value)


async def tell_from(name: str, moment: float, is_followed: bool) -> list[Fact]:
    """Return the facts for a reader that begins at a moment of a recorded session, perhaps not as the first one."""
    sent = [frame for _, frame, is_sent in frames_of(name) if is_sent and isinstance(frame, UserMessage)]
    prompts = [frame.uuid or f"00000000-0000-4000-8000-{number:012d}" for number, frame in enumerate(sent)]
    gate, said = Gate(), list(replay(name))
    place = int(moment * (len(said) + 1))
    said[place:place] = [steps.emit({"type": "now"}), steps.wait_gate(gate)]
    with anyio.fail_after(DEADLINE):
        async with start_in_memory(FakeCLI(*said, steps.exit(0))) as client:
            first = client.journal() if is_followed else None
            messages = client.messages()
            runs = [client.query("go", uuid=prompt, until="result") for prompt in prompts]
            while not (isinstance(message := await anext(messages), UnknownMessage) and message.raw["type"] == "now"):
                pass
            late = client.journal()
            gate.open()
            told = [fact async for fact in late]
            for run in runs:
                with suppress(RunFailed):
                    await run
    del first
    return told


def about(fact: Fact) -> str:
    """Return what a fact says to a reader that does not know what was before; empty for a correction of that."""
    if isinstance(fact, TaskRevised) or (isinstance(fact, MessageAdded) and not fact.content):
        return ""
    return without_number(fact)


@given(st.sampled_from(recordings.names()), st.floats(0, 1, exclude_max=True), st.sampled_from(["asyncio", "trio"]))
def test_a_journal_that_begins_at_any_moment_tells_the_same_as_one_from_the_start(
    name: str, moment: float, backend: str
) -> None:
    followed, late = (
        {about(fact) for fact in anyio.run(tell_from, name, moment, is_followed, backend=backend)} - {""}
        for is_followed in (True, False)
    )
    assert late == followed


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_a_session_that_everything_watches_is_folded_once(tmp_path: Path) -> None:
    note = frames.tool_use_block("TaskCreate", {"subject": "Test", "description": "Run the tests"}, id="t3")
    made = frames.tool_result("t3", "Task #1 created", tool_use_result={"task": {"id": "1", "subject": "Test"}})
    gate = Gate()
    fake = FakeCLI(
        steps.turn([*launched(), frames.assistant([note]), made, frames.assistant("They run.")]),
        steps.wait_gate(gate),
    )
    items: list[Any] = []
    client = Client(ClientOptions(telemetry=True), transport=fake.transport())
    with anyio.fail_after(DEADLINE), counting_folds() as folds:
        async with TaskHistory(tmp_path / "history.sqlite") as history, anyio.create_task_group() as group:
            async with client:
                history.attach(client.tasks, "live")
                _facts, spans = client.journal(retain=100), watch(client)
                group.start_soon(read_to_the_end, items, client.events(facts=True))
                run = client.query("go")
                assert [call.name async for call in run.tool_calls()] == ["Bash", "TaskCreate"]
                result = await run
                assert [call.name for call in result.tool_calls] == ["Bash", "TaskCreate"]
                assert not result.refused_agents
                assert not result.permission_denials
                assert len(result.to_api_messages()) == 6
                assert [item.subject for item in client.task_list] == ["Test"]
                check_editor(Story.of(facts_among(items)), items)
                assert spans.spans
                assert items
                assert result.usage_by_agent
                assert folds == {"Journal": 1, "Ledger": 1}
                assert {span.name for span in result.timeline().spans if span.kind == "tool"} == {"Bash", "TaskCreate"}
                assert folds == {"Journal": 2, "Ledger": 2}, OF_MESSAGES
                gate.open()


@contextmanager
def counting_folds() -> Iterator[Counter[str]]:
    """Count the objects that fold a session, as they are made in this thread."""
    made: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_qualname
        if event == "call" and name in ("Journal.__init__", "Ledger.__init__"):
            made[name.removesuffix(".__init__")] += 1

    sys.setprofile(note)
    try:
        yield made
    finally:
        sys.setprofile(None)


@pytest.mark.anyio
@pytest.mark.real_cli
async def test_a_session_of_the_cli_is_one_story_live_and_on_disk() -> None:
    script: list[Any] = [
        Reply(
            [
                tool_use("Write", {"file_path": "/etc/none", "content": "x"}),
                tool_use("Bash", {"command": "echo built", "run_in_background": True, "description": "Build"}),
                tool_use("Agent", {**AGENT, "run_in_background": True}),
            ]
        )
    ]
    gate = Gate()
    agents = {"look closely": [Reply([tool_use("Bash", {"command": "echo seen; exit 3"})]), Reply("Seen.")]}
    async with ScriptedModel(lambda request: script.pop(0) if script else "Done.", agents=agents) as model:
        options = model.options(
            permission_mode="default",
            can_use_tool=lambda request, context: Deny("no") if request.tool_name == "Write" else Allow(),
        )
        client = Client(options)

        async def work() -> list[RunResult]:
            results = [await client.query("go", until="idle")]
            events = client.events()
            script.extend([Reply("One.", after=gate), "Two and three."])
            runs = [client.query("one")]
            await gate.wait_reached()
            runs += [client.query("two"), client.query("three")]
            await have_queued(events, 3)
            gate.open()
            results += [await run for run in runs]
            assert results[-1].message == results[-2].message  # the CLI has merged them
            return results[:-1]

        story = await tell(client, work)
        assert [call.status for call in story.calls.values()] == ["denied", "succeeded", "succeeded", "failed"]
        assert [task.status for task in story.tasks.values()] == ["completed", "completed"]
        session = get_session(str(client.session_id), config_dir=model.environment()["CLAUDE_CONFIG_DIR"])
        stored = Story.of(session.journal())
        assert stored.calls == story.calls
        assert prompts_of(stored) == prompts_of(story)
        assert len(prompts_of(story)[-1][1]) == 2
        assert {task: told.status for task, told in stored.tasks.items()} == {
            task: told.status for task, told in story.tasks.items()
        }
        assert {task.id: task.status for task in session.tasks} == {
            task: told.status for task, told in story.tasks.items()
        }
        check_editor(stored, session.events())
        timeline = Timeline.from_session(session)
        check_timeline(stored, timeline.spans)
        assert by_agent(timeline.summary) == by_agent(story.summary)
        assert spend(0, session.usage.cost_usd) == spend(0, story.summary.cost_usd)
        assert session.usage.total.total_tokens == sum(spent.tokens for spent in by_agent(story.summary).values())


def prompts_of(story: Story) -> list[tuple[str, tuple[str, ...]]]:
    """Return the turns that prompts began, with the prompts that each answers."""
    return [(fact.id, fact.prompts) for fact in story.facts if isinstance(fact, TurnStarted) and fact.prompts]


def by_agent(summary: Summary) -> dict[str, Spent]:
    return {agent: spend(used.tokens.total, used.cost_usd) for agent, used in summary.by_agent.items()}


AGENT: Final = {"description": "look", "prompt": "look closely", "subagent_type": "general-purpose"}
FOREGROUND: Final = {**AGENT, "run_in_background": False}
SLOW: Final = {"command": "for i in $(seq 600); do sleep 0.2; done", "description": "count"}


ECHO: Final = tool_use("Bash", {"command": "echo built", "description": "Build"})
SKILL: Final = """---
name: closely
description: Looks.
context: fork
---
look closely
"""


def stop_here(given: HookInput, context: HookContext) -> Any:
    return {"continue": False, "stopReason": "enough"}


@pytest.mark.anyio
@pytest.mark.real_cli
@pytest.mark.parametrize(
    ("calls", "options"),
    [
        pytest.param(ECHO, {"max_turns": 1}, id="the limit of its turns", marks=pytest.mark.long),
        pytest.param(ECHO, {"hooks": {"PostToolUse": [HookMatcher("Bash", stop_here)]}}, id="a hook"),
        pytest.param(
            tool_use("StructuredOutput", {"x": 1}),
            {"output_format": {"type": "json_schema", "schema": {"type": "object", "required": ["x"]}}},
            id="its structured output",
            marks=pytest.mark.long,
        ),
        pytest.param(
            tool_use("Monitor", {"command": "echo one; sleep 1; exit 4", "description": "watch", "timeout_ms": 60_000}),
            {},
            id="with a monitor",
        ),
        pytest.param(tool_use("Agent", FOREGROUND), {}, id="with a shell of a subagent"),
        pytest.param(
            tool_use("Skill", {"skill": "closely"}),
            {},
            id="with a skill in a subagent of its own",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_the_end_of_a_turn_and_its_tasks_is_the_same_live_and_on_disk(
    calls: Any, options: dict[str, Any]
) -> None:
    shell = tool_use("Bash", {"command": "sleep 600", "run_in_background": True, "description": "wait"})
    async with ScriptedModel([Reply([calls])], agents={"look closely": [Reply([shell]), Reply("Seen.")]}) as model:
        config = Path(model.environment()["CLAUDE_CONFIG_DIR"])
        (config / "skills" / "closely").mkdir(parents=True)
        (config / "skills" / "closely" / "SKILL.md").write_text(SKILL)
        with anyio.fail_after(DEADLINE):
            async with Client(model.options(**options)) as client:
                facts = client.journal()
                with suppress(RunFailed):
                    await client.query("go", until="idle")
            live = Story.of([fact async for fact in facts])
        session = get_session(str(client.session_id), config_dir=config)
        stored = Story.of(session.journal())
        assert (stored.turns, stored.calls) == (live.turns, live.calls)
        stored_end, live_end = (
            next(fact for fact in each.facts if isinstance(fact, TurnEnded)) for each in (stored, live)
        )
        assert stored_end.error == live_end.error
        assert not [fact for fact in stored.facts if isinstance(fact, TaskReopened)]
        assert {task.id: task.status for task in session.tasks} == {task.id: task.status for task in client.tasks}


async def wait_on_disk(config: Path, *texts: str) -> None:
    """Wait until the CLI has written texts, which it does a moment after it has sent them."""
    while not all(any(text in path.read_text() for path in (config / "projects").rglob("*.jsonl")) for text in texts):
        await anyio.sleep(0.02)


@pytest.mark.anyio
@pytest.mark.real_cli
@pytest.mark.each_backend
@pytest.mark.parametrize(
    ("caller", "how"),
    [
        ("subagent", "resumed with a prompt"),
        *(
            pytest.param(caller, how, marks=pytest.mark.long)
            for caller, how in (
                ("main agent", "reopened"),
                ("main agent", "resumed"),
                ("main agent", "resumed with a prompt"),
                ("subagent", "reopened"),
                ("subagent", "resumed"),
            )
        ),
    ],
)
async def test_a_session_whose_process_was_killed_is_one_story(caller: str, how: str) -> None:
    call = tool_use("Bash", SLOW) if caller == "main agent" else tool_use("Agent", FOREGROUND)
    shell = tool_use("Bash", {"command": "sleep 600", "run_in_background": True, "description": "wait"})
    done = tool_use("Bash", {"command": "echo done"})
    agents = {"look closely": [Reply([tool_use("Bash", SLOW)])]}
    gate = Gate()
    script = [Reply([shell, done, call]), Reply("At last.", after=gate)]
    async with ScriptedModel(script, agents=agents) as model, AsyncExitStack() as stack:
        config = Path(model.environment()["CLAUDE_CONFIG_DIR"])
        client = Client(model.options(allowed_tools=["Bash"]))
        stack.push_async_callback(client.close)

        async def work() -> list[RunResult]:
            facts = client.journal()
            run = client.query("go")
            with suppress(CLIExitError):
                for _ in range(2):
                    while not isinstance(await anext(facts), CallEnded):
                        pass
                await wait_on_disk(config, "seq 600", '"content":"done"')
                client.kill()
            with pytest.raises(CLIExitError) as died:
                await run
            assert died.value.result is not None
            runs.append(run)
            return [died.value.result]

        runs: list[Run] = []
        before = await tell(client, work, client.connect)
        assert {call.status for call in before.calls.values()} == {"succeeded", "cancelled"}
        session = get_session(str(client.session_id), config_dir=config)
        stored = Story.of(session.journal())
        assert (stored.calls, stored.turns) == (before.calls, before.turns)
        assert stored.identities() == before.identities()
        check_editor(stored, session.events())
        check_timeline(stored, Timeline.from_session(session).spans)

        if how != "reopened":
            client = Client(client.options.replace(resume=session.id, resume_interrupted_turn=how == "resumed"))
            stack.push_async_callback(client.close)

        async def go_on() -> list[RunResult]:
            gate.open()
            run = runs[0] if how == "reopened" else client.resumed_run or client.query("and now")
            result = await run
            await client.close()
            return [result]

        after = await tell(client, go_on, client.reopen if how == "reopened" else client.connect)
        session = get_session(session.id, config_dir=config)
        stored = Story.of(session.journal())
        hidden = before.calls.keys() - stored.calls.keys()
        assert not hidden or (caller, how) != ("main agent", "resumed with a prompt"), HIDDEN
        assert stored.calls == {call: told for call, told in (before.calls | after.calls).items() if call not in hidden}
        assert stored.turns == before.turns | after.turns
        assert stored.identities(but=hidden) == before.identities(but=hidden) + after.identities()
        check_editor(stored, session.events())


@pytest.mark.anyio
@pytest.mark.real_cli
@pytest.mark.each_backend
@pytest.mark.parametrize(
    ("how", "is_answered"),
    [
        ("reopened", True),
        *(
            pytest.param(how, is_answered, marks=pytest.mark.long)
            for how, is_answered in (("reopened", False), ("resumed", False), ("resumed", True))
        ),
    ],
)
async def test_a_session_whose_process_was_killed_in_a_turn_that_a_task_caused_is_one_story(
    how: str, is_answered: bool, tmp_path: Path
) -> None:
    built = tmp_path / "built"
    build = f"until [ -e {built} ]; do sleep 0.1; done"
    shell = tool_use("Bash", {"command": build, "run_in_background": True, "description": "Build"})
    lost = tool_use("Bash", {"command": "sleep 600", "run_in_background": True, "description": "wait"})
    never, later = Gate(), Gate()
    cut_off = Reply([tool_use("Bash", SLOW)]) if is_answered else Reply("Never.", after=never)
    script = [Reply([shell, lost]), Reply("Built?"), cut_off, Reply("Built.", after=later)]
    async with ScriptedModel(script) as model, AsyncExitStack() as stack:
        config = Path(model.environment()["CLAUDE_CONFIG_DIR"])
        client = Client(model.options(allowed_tools=["Bash"]))
        stack.push_async_callback(client.close)

        async def work() -> list[RunResult]:
            facts = client.journal()
            await client.query("go", until="result")
            built.touch()
            await wait_on_disk(config, '"origin":{"kind":"task-notification"', *(["seq 600"] if is_answered else []))
            while len(model.requests) < 3:
                await anyio.sleep(0.02)
            client.kill()
            await read_to_the_end([], facts)
            return []

        before = await tell(client, work, client.connect)
        if how == "resumed":
            client = Client(client.options.replace(resume=str(client.session_id), resume_interrupted_turn=True))
            stack.push_async_callback(client.close)

        async def go_on() -> list[RunResult]:
            later.open()
            assert client.resumed_run is not None
            result = await client.resumed_run
            await client.close()
            return [result]

        after = await tell(client, go_on, client.reopen if how == "reopened" else client.connect)
        stored = Story.of(get_session(str(client.session_id), config_dir=config).journal())
        assert stored.turns == before.turns | after.turns
        assert stored.identities() == before.identities() + after.identities()
        [run] = {turn.partition("/")[0] for turn in stored.turns}
        assert list(stored.turns) == [f"{run}/{number}" for number in range(1, 4 if is_answered else 3)]


FINAL: Final = frames.assistant("b")
INTERRUPTION: Final = frames.user([frames.text_block("[Request interrupted by user]")])
LAST_WORDS: Final[dict[str, tuple[list[JSONObject], str]]] = {
    "interrupted": ([INTERRUPTION, frames.result("")], "cancelled"),
    "interrupted, and then idle": ([INTERRUPTION, frames.session_state("idle")], "cancelled"),
    "interrupted, and then gone": ([INTERRUPTION], "cancelled"),
    "answered, and then gone": ([{**FINAL, "message": {**FINAL["message"], "stop_reason": "end_turn"}}], "ok"),
    "refused, and then gone": ([frames.assistant("b", error="server_error", is_api_error_message=True)], "error"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("said", LAST_WORDS)
async def test_what_follows_the_first_message_of_a_turn_tells_live_how_it_ended(said: str) -> None:
    last, status = LAST_WORDS[said]
    call = frames.assistant([frames.tool_use_block("Bash", id="t1")])
    script = FakeCLI(
        steps.wait_for_prompt(), steps.emit(frames.init(**frames.PROMPT_FIELDS), call, *last), steps.exit(0)
    )
    async with start_in_memory(script) as client:
        journal = client.journal()
        run = client.query("go")
        told = [fact async for fact in journal if isinstance(fact, TurnEnded)]
        with suppress(RunFailed):
            await run
    assert [fact.status for fact in told] == [status]

"""The life of a child: whatever happens to its process, its task ends, with a reason, and nothing is left."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from child_clis import MakeAgent, call, child_cli, withdrawn
from leftovers import until_gone
from peers import read_into

from claude_agent_py import (
    AgentDefinition,
    AssistantMessage,
    Client,
    ClientOptions,
    CLIExitError,
    ConnectionClosedError,
    ControlRejectedError,
    Limits,
    OptionsError,
    TaskStatus,
    Timeouts,
)
from claude_agent_py.children import ChildAgent, child_tool
from claude_agent_py.messages import PermissionDeniedMessage, TaskStartedMessage, UserMessage
from claude_agent_py.tasks import (
    EndedBy,
    Evidence,
    TaskEvent,
    TaskFinished,
    TaskHistory,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

WRONG = AgentDefinition(description="Works", prompt="You work.", mcp_servers=[{"calc": {"command": "calc"}}])
"""Its servers cannot be added to those of a file."""


def parent(fake: FakeCLI | None = None, **options: Any) -> Client:
    return Client(ClientOptions(**options), transport=(fake or FakeCLI()).transport())


async def test_a_child_works_and_ends(agent_of: MakeAgent) -> None:
    fake = child_cli(steps.turn("all is done", total_cost_usd=0.25))
    with anyio.fail_after(60):
        async with parent() as client:
            task = await client.spawn(agent_of(fake), "Do it.\nAll of it.")
            assert (task.description, task.prompt, task.type) == ("Do it.", "Do it.\nAll of it.", "child_agent")
            assert (task.parent, task.depth, task.is_agent, task.is_backgrounded) == (None, 1, True, True)
            outcome = await task
            assert (outcome.status, outcome.summary, outcome.is_report) == (
                TaskStatus.COMPLETED,
                "all is done",
                True,
            )
            assert await task.read_output() == "all is done"
            assert [message.text for message in task.seen_messages if isinstance(message, AssistantMessage)] == [
                "all is done"
            ]
            assert {message.agent_id for message in task.seen_messages} == {task.id}
            await until_gone(fake.starts[0].pid)
    assert outcome.usage is not None
    assert outcome.usage.cost_usd == 0.25
    assert outcome.usage.total_tokens > 0


async def test_a_child_that_ends_before_its_cli_tells_the_cost_is_not_told_to_be_free(agent_of: MakeAgent) -> None:
    fake = child_cli(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("one moment")), steps.exit(139))
    with anyio.fail_after(60):
        async with parent() as client:
            outcome = await (await client.spawn(agent_of(fake), "Do it."))
    assert outcome.usage is not None
    assert outcome.usage.total_tokens > 0
    assert outcome.usage.cost_usd is None


async def test_a_crash_is_an_error_with_the_evidence(agent_of: MakeAgent) -> None:
    fake = child_cli(
        steps.wait_for_prompt(),
        frames.of_prompt(frames.assistant("one moment")),
        frames.task_started("a1", "below"),
        steps.stderr("Segmentation fault\n"),
        steps.exit(139),
    )
    with anyio.fail_after(60):
        async with parent() as client:
            task = await client.spawn(agent_of(fake), "Do it.")
            outcome = await task
            below = client.tasks["a1"]
            end = await below
            assert (end.status, end.ended_by, end.evidence) == (
                TaskStatus.FAILED,
                EndedBy.PROCESS,
                Evidence.PROCESS_EXIT,
            )
            assert below.parent is task
            assert client.is_open
            assert await task.read_output() == "one moment"
    assert outcome.status is TaskStatus.FAILED
    assert outcome.failure_reason is not None
    assert outcome.ended_by is EndedBy.PROCESS
    assert "139" in outcome.failure_reason
    assert "Segmentation fault" in outcome.failure_reason


def in_memory(fake: FakeCLI) -> dict[str, Any]:
    """Return options for a child that starts at once: the start of a program counts towards a time limit."""
    return {"spawn": lambda plan: fake.transport()}


@pytest.mark.parametrize(
    ("fake", "limits", "said"),
    [
        (child_cli(steps.stderr("no licence\n"), steps.exit(3)), Timeouts(), ["exit code 3", "no licence"]),
        (child_cli(b"Usage: claude\n", steps.hang()), Timeouts(connect=1.5), ["Usage: claude"]),
        (child_cli(answers={"initialize": None}), Timeouts(connect=1.5), ["did not answer 'initialize' within 1.5 s"]),
        (child_cli(name="another"), Timeouts(), ["the CLI did not accept worker"]),
    ],
)
async def test_a_child_that_cannot_start_is_an_error(
    agent_of: MakeAgent, fake: FakeCLI, limits: Timeouts, said: list[str]
) -> None:
    agent = agent_of(fake, options={"timeouts": limits})
    with anyio.fail_after(60):
        async with parent() as client:
            outcome = await (await client.spawn(agent, "Do it."))
            await until_gone(*(start.pid for start in fake.starts))
    assert outcome.status is TaskStatus.FAILED
    assert [word for word in said if word not in (outcome.failure_reason or "")] == [], outcome.failure_reason


async def test_a_program_that_is_not_there_is_an_error() -> None:
    agent = ChildAgent(
        AgentDefinition(description="Works", prompt="Work."), options=ClientOptions(cli_path="/nowhere/claude")
    )
    with anyio.fail_after(60):
        async with parent() as client:
            outcome = await (await client.spawn(agent, "Do it."))
    assert outcome.status is TaskStatus.FAILED
    assert "/nowhere/claude" in (outcome.failure_reason or "")


async def test_a_child_that_takes_too_long_is_an_error_and_keeps_its_words(agent_of: MakeAgent) -> None:
    fake = child_cli(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("half of it")), steps.hang())
    with anyio.fail_after(60):
        async with parent() as client:
            task = await client.spawn(agent_of(fake, timeout=2.5, options=in_memory(fake)), "Do it.")
            outcome = await task
            assert await task.read_output() == "half of it"
    assert outcome.status is TaskStatus.FAILED
    assert "2.5" in (outcome.failure_reason or "")


async def test_an_error_result_is_an_error(agent_of: MakeAgent) -> None:
    fake = child_cli(steps.turn([frames.of_prompt(frame) for frame in frames.api_error("overloaded", status=529)],
                                is_error=True, text="overloaded"))  # fmt: skip
    with anyio.fail_after(60):
        async with parent() as client:
            outcome = await (await client.spawn(agent_of(fake), "Do it."))
    assert outcome.status is TaskStatus.FAILED
    assert "overloaded" in (outcome.failure_reason or "")


@pytest.mark.parametrize("manners", [{}, {"ignore_eof": True, "ignore_sigterm": True}])
async def test_a_child_is_stopped(agent_of: MakeAgent, manners: dict[str, Any]) -> None:
    fake = child_cli(
        steps.wait_for_prompt(), frames.task_started("b1", task_type="local_bash"), steps.hang(), **manners
    )
    with anyio.fail_after(60):
        async with parent() as client:
            task = await client.spawn(agent_of(fake), "Do it.")
            await client.tasks.until(lambda: "b1" in client.tasks)
            outcome = await task.stop()
            assert not client.tasks.running
            await until_gone(fake.starts[0].pid)
    assert (outcome.status, outcome.failure_reason) == (TaskStatus.STOPPED, "it was cancelled")


@pytest.mark.parametrize("how", ["stop", "timeout", "interrupt", "error", "close"])
async def test_stopping_a_child_stops_its_tasks(
    agent_of: MakeAgent, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun = [steps.wait_for_prompt(), frames.task_started("a1"), frames.task_started("b1", task_type="local_bash")]
    failure = [frames.of_prompt(frame) for frame in [*frames.api_error("overloaded", status=529)]]
    failed = [*failure, frames.of_prompt(frames.result("overloaded", is_error=True))]
    fake = child_cli(*begun, *(failed if how == "error" else []), steps.hang())
    options = {"timeouts": Timeouts(idle=0.2), "late_tasks": "leave"}
    limited = {"timeout": 2.5, "options": options | in_memory(fake)}
    agent = agent_of(fake, **(limited if how == "timeout" else {"options": options}))
    history, gate = TaskHistory(":memory:"), Gate()
    caller = FakeCLI(call("r1"), steps.wait_gate(gate), withdrawn("r1") if how == "interrupt" else [])
    with anyio.fail_after(60):
        async with parent(caller, custom_tools=[child_tool(agent)]) as client, history:
            history.attach(client.tasks, "s1")
            await client.tasks.until(lambda: "b1" in client.tasks)
            below = [client.tasks["a1"], client.tasks["b1"]]
            [task] = {each.parent for each in below}
            assert task is not None
            gate.open()
            if how == "stop":
                await task.stop()
            elif how == "close":
                await anyio.to_thread.run_sync(client.abort)
            ends = [await each for each in below]
            await task
            await client.close()
            records = [(await history.records("s1", each.id))[-1] for each in below]
    expected = (TaskStatus.STOPPED, EndedBy.PARENT, Evidence.PROCESS_EXIT, None)
    assert {(end.status, end.ended_by, end.evidence, end.failure_reason) for end in ends} == {expected}
    assert [record.outcome for record in records if isinstance(record, TaskFinished)] == ends
    assert [record.getMessage() for record in caplog.records if "closing stops" in record.getMessage()] == []


async def test_stopping_all_stops_children_and_their_tasks(agent_of: MakeAgent) -> None:
    fake = child_cli(
        steps.wait_for_prompt(),
        frames.task_started("a1"),
        frames.task_started("b1", task_type="local_bash"),
        steps.hang(),
    )
    with anyio.fail_after(60):
        async with parent() as client:
            task = await client.spawn(agent_of(fake), "Do it.")
            await client.tasks.until(lambda: "b1" in client.tasks)
            await client.tasks.stop_all()
            assert not client.tasks.running
    assert task.status is TaskStatus.STOPPED


async def test_a_task_of_a_child_is_stopped_through_the_child(agent_of: MakeAgent) -> None:
    fake = child_cli(
        steps.wait_for_prompt(),
        frames.task_started("a1", "below"),
        steps.wait_for_request("stop_task"),
        frames.task_updated("a1", "killed"),
        frames.task_notification("a1", "stopped", "below"),
        steps.answer(),
        steps.turn("done", prompt="")[-2:],
    )
    with anyio.fail_after(60):
        async with parent() as client:
            await client.spawn(agent_of(fake), "Do it.")
            await client.tasks.until(lambda: "a1" in client.tasks)
            outcome = await client.tasks["a1"].stop()
    assert outcome.status is TaskStatus.STOPPED
    assert fake.requests("stop_task") == [{"subtype": "stop_task", "task_id": "a1"}]


async def test_closing_the_client_ends_its_children(agent_of: MakeAgent) -> None:
    fake = child_cli(steps.wait_for_prompt(), steps.hang())
    with anyio.fail_after(60):
        async with parent() as client:
            task = await client.spawn(agent_of(fake), "Do it.")
            events = client.tasks.events()
            await fake.wait_received({"type": "user"})
        assert task.status is TaskStatus.STOPPED
        await until_gone(fake.starts[0].pid)
        async for _ in events:
            pass  # they end


@pytest.mark.parametrize("how", ["wait", "abort"])
async def test_the_end_of_a_child_is_told_before_its_session_is_over(how: str, agent_of: MakeAgent) -> None:
    fake = child_cli(steps.wait_for_prompt(), steps.hang())
    with anyio.fail_after(60):
        client = parent(timeouts=Timeouts(close=1.0))
        async with client:
            facts = client.journal()
            task = await client.spawn(agent_of(fake), "Do it.")
            await fake.wait_received({"type": "user"})
            if how == "abort":
                client.abort()
            await client.close(tasks="wait")
        assert (task.status, task.outcome and task.outcome.ended_by) == (TaskStatus.STOPPED, EndedBy.PROGRAM)
        assert [fact.task_id async for fact in facts if isinstance(fact, TaskFinished)] == [task.id]


async def test_a_session_that_is_dropped_ends_its_children(agent_of: MakeAgent) -> None:
    fake = child_cli(steps.wait_for_prompt(), steps.hang())
    with anyio.fail_after(60):
        async with parent() as client:
            task = await client.spawn(agent_of(fake), "Do it.")
            await fake.wait_received({"type": "user"})
            await anyio.to_thread.run_sync(client.abort)  # as a finalizer may do
            assert (await task).status is TaskStatus.STOPPED
        await until_gone(fake.starts[0].pid)


async def test_events_of_a_child_follow_its_messages(agent_of: MakeAgent) -> None:
    fake = child_cli(steps.turn("all is done"))
    with anyio.fail_after(60):
        async with parent() as client:
            events = client.events()
            await client.spawn(agent_of(fake), "Do it.")
            first = await anext(events)
            assert isinstance(first, TaskStartedMessage)
            assert isinstance(await anext(events), TaskStarted)


async def test_a_child_outlives_the_process_of_its_parent(agent_of: MakeAgent) -> None:
    crash, go_on = Gate(), Gate()
    fake = child_cli(steps.wait_for_prompt("Do it."), steps.wait_gate(go_on), frames.of_prompt(frames.assistant("hi")),
                     frames.of_prompt(frames.result("all is done")))  # fmt: skip
    with anyio.fail_after(60):
        async with parent(FakeCLI(steps.wait_gate(crash), steps.exit(1))) as client:
            task = await client.spawn(agent_of(fake), "Do it.")
            await fake.wait_received({"type": "user"})
            events = client.tasks.events()
            crash.open()
            await until_closed(client)
            assert task.status is TaskStatus.RUNNING
            go_on.open()
            assert (await task).summary == "all is done"
            async for _ in events:
                pass  # the session is over, and its last child with it
            with pytest.raises(CLIExitError):
                await client.spawn(agent_of(child_cli()), "one more")


async def until_closed(client: Client) -> None:
    while client.is_open:
        await checkpoint()


async def test_children_wait_for_a_process(agent_of: MakeAgent) -> None:
    gate = Gate()
    slow = child_cli(steps.wait_for_prompt(), steps.wait_gate(gate), frames.of_prompt(frames.result("slow")))
    quick = child_cli(steps.turn("quick"))
    history = TaskHistory(":memory:")
    with anyio.fail_after(60):
        async with parent(limits=Limits(child_processes=1)) as client, history:
            history.attach(client.tasks, "s1")
            first = await client.spawn(agent_of(slow), "one")
            await slow.wait_received({"type": "user"})
            second = await client.spawn(agent_of(quick), "two")
            assert (first.status, second.status) == (TaskStatus.RUNNING, TaskStatus.PENDING)
            assert quick.starts == []
            third = await client.spawn(agent_of(child_cli()), "three")
            assert (await third.stop()).status is TaskStatus.STOPPED
            gate.open()
            assert [(await task).summary for task in (first, second)] == ["slow", "quick"]
            await client.close()
            facts = await history.records("s1")
    starts = [fact for fact in facts if isinstance(fact, TaskStarted)]
    assert [(start.description, start.status) for start in starts] == [
        ("one", "pending"),
        ("two", "pending"),
        ("three", "pending"),
    ]
    changes = [fact for fact in facts if isinstance(fact, TaskStatusChanged)]
    assert [[change.new for change in changes if change.task_id == start.task_id] for start in starts] == [
        ["running", "completed"],
        ["running", "completed"],
        ["stopped"],
    ]


@pytest.mark.parametrize(
    ("priorities", "order"),
    [
        (["low", "normal", "high", "High"], ["high", "High", "normal", "low"]),
        ([1, 3, "high", 0, -2], [3, 1, "high", 0, -2]),
    ],
)
async def test_the_most_urgent_child_that_waits_is_the_next(
    agent_of: MakeAgent, priorities: list[Any], order: list[Any]
) -> None:
    gate = Gate()
    slow = child_cli(steps.wait_for_prompt(), steps.wait_gate(gate), frames.of_prompt(frames.result("slow")))
    quick = agent_of(child_cli(steps.turn("quick")))
    started: list[str] = []

    def note(event: TaskEvent) -> None:
        if isinstance(event, TaskStatusChanged) and event.new is TaskStatus.RUNNING:
            started.append(event.task_id)

    with anyio.fail_after(60):
        async with parent(limits=Limits(child_processes=1)) as client:
            await client.spawn(agent_of(slow), "slow")
            await slow.wait_received({"type": "user"})
            client.tasks.on(note)
            taken_back = await client.spawn(quick, "stopped", priority=9)
            for priority in priorities:
                await client.spawn(quick, "Do it.", priority=priority)
            await taken_back.stop()
            gate.open()
            await client.tasks.wait_all()
    assert [client.tasks[task_id].brief["priority"] for task_id in started] == order


async def test_only_children_that_start_are_counted(agent_of: MakeAgent) -> None:
    agent = agent_of(child_cli(steps.turn("ok")))
    wrong = agent_of(child_cli(), definition=WRONG, options={"mcp_servers": "servers.json"})
    with anyio.fail_after(60):
        async with parent(limits=Limits(child_total=1)) as client:
            with pytest.raises(OptionsError, match="mcp_servers"):
                await client.spawn(wrong, "Do it.")
            with pytest.raises(OptionsError, match="prompt"):
                await client.spawn(agent, " \n")
            assert (await (await client.spawn(agent, "Do it."))).summary == "ok"
            with pytest.raises(OptionsError, match=r"limits\.child_total"):
                await client.spawn(agent, "Do it.")
            assert len(client.tasks) == 1


async def test_no_child_without_a_session(agent_of: MakeAgent) -> None:
    client = parent()
    with pytest.raises(ConnectionClosedError):
        await client.spawn(agent_of(child_cli()), "Do it.")
    async with client:
        pass
    with pytest.raises(ConnectionClosedError):
        await client.spawn(agent_of(child_cli()), "Do it.")
    assert len(client.tasks) == 0


async def test_the_cost_of_a_child_includes_its_subagents(agent_of: MakeAgent) -> None:
    """Also that of a subagent whose end is in the result of its call, once the price is known."""
    launch = frames.tool_use_block("Agent", {"prompt": "Look", "subagent_type": "scout"}, id="t1")
    ended = {"status": "completed", "agentId": "a1", "content": [{"type": "text", "text": "Seen."}]}
    used = {"input_tokens": 1000, "output_tokens": 100}
    of_agent = frames.assistant("Seen.", agent_id="a1", parent_tool_use_id="t1")
    of_agent["message"] |= {"model": "m", "usage": used}
    spent = {"m": {"inputTokens": 2000, "outputTokens": 200, "costUSD": 0.25}}
    fake = child_cli(
        steps.turn(
            [
                frames.assistant([launch]),
                frames.task_started("a1", tool_use_id="t1", is_backgrounded=False, subagent_type="scout"),
                of_agent,
                frames.tool_result("t1", "Seen.", tool_use_result=ended),
                frames.assistant("Done."),
            ],
            total_cost_usd=0.25,
            modelUsage=spent,
        )
    )
    with anyio.fail_after(60):
        async with parent() as client:
            task = await client.spawn(agent_of(fake), "Do it.")
            await task
            [below] = task.children
    assert below.usage is not None
    assert (below.usage.total_tokens, below.usage.cost_usd) == (1100, None)
    assert task.total_usage.cost_usd == 0.25


async def test_an_unexpected_error_ends_the_child(agent_of: MakeAgent, caplog: pytest.LogCaptureFixture) -> None:
    def spawn(plan: Any) -> Any:
        raise RuntimeError("no machine is free")

    agent = agent_of(child_cli(), options={"spawn": spawn})
    with anyio.fail_after(60):
        async with parent() as client:
            outcome = await (await client.spawn(agent, "Do it."))
            assert client.is_open
    assert (outcome.status, outcome.failure_reason) == (TaskStatus.FAILED, "RuntimeError: no machine is free")
    assert "the child agent worker failed" in caplog.text


async def test_a_message_of_a_child_that_cannot_be_forwarded_ends_no_session(
    agent_of: MakeAgent, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_of(child_cli(steps.turn("all is done")))
    with anyio.fail_after(60):
        async with parent() as client:
            inject = client.connection.inject

            def refuse_answers(message: object) -> None:
                if isinstance(message, AssistantMessage):
                    raise RuntimeError("a fault")
                inject(message)

            monkeypatch.setattr(client.connection, "inject", refuse_answers)
            outcome = await (await client.spawn(agent, "Do it."))
            assert client.is_open
    assert (outcome.status, outcome.summary) == (TaskStatus.COMPLETED, "all is done")
    assert "a message of the child agent worker was not forwarded" in caplog.text


async def test_a_denied_call_of_a_child_is_attributed_to_it(agent_of: MakeAgent) -> None:
    denied = frames.system("permission_denied", tool_name="Bash", tool_use_id="t1", message="not here")
    agent = agent_of(fake := child_cli(steps.turn([denied, frames.assistant("Well.")])), options=in_memory(fake))
    seen: list[object] = []
    with anyio.fail_after(60):
        async with parent() as client:
            async with anyio.create_task_group() as readers:
                readers.start_soon(read_into, seen, client.messages())
                await anyio.wait_all_tasks_blocked()
                task = await client.spawn(agent, "Do it.")
                await task
                await client.close()
    [message] = [each for each in seen if isinstance(each, PermissionDeniedMessage)]
    assert (message.agent_id, message.tool_use_id) == (task.id, "t1")


async def test_the_prompt_of_a_child_is_in_its_conversation_once(agent_of: MakeAgent) -> None:
    """Each turn has an init message: the second one follows the end of a task."""
    turn = steps.turn([frames.init(), frames.assistant("First."), frames.init(), frames.assistant("Second.")])
    agent = agent_of(fake := child_cli(turn), options=in_memory(fake))
    with anyio.fail_after(60):
        async with parent() as client:
            task = await client.spawn(agent, "Do it.")
            await task
            said = [
                message.text for message in task.seen_messages if isinstance(message, AssistantMessage | UserMessage)
            ]
    assert said == ["Do it.", "First.", "Second."]


async def test_a_task_that_the_cli_of_a_child_cannot_stop_continues(agent_of: MakeAgent) -> None:
    gate = Gate()
    fake = child_cli(
        steps.wait_for_prompt(),
        frames.task_started("a1", "below"),
        steps.wait_gate(gate),
        frames.task_end("a1", summary="done all the same"),
        steps.turn("done", prompt="")[-2:],
        answers={"stop_task": {"error": "it is busy"}},
    )
    agent = agent_of(fake, options=in_memory(fake))
    with anyio.fail_after(60):
        async with parent() as client:
            task = await client.spawn(agent, "Do it.")
            await client.tasks.until(lambda: "a1" in client.tasks)
            with pytest.raises(ControlRejectedError, match="it is busy"):
                await client.tasks["a1"].stop()
            assert not client.tasks["a1"].done
            gate.open()
            assert (await client.tasks["a1"]).summary == "done all the same"
            await task


async def test_the_to_do_list_of_a_child_is_its_own(agent_of: MakeAgent) -> None:
    def note(subject: str) -> list[Any]:
        call = frames.tool_use_block("TaskCreate", {"subject": subject, "description": "d"}, id=f"t-{subject}")
        made = {"task": {"id": "1", "subject": subject}}
        noted = frames.tool_result(f"t-{subject}", "Task #1 created", tool_use_result=made)
        return steps.turn([frames.assistant([call]), noted, frames.result("Noted.")])

    with anyio.fail_after(60):
        async with parent(FakeCLI(note("mine"))) as client:
            await client.query("hi")
            task = await client.spawn(agent_of(child_cli(note("of the child"))), "Do it.")
            await task
            assert any(isinstance(message, AssistantMessage) and message.tool_uses for message in task.seen_messages)
            assert [item.subject for item in client.task_list] == ["mine"]

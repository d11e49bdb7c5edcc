"""Children that a model starts: what the tool gives, what cancels it, and who is asked."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from bounds import set_bound
from child_clis import WORKER, MakeAgent, call, child_cli, withdrawn
from leftovers import until_gone
from peers import install_in_turn, read_into

from claude_agent_py import AssistantMessage, Client, ClientOptions, Limits, TaskStatus
from claude_agent_py.agents import DelegationGuide
from claude_agent_py.children import ChildAgent, child_tool
from claude_agent_py.messages import TaskNotificationMessage
from claude_agent_py.tasks import EndedBy, Evidence
from claude_agent_py.testing import FakeCLI, Gate, frames, steps
from claude_agent_py.transport import Transport

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


def parent(fake: FakeCLI, *agents: ChildAgent, **options: Any) -> Client:
    tools = [child_tool(agent) for agent in agents]
    return Client(ClientOptions(custom_tools=tools, **options), transport=fake.transport())


async def answer_to(fake: FakeCLI, request_id: str) -> dict[str, Any]:
    """What a call was answered with."""
    match = {"type": "control_response", "response": {"request_id": request_id}}
    (reply,) = await fake.wait_received(match)
    (block,) = reply["response"]["response"]["mcp_response"]["result"]["content"]
    report: dict[str, Any] = json.loads(block["text"])
    return report


async def started(client: Client, count: int = 1) -> list[Any]:
    await client.tasks.until(lambda: len(client.tasks) >= count)
    return list(client.tasks)


async def test_the_report_of_a_child(agent_of: MakeAgent) -> None:
    fake = FakeCLI(call("r1"))
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child_cli(steps.turn("It is done.")))) as client:
            report = await answer_to(fake, "r1")
            (task,) = client.tasks
    assert report == {
        "taskId": task.id,
        "agentId": "worker",
        "subTaskStatus": "Success",
        "summary": None,  # it would only repeat the message
        "failureReason": None,
        "finalAssistantMessage": "It is done.",
    }
    assert (task.tool_use_id, task.is_backgrounded, task.status) == ("toolu_r1", False, TaskStatus.COMPLETED)
    assert {message.parent_tool_use_id for message in task.seen_messages if isinstance(message, AssistantMessage)} == {
        "toolu_r1"
    }


async def test_the_cost_of_a_child_is_not_part_of_that_of_the_run(agent_of: MakeAgent) -> None:
    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.of_prompt(frames.init()),
        frames.assistant([frames.tool_use_block("mcp__tools__create_subtask_worker", id="toolu_r1")]),
        call("r1"),
        steps.wait_for_reply("r1"),
        frames.of_prompt(frames.result("Done.")),
    )
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child_cli(steps.turn("It is done.", total_cost_usd=0.25)))) as client:
            result = await client.query("go")
    used = result.usage_by_agent
    assert used["worker"].cost_usd == 0.25
    assert (used[""].cost_usd, used[""].cost_is_derived) == (result.cost_usd, False)


@pytest.mark.parametrize("limit", [200, 600])
async def test_a_long_report_is_cut_for_the_model_and_whole_in_the_task(agent_of: MakeAgent, limit: int) -> None:
    said = "One sentence. " * 1000
    fake = FakeCLI(call("r1"))
    agents = [agent_of(child_cli(steps.turn(said)))]
    with anyio.fail_after(60):
        async with parent(
            fake, *agents, agents={"general-purpose": WORKER}, delegation_guide=DelegationGuide(max_report_chars=limit)
        ) as client:
            report = await answer_to(fake, "r1")
            (task,) = client.tasks
            assert await task.read_output() == said
    assert len(report["finalAssistantMessage"]) + len(report["summary"] or "") <= limit
    assert report["finalAssistantMessage"].endswith("[The report has 14,000 characters; this is its beginning.]")


@pytest.mark.parametrize(
    ("sentences", "reply", "summary"),
    [
        (100, {"response": "All is well."}, None),  # the report is not cut
        (1000, {"response": "All is well."}, "All is well."),
        (1000, {"response": "Aword. " * 500}, ("Aword. " * 500)[:500]),
        (1000, {"response": "no login", "synthetic": True}, None),
        (1000, {"response": None}, None),
    ],
)
async def test_only_a_report_that_is_cut_has_a_summary_by_its_child(
    agent_of: MakeAgent, sentences: int, reply: dict[str, Any], summary: str | None
) -> None:
    said = ("One sentence. " * sentences).strip()
    child = child_cli(steps.turn(said), answers={"side_question": {"response": {"synthetic": False} | reply}})
    fake = FakeCLI(call("r1"))
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child)):
            report = await answer_to(fake, "r1")
    assert (report["finalAssistantMessage"] == said) is (sentences == 100)
    assert report["summary"] == summary
    assert len(report["finalAssistantMessage"]) + len(report["summary"] or "") <= 4000
    assert len(child.requests("side_question")) == (sentences == 1000)


async def test_a_failed_child_reports_its_last_text(agent_of: MakeAgent) -> None:
    fake = FakeCLI(call("r1"))
    crash = child_cli(
        steps.wait_for_prompt(), frames.of_prompt(frames.assistant("half of it")), steps.stderr("bang\n"), steps.exit(1)
    )
    with anyio.fail_after(60):
        async with parent(fake, agent_of(crash)):
            report = await answer_to(fake, "r1")
    assert (report["subTaskStatus"], report["finalAssistantMessage"]) == ("Error", "half of it")
    assert "bang" in report["failureReason"]
    assert report["summary"] is None


async def test_stopping_a_child_gives_its_caller_a_report(agent_of: MakeAgent) -> None:
    fake = FakeCLI(call("r1"))
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child_cli(steps.wait_for_prompt(), steps.hang()))) as client:
            (task,) = await started(client)
            await task.stop()
            report = await answer_to(fake, "r1")
    assert (report["subTaskStatus"], report["failureReason"]) == ("Cancel", "it was cancelled")


async def test_taking_the_call_back_cancels_the_child(agent_of: MakeAgent) -> None:
    gate, child = Gate(), child_cli(steps.wait_for_prompt(), steps.hang())
    fake = FakeCLI(call("r1"), steps.wait_gate(gate), withdrawn("r1"))
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child)) as client:
            (task,) = await started(client)
            await child.wait_received({"type": "user"})
            gate.open()
            assert (await task).status is TaskStatus.STOPPED
            await until_gone(child.starts[0].pid)


async def test_a_child_may_be_left_to_itself(agent_of: MakeAgent) -> None:
    gate, go_on = Gate(), Gate()
    child = child_cli(steps.wait_for_prompt(), steps.wait_gate(go_on), frames.of_prompt(frames.result("all the same")))
    fake = FakeCLI(call("r1"), steps.wait_gate(gate), withdrawn("r1"))
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child, on_parent_cancel="leave")) as client:
            (task,) = await started(client)
            await child.wait_received({"type": "user"})
            gate.open()
            await client.tasks.until(lambda: task.is_backgrounded, task.id)
            assert task.status is TaskStatus.RUNNING
            go_on.open()
            assert (await task).summary == "all the same"


CHILD_CALL = {"type": "tool_use", "id": "toolu_r1", "name": "mcp__tools__create_subtask_worker", "input": {}}


@pytest.mark.parametrize(
    ("reason", "begun", "policy"),
    [
        ("AbortError: remote-cancel", [frames.assistant([CHILD_CALL])], "leave"),
        ("SdkError: Request timed out", [], "cancel"),
        ("AbortError: The operation was aborted.", [frames.assistant([CHILD_CALL])], "cancel"),  # no progress
    ],
)
async def test_the_report_of_a_child_that_outlives_its_call_reaches_the_model_once(
    agent_of: MakeAgent, reason: str, begun: list[Any], policy: str
) -> None:
    gate, go_on = Gate(), Gate()
    child = child_cli(steps.wait_for_prompt(), steps.wait_gate(go_on), frames.of_prompt(frames.result("all the same")))
    fake = FakeCLI(*begun, call("r1"), steps.wait_gate(gate), withdrawn("r1", reason), steps.turn("noted"))
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child, on_parent_cancel=policy)) as client:
            (task,) = await started(client)
            await child.wait_received({"type": "user"})
            gate.open()
            await client.tasks.until(lambda: task.is_backgrounded, task.id)
            go_on.open()
            await task
            (note,) = await fake.wait_received({"type": "user"})
            await client.close()
    assert note["shouldQuery"] is False
    assert note["client_composed"] is True
    assert "'Do it.'" in note["message"]["content"]
    assert json.loads(note["message"]["content"].split("\n\n")[1])["finalAssistantMessage"] == "all the same"


@pytest.mark.parametrize("begun", [[], [frames.task_started("a1"), frames.assistant([CHILD_CALL], agent_id="a1")]])
async def test_a_call_that_ends_with_its_subagent_cancels_the_child(agent_of: MakeAgent, begun: list[Any]) -> None:
    gate, child = Gate(), child_cli(steps.wait_for_prompt(), steps.hang())
    off = withdrawn("r1", "AbortError: The operation was aborted.")
    fake = FakeCLI(*begun, call("r1"), steps.wait_gate(gate), off)
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child)) as client:
            task = (await started(client, 2 if begun else 1))[-1]
            await child.wait_received({"type": "user"})
            gate.open()
            assert (await task).status is TaskStatus.STOPPED
            assert fake.received_like({"type": "user"}) == []


async def test_a_waiting_call_reports_progress_within_the_limit_of_the_cli(
    agent_of: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT", "10")  # which the CLI raises to a second
    go_on = Gate()
    child = child_cli(steps.wait_for_prompt(), steps.wait_gate(go_on), frames.of_prompt(frames.result("done")))
    fake = FakeCLI(call("r1", progressToken=7))
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child)):
            progress = {"request": {"message": {"method": "notifications/progress"}}}
            begun = anyio.current_time()
            reports = await fake.wait_received(progress, count=4)
            assert 0.9 < anyio.current_time() - begun < 30
            go_on.open()
            await answer_to(fake, "r1")
    params = [report["request"]["message"]["params"] for report in reports]
    assert [(each["progressToken"], each["progress"]) for each in params[:4]] == [(7, 1), (7, 2), (7, 3), (7, 4)]


async def test_the_end_of_the_parent_s_process_cancels_a_child_that_a_call_waits_for(agent_of: MakeAgent) -> None:
    gate, child = Gate(), child_cli(steps.wait_for_prompt(), steps.hang())
    fake = FakeCLI(call("r1"), steps.wait_gate(gate), steps.exit(1))
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child)) as client:
            (task,) = await started(client)
            await child.wait_received({"type": "user"})
            gate.open()
            assert (await task).status is TaskStatus.STOPPED
            assert not client.is_open


async def test_a_child_that_is_left_ends_with_the_client(agent_of: MakeAgent) -> None:
    gate, child = Gate(), child_cli(steps.wait_for_prompt(), steps.hang())
    fake = FakeCLI(call("r1"), steps.wait_gate(gate), steps.exit(1))
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child, on_parent_cancel="leave")) as client:
            (task,) = await started(client)
            await child.wait_received({"type": "user"})
            gate.open()
            while client.is_open:
                await checkpoint()
            assert not task.done
        assert task.status is TaskStatus.STOPPED


@pytest.mark.parametrize("ends", ["before", "by"])
async def test_the_report_of_a_child_that_is_left_reaches_the_next_process(
    ends: str, agent_of: MakeAgent, tmp_path: Path
) -> None:
    gate, go_on = Gate(), Gate()
    child = child_cli(steps.wait_for_prompt(), steps.wait_gate(go_on), frames.of_prompt(frames.result("It is done.")))
    fakes = FakeCLI(call("r1"), steps.wait_gate(gate), steps.exit(1)), FakeCLI(steps.turn("noted"))
    options: ClientOptions = ClientOptions(
        custom_tools=[child_tool(agent_of(child, on_parent_cancel="leave"))],
        cli_path=install_in_turn(tmp_path / "parents", *fakes),
        env={"CLAUDE_CONFIG_DIR": str(tmp_path / "config")},
    )
    with anyio.fail_after(60):
        async with Client(options) as client:
            (task,) = await started(client)
            await child.wait_received({"type": "user"})
            gate.open()
            while client.is_open:
                await checkpoint()
            if ends == "before":
                go_on.open()
                await task
            await client.reopen()
            (report,) = await fakes[1].wait_received({"type": "user"})
    assert report["shouldQuery"] is False
    assert "'Do it.' ended early" in report["message"]["content"]
    said = '"finalAssistantMessage": "It is done."' if ends == "before" else '"subTaskStatus": "Cancel"'
    assert said in report["message"]["content"]


async def test_several_children_at_once_each_with_its_own_report(agent_of: MakeAgent) -> None:
    fake = FakeCLI(call("r1", agent="one"), call("r2", agent="two"), call("r3", agent="three"))
    agents = [
        agent_of(child_cli(steps.turn("first"), name="one"), name="one"),
        agent_of(child_cli(steps.exit(2), name="two"), name="two"),
        agent_of(child_cli(steps.turn("third"), name="three"), name="three"),
    ]
    with anyio.fail_after(60):
        async with parent(fake, *agents):
            reports = [await answer_to(fake, f"r{n}") for n in (1, 2, 3)]
    assert [(report["agentId"], report["subTaskStatus"]) for report in reports] == [
        ("one", "Success"),
        ("two", "Error"),
        ("three", "Success"),
    ]


async def test_one_too_many_is_refused_with_a_report(agent_of: MakeAgent) -> None:
    fake = FakeCLI(call("r1"))
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child_cli()), limits=Limits(child_total=0)) as client:
            report = await answer_to(fake, "r1")
            assert len(client.tasks) == 0
    assert (report["subTaskStatus"], report["taskId"]) == ("Error", "")
    assert "child_total" in report["failureReason"]


async def test_a_child_ends_although_a_task_of_it_never_does(
    agent_of: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "CONNECTION_IDLE", 0.05)
    fake = FakeCLI(call("r1"))
    shell = frames.task_started("b1", "A server", task_type="local_bash")
    child = child_cli(steps.turn([shell], text="It is up."), answers={"stop_task": {}})
    async with parent(fake, agent_of(child)):
        assert (await answer_to(fake, "r1"))["finalAssistantMessage"] == "It is up."


def nested(agent_of: MakeAgent, outer: FakeCLI, *inner: ChildAgent) -> ChildAgent:
    """Return an agent whose CLI, in memory, can call other agents."""
    return agent_of(outer, options={"spawn": lambda plan: outer.transport(), "custom_tools": [*map(child_tool, inner)]})


@pytest.mark.parametrize("persists", [True, False])
async def test_a_child_of_a_child_is_a_task_of_both_with_its_transcript(
    agent_of: MakeAgent, persists: bool, tmp_path: Path
) -> None:
    inner = child_cli(steps.turn([frames.init(session_id="s2")], text="found"), name="inner")
    given = {
        "spawn": lambda plan: inner.transport(),
        "persist_session": persists,
        "env": {"CLAUDE_CONFIG_DIR": str(tmp_path)},
    }
    outer = child_cli(steps.wait_for_prompt(), call("r2", agent="inner"), steps.wait_for_reply("r2"),
                      frames.of_prompt(frames.result("It is done.")))  # fmt: skip
    fake = FakeCLI(call("r1"))
    with anyio.fail_after(60):
        async with parent(fake, nested(agent_of, outer, agent_of(inner, name="inner", options=given))) as client:
            assert (await answer_to(fake, "r1"))["finalAssistantMessage"] == "It is done."
            above, below = client.tasks
    assert (await answer_to(outer, "r2"))["finalAssistantMessage"] == "found"
    assert (below.parent, below.depth, below.subagent_type) == (above, 2, "inner")
    assert below.output_file == (str(tmp_path / "projects" / "-work" / "s2.jsonl") if persists else None)
    assert above.output_file is None


async def test_the_inferred_end_of_a_task_keeps_its_evidence_over_two_levels(agent_of: MakeAgent) -> None:
    shell = [frames.task_started("b1", "A build", task_type="local_bash"), frames.background_tasks("b1")]
    inner = child_cli(steps.turn([*shell, frames.background_tasks()], text="found"), name="inner")
    outer = child_cli(steps.wait_for_prompt(), call("r2", agent="inner"), steps.wait_for_reply("r2"),
                      frames.of_prompt(frames.result("It is done.")))  # fmt: skip
    seen: list[object] = []
    fake = FakeCLI(call("r1"))
    with anyio.fail_after(60):
        agent = agent_of(inner, name="inner", options={"spawn": lambda plan: inner.transport()})
        async with parent(fake, nested(agent_of, outer, agent)) as client:
            async with anyio.create_task_group() as readers:
                readers.start_soon(read_into, seen, client.messages())
                await answer_to(fake, "r1")
                outcome = await client.tasks["b1"]
                await client.close()
    assert outcome.evidence is Evidence.LEVEL
    ends = [message.task_id for message in seen if isinstance(message, TaskNotificationMessage)]
    assert ends.count("b1") == 1


@pytest.mark.parametrize(
    ("name", "depth", "problem"),
    [
        ("worker", 3, "an agent must not start itself (worker -> inner -> worker)"),
        ("third", 2, "children are nested at most 2 deep (limits.child_depth)"),
    ],
)
async def test_children_end_somewhere(agent_of: MakeAgent, name: str, depth: int, problem: str) -> None:
    last = agent_of(child_cli(name=name), name=name)
    inner = child_cli(call("r3", agent=name), steps.turn("found"), name="inner")
    outer = child_cli(steps.wait_for_prompt(), call("r2", agent="inner"), steps.wait_for_reply("r2"),
                      frames.of_prompt(frames.result("It is done.")))  # fmt: skip
    given = {"spawn": lambda plan: inner.transport(), "custom_tools": [child_tool(last)]}
    agent = nested(agent_of, outer, agent_of(inner, name="inner", options=given))
    fake = FakeCLI(call("r1"))
    with anyio.fail_after(60):
        async with parent(fake, agent, limits=Limits(child_depth=depth)) as client:
            await answer_to(fake, "r1")
            assert len(client.tasks) == 2
    report = await answer_to(inner, "r3")
    assert (report["subTaskStatus"], report["taskId"]) == ("Error", "")
    assert problem in report["failureReason"]


async def test_a_limit_that_is_no_number_counts_as_the_shortest(
    agent_of: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT", "never")
    fake, child = FakeCLI(call("r1", progressToken=7)), child_cli(steps.hang())
    with anyio.fail_after(60):
        async with parent(fake, agent_of(child, options={"spawn": lambda plan: child.transport()})):
            begun = anyio.current_time()
            await fake.wait_received({"request": {"message": {"method": "notifications/progress"}}})
            assert 0.3 < anyio.current_time() - begun < 8  # without the limit it would be 10


class Held(Transport):
    """Holds back what contains a text until an event, and then some turns of the event loop."""

    def __init__(self, inner: Transport, text: bytes, reached: anyio.Event, event: anyio.Event, turns: int = 0) -> None:
        self._inner, self._text, self._reached, self._event, self._turns = inner, text, reached, event, turns

    async def start(self) -> None:
        await self._inner.start()

    async def receive(self) -> bytes:
        data = await self._inner.receive()
        if self._text in data:
            self._reached.set()
            await self._event.wait()
            for _ in range(self._turns):
                await checkpoint()
        return data

    async def send(self, data: bytes) -> None:
        await self._inner.send(data)

    async def end_input(self) -> None:
        await self._inner.end_input()

    async def close(self, *, grace: float = 5.0) -> None:
        await self._inner.close(grace=grace)

    @property
    def exit_code(self) -> int | None:
        return self._inner.exit_code

    @property
    def stderr_tail(self) -> str:
        return self._inner.stderr_tail


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio chooses the order of its tasks at random
@pytest.mark.parametrize("policy", ["leave", "cancel"])
async def test_a_call_that_is_taken_back_as_its_child_ends(agent_of: MakeAgent, policy: str) -> None:
    """Whatever is first, the child has one end, with its cause, and its report is not lost."""
    child = child_cli(steps.turn("It is done.", is_error=policy == "cancel"))
    for turns in range(12):
        event, gate, has_ended, is_off = anyio.Event(), Gate(), anyio.Event(), anyio.Event()
        ending = Held(child.transport(), b"It is done.", has_ended, event)
        agent = agent_of(child, on_parent_cancel=policy, options={"spawn": lambda plan, made=ending: made})
        fake = FakeCLI(call("r1"), steps.wait_gate(gate), withdrawn("r1"), steps.turn("noted"))
        transport = Held(fake.transport(), b"notifications/cancelled", is_off, event, turns)
        options = ClientOptions(custom_tools=[child_tool(agent)])
        with anyio.fail_after(60):
            async with Client(options, transport=transport) as client:
                (task,) = await started(client)
                await has_ended.wait()
                gate.open()
                await is_off.wait()
                event.set()
                outcome = await task
                await anyio.wait_all_tasks_blocked()
        told = [*fake.received_like({"type": "control_response"}), *fake.received_like({"type": "user"})]
        reports = sum("It is done." in json.dumps(frame) for frame in told)
        assert outcome.ended_by is (EndedBy.PARENT if outcome.status is TaskStatus.STOPPED else None)
        assert [end.outcome.ended_by for end in task.list_ends()] == [outcome.ended_by]
        assert reports == 1 if policy == "leave" else reports <= 1

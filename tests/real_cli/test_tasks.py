"""Background tasks on the real CLI: many at once, nested, failing, stopped, resumed, moved, followed, listed."""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import anyio
import pytest
from leftovers import kill
from one_session import OneSession

from claude_agent_py import AssistantMessage, Client, InterruptedRunError, TaskStatus
from claude_agent_py.tasks import (
    EndedBy,
    Evidence,
    ModelPrice,
    Task,
    TaskEvent,
    TaskFinished,
    TaskHistory,
    TaskList,
    TaskStarted,
)
from claude_agent_py.testing import Failure, Gate, RecordedRequest, Reply, ScriptedModel, Usage, text, tool_use
from claude_agent_py.todo import TASK_LIST_ENVIRONMENT

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

Scripts: TypeAlias = dict[Any, Any]

FOREVER = "for i in $(seq 1 600); do echo tick $i; sleep 0.1; done"
QUIET = "echo tick 1; sleep 600"  # says no more after the marker that the CLI writes when it stops a shell


def agent(description: str, prompt: str, **given: Any) -> Any:
    return tool_use("Agent", {"description": description, "prompt": prompt, "subagent_type": "general-purpose"} | given)


def shell(description: str, command: str, *, background: bool = True, **given: Any) -> Any:
    return tool_use("Bash", {"command": command, "description": description, "run_in_background": background} | given)


def named(client: Client, description: str) -> Task:
    return next(task for task in client.tasks if task.description == description)


async def known(client: Client, description: str) -> Task:
    """Wait until a task is known, and give it."""
    await client.tasks.until(lambda: any(task.description == description for task in client.tasks))
    return named(client, description)


def turn(*answers: Any) -> Callable[[RecordedRequest], Any]:
    """Answer the first requests with these, and each turn that a task causes with a word."""
    left = list(answers)
    return lambda request: left.pop(0) if left else text("Noted.")


class Tasks(OneSession):
    """A session with one subagent after the other, each in the check that its prompt belongs to."""

    def __init__(self) -> None:
        self.gates = {name: Gate() for name in ("SLOW", "TALK", "NEVER")}
        in_shell = [shell("in", FOREVER, background=False)]
        super().__init__(
            agents={
                **{f"TASK-{n}": [tool_use("Bash", {"command": f"echo {n}"}), f"report {n}"] for n in range(5)},
                "OUTER": [[text("I delegate."), agent("inner", "INNER", run_in_background=False)], "outer report"],
                "INNER": [shell("below", "echo from below"), "inner report"],
                "SAYS-A": [tool_use("Bash", {"command": "echo a"}), "report a"],
                "SAYS-B": "report b",
                "COSTS": [spends("first", 1000, 100), spends("second", 300, 30)],
                "FAILS": lambda request: Failure(400, "no such luck"),
                "HELP": ["first report", "second report"],
                "SLOW": [tool_use("Bash", {"command": "echo 1"}), Reply("late report", after=self.gates["SLOW"])],
                "TALK": [
                    [text("Looking."), tool_use("Bash", {"command": "echo x"})],
                    Reply("Found it.", after=self.gates["TALK"]),
                ],
                "WATCH": [shell("watched", self.until("watched")), "I wait.", "It is over."],
                "STOPPED": in_shell,
                "INTERRUPTED": in_shell,
                "DIES": in_shell,
            }
        )

    def until(self, name: str) -> str:
        """Return a command that waits until `touch` is called."""
        return f"while [ ! -e {name} ]; do sleep 0.05; done; echo over"

    def touch(self, name: str) -> None:
        (self.model.sandbox.cwd / name).touch()


async def the_to_do_list(one: Tasks) -> None:
    listed = TaskList()
    one.answers(
        Reply(
            [
                tool_use("TaskCreate", {"subject": "First", "description": "do it", "activeForm": "Doing it"}),
                tool_use("TaskCreate", {"subject": "Second", "description": "then this", "metadata": {"k": 1}}),
            ]
        ),
        tool_use("TaskUpdate", {"taskId": "2", "addBlockedBy": ["1"], "owner": "me"}),
        tool_use("TaskUpdate", {"taskId": "1", "status": "completed"}),
        "listed",
    )
    changes = [change.kind async for message in one.client.query("go") for change in listed.track(message)]
    by_wire = listed.items
    assert len(one.client.tasks) == 0
    assert changes == ["created", "created", "updated", "updated", "updated"]
    assert [(item.subject, item.status, item.owner, item.blocked_by) for item in by_wire] == [
        ("First", "completed", None, []),
        ("Second", "pending", "me", ["1"]),
    ]
    assert [item.subject for item in listed.ready] == ["Second"]


async def five_subagents_and_five_shells_at_once(one: Tasks) -> None:
    calls = [agent(f"agent {n}", f"TASK-{n}") for n in range(5)]
    calls += [shell(f"shell {n}", f"echo begin {n}; sleep 0.{n + 1}; echo end {n}; exit {n}") for n in range(5)]
    ends = one.client.tasks.events(TaskFinished)
    result = await one.ask(Reply(calls), "All under way.")
    outcomes = {outcome.description: outcome for outcome in await one.client.tasks.wait_all(timeout=60)}
    outputs = {task.description: await task.read_output() for task in one.client.tasks}
    assert len(result.tasks) == 10
    assert list(result.unfinished_tasks) == []
    assert ends.waiting == 10
    assert {outcome.evidence for outcome in outcomes.values()} == {Evidence.NOTIFICATION}
    for n in range(5):
        assert (outcomes[f"agent {n}"].status, outputs[f"agent {n}"]) == (TaskStatus.COMPLETED, f"report {n}")
        assert outcomes[f"shell {n}"].status is (TaskStatus.FAILED if n else TaskStatus.COMPLETED)
        assert outcomes[f"shell {n}"].exit_code == n
        assert outputs[f"shell {n}"] == f"begin {n}\nend {n}\n"


async def nested_subagents_and_their_shells(one: Tasks) -> None:
    roots = list(one.client.tasks.roots)
    await one.ask(agent("outer", "OUTER"), "under way")
    await one.client.tasks.wait_all(timeout=60)
    outer, inner, below = (named(one.client, name) for name in ("outer", "inner", "below"))
    transcript = await outer.transcript()
    drawn = str(one.client.tasks.tree()).splitlines()[len(roots) :]
    assert (outer.parent, inner.parent, below.parent) == (None, outer, inner)
    assert [task.depth for task in (outer, inner, below)] == [1, 2, 3]
    assert one.client.tasks.roots == [*roots, outer]
    assert [line.split(" [")[0] for line in drawn] == ["outer", "└── inner", "    └── below"]
    assert {message.agent_id for message in transcript} == {outer.id, inner.id}
    assert [message.text for message in transcript if "report" in message.text][-1] == "outer report"
    assert outer.total_usage.total_tokens >= (outer.usage.total_tokens if outer.usage else 0)


async def the_messages_of_a_subagent_belong_to_its_task(one: Tasks) -> None:
    result = await one.ask(Reply([agent("a", "SAYS-A"), agent("b", "SAYS-B")]), "ok")
    said = {task.description: [m async for m in task.messages()] for task in result.tasks}
    assert [message.text for message in said["b"] if isinstance(message, AssistantMessage)] == ["report b"]
    assert isinstance(said["a"][-1], AssistantMessage)
    assert said["a"][-1].text == "report a"
    assert len(said["b"]) == 1
    assert len(said["a"]) == 3


async def a_resumed_subagent_has_the_usage_of_each_run(one: Tasks) -> None:
    def resume(request: RecordedRequest) -> Any:
        [to] = re.findall(r"agentId: (\w+)", str(request.tool_results))
        return tool_use("SendMessage", {"to": to, "message": "more", "summary": "more"})

    await one.ask(agent("costs", "COSTS", run_in_background=False), resume)
    await one.client.tasks.wait_all(timeout=60)
    task = named(one.client, "costs")
    assert [outcome.usage.total_tokens for outcome in task.outcomes if outcome.usage] == [1100, 330]
    assert task.total_usage.total_tokens == 1430


async def one_that_fails_one_that_is_stopped_and_one_that_the_model_stops(one: Tasks) -> None:
    def stop(request: RecordedRequest) -> Any:
        *_, shell_id = re.findall(r"running in background with ID: (\w+)", str(request.tool_results))
        return tool_use("TaskStop", {"task_id": shell_id})

    one.answers(Reply([agent("fails", "FAILS"), agent("by host", "STOPPED"), shell("by model", QUIET)]), stop)
    run = one.client.query("go", until="idle")
    by_host = await known(one.client, "by host")
    await one.client.tasks.until(lambda: by_host.activity == "Running in", by_host.id)
    stopped = await by_host.stop()
    await run
    failed, by_model = [await named(one.client, name) for name in ("fails", "by model")]
    assert stopped.status is TaskStatus.STOPPED
    assert (failed.status, "no such luck" in (failed.failure_reason or "")) == (TaskStatus.FAILED, True)
    assert by_model.status is TaskStatus.STOPPED
    assert "killed" not in await named(one.client, "by model").read_output()


async def stopping_what_is_over_and_what_nobody_knows(one: Tasks) -> None:
    await one.ask(shell("quick", "echo hi"), "ok")
    assert (await named(one.client, "quick").stop()).status is TaskStatus.COMPLETED
    assert await one.client.control("stop_task", task_id="bnobody00") == {}  # the CLI says yes to any id


async def an_agent_that_is_resumed_by_a_message_runs_again(one: Tasks) -> None:
    await one.ask(agent("helper", "HELP"))
    helper = named(one.client, "helper")
    first, count = await helper, len(one.client.tasks)
    await one.ask(tool_use("SendMessage", {"to": helper.id, "summary": "go on", "message": "MORE"}))
    second = await helper
    assert (first.summary, second.summary) == ("first report", "second report")
    assert first.run_id is not None
    assert second.run_id is not None
    assert first.run_id < second.run_id
    assert [outcome.summary for outcome in helper.outcomes] == ["first report", "second report"]
    assert helper.prompt == "MORE"
    assert len(one.client.tasks) == count


async def an_agent_is_woken_by_its_own_shell(one: Tasks) -> None:
    one.answers(agent("watcher", "WATCH"), "ok")
    run = one.client.query("go", until="idle")
    watcher = await known(one.client, "watcher")
    await one.client.tasks.until(lambda: len(watcher.outcomes) == 1)
    one.touch("watched")
    await run
    await one.client.tasks.until(lambda: len(watcher.outcomes) == 2)
    assert [outcome.summary for outcome in watcher.outcomes] == ["I wait.", "It is over."]
    assert watcher.prompt == "WATCH"


async def a_foreground_subagent_is_moved_to_the_background_while_it_runs(one: Tasks) -> None:
    one.answers(agent("slow", "SLOW", run_in_background=False), "It goes on.")
    run = one.client.query("go")
    slow = await known(one.client, "slow")
    was_in_background = slow.is_backgrounded
    assert await slow.move_to_background() is True
    assert (await run).text == "It goes on."
    assert not slow.done
    one.gates["SLOW"].open()
    outcome = await slow.wait(timeout=60)
    assert (was_in_background, slow.is_backgrounded) == (False, True)
    assert outcome.summary == "late report"


async def following_a_shell_shows_lines_while_it_runs(one: Tasks) -> None:
    """It writes a line once the one before has been read."""
    command = "for i in 1 2 3 4 5; do echo line $i; while [ ! -e read$i ]; do sleep 0.05; done; done"
    one.answers(shell("prints", command), "ok")
    await one.client.query("go")
    task = await known(one.client, "prints")
    chunks: list[str] = []
    async for chunk in task.follow():
        chunks.append(chunk)
        one.touch(f"read{len(chunks)}")
    assert chunks == [f"line {n}\n" for n in range(1, 6)]
    assert (await task).exit_code == 0  # which the report of its end brings


async def following_a_subagent_shows_what_it_says_while_it_runs(one: Tasks) -> None:
    one.answers(agent("talker", "TALK"), "ok")
    await one.client.query("go")
    chunks: list[str] = []
    async for chunk in (await known(one.client, "talker")).follow():
        chunks.append(chunk)
        one.gates["TALK"].open()
    assert chunks == ["Looking.\n", "Found it.\n"]


async def the_output_of_a_live_shell_as_the_cli_tells_it(one: Tasks) -> None:
    tasks = one.client.tasks
    one.answers(shell("ticks", QUIET), "ok")
    await one.client.query("go")
    task = await known(one.client, "ticks")
    async for _ in task.follow():
        break
    found = await tasks.output(task.id, block=False)
    asked = await one.client.control("get_task_output", task_id=task.id)
    late = await tasks.output(task.id, timeout=0.1)
    outcomes = await tasks.stop_all()
    left = await tasks.output(task.id)
    assert (found.retrieval_status, found.text.startswith("tick 1\n")) == ("not_ready", True)
    assert (asked["output"].startswith("tick 1\n"), asked["truncated"]) == (True, False)
    assert asked["total_bytes"] == len("tick 1\n")
    assert late.retrieval_status == "timeout"
    assert [outcome.status for outcome in outcomes] == [TaskStatus.STOPPED]
    assert (left.retrieval_status, left.status, left.text.startswith("tick 1\n")) == ("success", "stopped", True)
    assert "[killed]" not in left.text


async def interrupting_the_main_turn_leaves_the_tasks_running(one: Tasks) -> None:
    launch = Reply([agent("agent", "INTERRUPTED"), shell("shell", FOREVER)])
    one.answers(launch, Reply("never said", after=one.gates["NEVER"]))
    run = one.client.query("go")
    tasks = [await known(one.client, "agent"), await known(one.client, "shell")]
    await one.gates["NEVER"].wait_reached()
    await run.interrupt()
    with pytest.raises(InterruptedRunError):
        await run
    assert [task.status for task in tasks] == [TaskStatus.RUNNING] * 2
    await one.client.tasks.stop_all()
    one.gates["NEVER"].open()
    assert [task.status for task in tasks] == [TaskStatus.STOPPED] * 2


async def when_the_process_dies_its_tasks_fail(one: Tasks) -> None:
    one.answers(Reply([agent("dying agent", "DIES"), shell("dying shell", FOREVER)]), "ok")
    await one.client.query("go")
    tasks = [await known(one.client, "dying agent"), await known(one.client, "dying shell")]
    assert one.client.pid is not None
    kill(one.client.pid)
    outcomes = await one.client.tasks.wait_all([task.id for task in tasks])
    assert {outcome.status for outcome in outcomes} == {TaskStatus.FAILED}
    assert all(outcome.failure_reason for outcome in outcomes)


async def test_the_tasks_of_one_session() -> None:
    one = Tasks()
    async with one.open(env=dict(TASK_LIST_ENVIRONMENT)):
        for check in (
            the_to_do_list,
            five_subagents_and_five_shells_at_once,
            nested_subagents_and_their_shells,
            the_messages_of_a_subagent_belong_to_its_task,
            a_resumed_subagent_has_the_usage_of_each_run,
            one_that_fails_one_that_is_stopped_and_one_that_the_model_stops,
            stopping_what_is_over_and_what_nobody_knows,
            an_agent_that_is_resumed_by_a_message_runs_again,
            an_agent_is_woken_by_its_own_shell,
            a_foreground_subagent_is_moved_to_the_background_while_it_runs,
            following_a_shell_shows_lines_while_it_runs,
            following_a_subagent_shows_what_it_says_while_it_runs,
            the_output_of_a_live_shell_as_the_cli_tells_it,
            interrupting_the_main_turn_leaves_the_tasks_running,
            when_the_process_dies_its_tasks_fail,
        ):
            with anyio.fail_after(180):
                await check(one)


def spends(answer: Any, input_tokens: int, output_tokens: int) -> Reply:
    return Reply(answer, usage=Usage(input_tokens=input_tokens, output_tokens=output_tokens))


def free(answer: Any) -> Reply:
    return answer if isinstance(answer, Reply) else spends(answer, 0, 0)


@pytest.mark.long
async def test_the_usage_of_subagents_is_added_up_and_priced() -> None:
    """Each message once, though it has several blocks; parent and child apart; all of it as the CLI counts it."""
    deeper = agent("inner", "INNER", run_in_background=False)
    scripts: Scripts = {
        "OUTER": [
            spends([text("I look."), tool_use("Bash", {"command": "echo 1"}), deeper], 5000, 500),
            spends(tool_use("Bash", {"command": "echo 2"}), 3000, 300),
            spends("outer report", 20, 2),
        ],
        "INNER": [spends(tool_use("Bash", {"command": "echo 3"}), 700, 70), spends("inner report", 9, 1)],
    }
    calls = [agent("outer", "OUTER", run_in_background=background) for background in (True, False)]

    def main(request: RecordedRequest) -> Any:
        is_asked = request.last_user_text.strip().endswith("go")
        return free(calls.pop(0) if is_asked else text("Noted."))

    with ScriptedModel(main, agents=scripts) as model:
        async with Client(model.options()) as client:
            seen: list[float] = []

            @client.tasks.on
            async def note(event: TaskEvent) -> None:
                seen.append(client.tasks.tree().usage.total_tokens)

            for number in (1, 2):
                with anyio.fail_after(240):
                    result = await client.query("go", until="idle")
                    await client.tasks.wait_all(timeout=60)
                outer, inner = list(client.tasks)[-2:]
                assert (outer.is_backgrounded, inner.parent) == (number == 1, outer)
                assert outer.usage
                assert inner.usage
                assert (outer.usage.total_tokens, outer.usage.tool_uses) == (8822, 3)
                assert inner.usage.total_tokens == 780
                assert outer.total_usage.total_tokens == 9602
                assert client.tasks.tree().usage.total_tokens == 9602 * number
                (spent,) = result.model_usage.values()
                assert spent.input_tokens + spent.output_tokens == 9602 * number
                assert (outer.usage.cost_is_derived, outer.total_usage.cost_is_derived) == (True, True)
                assert outer.total_usage.cost_usd == pytest.approx(result.cost_usd)
                assert outer.usage.cost_usd == pytest.approx(result.cost_usd * (8020 + 5 * 802) / (8729 + 5 * 873))
                assert [(await task).usage for task in (outer, inner)] == [outer.usage, inner.usage]
            (name,) = result.model_usage
            client.tasks.prices[name] = ModelPrice(input=1_000_000, output=0)
            assert outer.usage is not None
            assert outer.usage.cost_usd == 8020
    assert seen == sorted(seen)


# In the history --------------------------------------------------------------------------------------------------


async def test_a_session_in_the_history_and_who_ended_its_tasks() -> None:
    def stop(request: RecordedRequest) -> Any:
        *_, shell_id = re.findall(r"running in background with ID: (\w+)", str(request.tool_results))
        return tool_use("TaskStop", {"task_id": shell_id})

    one = OneSession(
        agents={
            "OUTER": [agent("inner", "INNER", run_in_background=False), "outer report"],
            "LONG": [shell("below", FOREVER), shell("in", FOREVER, background=False)],
            "WAITED": [shell("it", FOREVER, background=False)],
        }
    )
    async with TaskHistory(":memory:") as history, one.open() as client:
        history.attach(client.tasks, "session")
        await one.ask(agent("outer", "OUTER"), "ok")
        tree = {(task.parent.id if task.parent else None, task.id) for task in client.tasks}
        with anyio.fail_after(240):
            while len(await history.finished()) < 2:
                await anyio.sleep(0.02)
        kept = await history.tree("session")
        assert {(parent, child) for parent, children in kept.items() for child in children} == tree
        assert await history.finished(status="failed") == []

        one.answers(Reply([agent("by program", "LONG"), shell("by model", FOREVER)]), stop)
        with anyio.fail_after(240):
            run = client.query("go", until="idle")
            by_program = await known(client, "by program")
            await known(client, "below")
            await client.tasks.until(lambda: by_program.activity == "Running in", by_program.id)
            await by_program.stop()
            await client.tasks.wait_all()
            await run
        await history.flush()
        live, rebuilt = str(client.tasks.tree()), str(await history.rebuild("session"))
        records = await history.records("session")
        names = {task.id: task.description for task in client.tasks}
        ends = {names[record.task_id]: record.outcome for record in records if isinstance(record, TaskFinished)}
        assert {name: end.ended_by for name, end in ends.items() if end.status is TaskStatus.STOPPED} == {
            "by program": "program",
            "by model": "model",
            "below": "parent",
        }
        assert rebuilt == live
        assert [record.number for record in records] == list(range(1, len(records) + 1))
        started = {names[record.task_id]: record for record in records if isinstance(record, TaskStarted)}
        assert started["by program"].prompt == "LONG"
        assert started["below"].author == "general-purpose"

        one.answers(agent("waited for", "WAITED", run_in_background=False), "never said")
        with anyio.fail_after(240):
            run = client.query("go")
            task = await known(client, "waited for")
            await client.tasks.until(lambda: task.activity == "Running it", task.id)
            await run.interrupt()
            outcome = await task
        await history.flush()
        facts = await history.records("session", task.id)
        assert (outcome.status, outcome.ended_by) == (TaskStatus.STOPPED, "parent")
        assert [fact.outcome.ended_by for fact in facts if isinstance(fact, TaskFinished)] == ["parent"]


@pytest.mark.long
async def test_shells_that_the_cli_stops_because_it_is_aborted_are_stopped_by_the_program() -> None:
    async with ScriptedModel([shell("server", FOREVER), "It runs."]) as model:
        client = Client(model.options())
        await client.connect()
        with anyio.fail_after(240):
            await client.query("Start the server.")
            client.abort()
            outcome = await named(client, "server").wait()
            await client.close()
    assert (outcome.status, outcome.ended_by) == (TaskStatus.STOPPED, EndedBy.PROGRAM)
    assert "closed" in (outcome.failure_reason or "")

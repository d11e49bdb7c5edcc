"""Background tasks on the real CLI: many at once, nested, failing, stopped, resumed, moved, followed, listed."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from leftovers import kill

from claude_agent_py import AssistantMessage, Client, InterruptedRunError, TaskStatus
from claude_agent_py.tasks import Evidence, ModelPrice, Task, TaskEvent, TaskFinished, TaskHistory, TaskList
from claude_agent_py.testing import Failure, Gate, RecordedRequest, Reply, ScriptedModel, Usage, text, tool_use
from claude_agent_py.todo.task_list import TASK_LIST_ENVIRONMENT

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


async def test_five_subagents_and_five_shells_at_once() -> None:
    calls = [agent(f"agent {n}", f"TASK-{n}") for n in range(5)]
    calls += [shell(f"shell {n}", f"echo begin {n}; sleep 0.{n + 1}; echo end {n}; exit {n}") for n in range(5)]
    reports: Scripts = {
        f"TASK-{n}": [[tool_use("Bash", {"command": f"echo {n}"})], text(f"report {n}")] for n in range(5)
    }
    with ScriptedModel(turn(Reply(calls), text("All under way.")), agents=reports) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                ends = client.tasks.events(TaskFinished)
                result = await client.query("go", until="idle")
                outcomes = {outcome.description: outcome for outcome in await client.tasks.wait_all(timeout=60)}
                outputs = {task.description: await task.read_output() for task in client.tasks}
    assert len(result.tasks) == 10
    assert list(result.unfinished_tasks) == []
    assert ends.waiting == 10
    assert {outcome.evidence for outcome in outcomes.values()} == {Evidence.NOTIFICATION}
    for n in range(5):
        assert (outcomes[f"agent {n}"].status, outputs[f"agent {n}"]) == (TaskStatus.COMPLETED, f"report {n}")
        assert outcomes[f"shell {n}"].status is (TaskStatus.FAILED if n else TaskStatus.COMPLETED)
        assert outcomes[f"shell {n}"].exit_code == n
        assert outputs[f"shell {n}"] == f"begin {n}\nend {n}\n"


async def test_nested_subagents_and_their_shells() -> None:
    scripts: Scripts = {
        "OUTER": [[text("I delegate."), agent("inner", "INNER", run_in_background=False)], text("outer report")],
        "INNER": [[shell("below", "echo from below", background=True)], text("inner report")],
    }
    with ScriptedModel(turn(agent("outer", "OUTER"), text("under way")), agents=scripts) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                await client.query("go", until="idle")
                await client.tasks.wait_all(timeout=60)
                outer, inner, below = (named(client, name) for name in ("outer", "inner", "below"))
                transcript = await outer.transcript()
                drawn = str(client.tasks.tree())
    assert (outer.parent, inner.parent, below.parent) == (None, outer, inner)
    assert [task.depth for task in (outer, inner, below)] == [1, 2, 3]
    assert client.tasks.roots == [outer]
    assert [line.split(" [")[0] for line in drawn.splitlines()] == ["outer", "└── inner", "    └── below"]
    assert {message.agent_id for message in transcript} == {outer.id, inner.id}
    assert [message.text for message in transcript if "report" in message.text][-1] == "outer report"
    assert outer.total_usage.total_tokens >= (outer.usage.total_tokens if outer.usage else 0)


def spends(answer: Any, input_tokens: int, output_tokens: int) -> Reply:
    return Reply(answer, usage=Usage(input_tokens=input_tokens, output_tokens=output_tokens))


def free(answer: Any) -> Reply:
    return answer if isinstance(answer, Reply) else spends(answer, 0, 0)


@pytest.mark.parametrize("background", [True, False])
async def test_what_subagents_use_is_added_up_and_priced(background: bool) -> None:
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
    main = turn(spends(agent("outer", "OUTER", run_in_background=background), 0, 0))
    with ScriptedModel(lambda request: free(main(request)), agents=scripts) as model:
        async with Client(model.options()) as client:
            seen: list[float] = []

            @client.tasks.on
            async def note(event: TaskEvent) -> None:
                seen.append(client.tasks.tree().usage.total_tokens)

            with anyio.fail_after(60):
                result = await client.query("go", until="idle")
                outcomes = {outcome.description: outcome for outcome in await client.tasks.wait_all(timeout=60)}
            outer, inner = named(client, "outer"), named(client, "inner")
            assert outer.usage
            assert inner.usage
            assert (outer.usage.total_tokens, outer.usage.tool_uses) == (8822, 3)
            assert inner.usage.total_tokens == 780
            assert outer.total_usage.total_tokens == client.tasks.tree().usage.total_tokens == 9602
            (spent,) = result.model_usage.values()
            assert spent.input_tokens + spent.output_tokens == 9602
            assert (outer.usage.cost_is_derived, outer.total_usage.cost_is_derived) == (True, True)
            assert outer.total_usage.cost_usd == pytest.approx(result.total_cost_usd)
            assert outer.usage.cost_usd == pytest.approx(result.total_cost_usd * (8020 + 5 * 802) / (8729 + 5 * 873))
            assert [outcomes[name].usage for name in ("outer", "inner")] == [outer.usage, inner.usage]
            (name,) = result.model_usage
            client.tasks.prices[name] = ModelPrice(input=1_000_000, output=0)
            assert outer.usage.cost_usd == 8020
    assert seen == sorted(seen)


async def test_a_resumed_subagent_has_the_usage_of_each_run() -> None:
    scripts: Scripts = {"OUTER": [spends("first", 1000, 100), spends("second", 300, 30)]}
    steps = iter(["launch", "resume"])

    def main(request: RecordedRequest) -> Any:
        match next(steps, ""):
            case "launch":
                return agent("outer", "OUTER", run_in_background=False)
            case "resume":
                return tool_use("SendMessage", {"to": client.tasks.roots[0].id, "message": "more", "summary": "more"})
        return text("Noted.")

    with ScriptedModel(main, agents=scripts) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                await client.query("go", until="idle")
                await client.tasks.wait_all(timeout=60)
            (task,) = client.tasks
            tokens = [outcome.usage.total_tokens for outcome in task.outcomes if outcome.usage]
            assert tokens == [1100, 330]
            assert task.total_usage.total_tokens == 1430


async def test_one_that_fails_one_that_is_stopped_and_one_that_the_model_stops() -> None:
    def main(request: RecordedRequest) -> Any:
        if len(seen) == 0:
            seen.append("launch")
            return Reply([agent("fails", "FAILS"), agent("by host", "LONG"), shell("by model", QUIET)])
        if len(seen) == 1:
            seen.append("stop")
            (shell_id,) = re.findall(r"running in background with ID: (\w+)", str(request.tool_results))
            return tool_use("TaskStop", {"task_id": shell_id})
        return text("Noted.")

    seen: list[str] = []
    scripts: Scripts = {
        "FAILS": lambda request: Failure(400, "no such luck"),
        "LONG": [shell("in", FOREVER, background=False)],
    }
    with ScriptedModel(main, agents=scripts) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                run = client.query("go", until="idle")
                by_host = await known(client, "by host")
                await client.tasks.until(lambda: by_host.activity == "Running in", by_host.id)
                stopped = await by_host.stop()
                await run
                failed, by_model = [await named(client, name) for name in ("fails", "by model")]
                text_so_far = await named(client, "by model").read_output()
    assert stopped.status is TaskStatus.STOPPED
    assert (failed.status, "no such luck" in (failed.failure_reason or "")) == (TaskStatus.FAILED, True)
    assert by_model.status is TaskStatus.STOPPED
    assert "killed" not in text_so_far


async def test_stopping_what_is_over_and_what_nobody_knows() -> None:
    with ScriptedModel(turn(shell("quick", "echo hi"), text("ok"))) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                await client.query("go", until="idle")
                quick = named(client, "quick")
                assert (await quick.stop()).status is TaskStatus.COMPLETED
                assert await client.control("stop_task", task_id="bnobody00") == {}  # the CLI says yes to any id


async def test_an_agent_that_is_resumed_by_a_message_runs_again() -> None:
    def main(request: RecordedRequest) -> Any:
        if "RESUME" in str(request.body["messages"][-1]) and not sent:
            sent.append("message")
            return tool_use("SendMessage", {"to": named(client, "helper").id, "summary": "go on", "message": "MORE"})
        if not launched:
            launched.append("agent")
            return agent("helper", "HELP")
        return text("Noted.")

    launched: list[str] = []
    sent: list[str] = []
    with ScriptedModel(main, agents={"HELP": [text("first report"), text("second report")]}) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                await client.query("go", until="idle")
                helper = named(client, "helper")
                first = await helper
                await client.query("RESUME", until="idle")
                second = await helper
    assert (first.summary, second.summary) == ("first report", "second report")
    assert first.run_id is not None
    assert second.run_id is not None
    assert first.run_id < second.run_id
    assert [outcome.summary for outcome in helper.outcomes] == ["first report", "second report"]
    assert helper.prompt == "MORE"
    assert len(client.tasks) == 1


async def test_an_agent_is_woken_by_its_own_shell(tmp_path: Path) -> None:
    watched = shell("watched", f"while [ ! -e '{tmp_path}/end' ]; do sleep 0.05; done; echo over")
    scripts: Scripts = {"WATCH": [watched, text("I wait."), text("It is over.")]}
    with ScriptedModel(turn(agent("watcher", "WATCH"), text("ok")), agents=scripts) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                run = client.query("go", until="idle")
                watcher = await known(client, "watcher")
                await client.tasks.until(lambda: len(watcher.outcomes) == 1)
                (tmp_path / "end").touch()
                await run
                await client.tasks.until(lambda: len(watcher.outcomes) == 2)
    assert [outcome.summary for outcome in watcher.outcomes] == ["I wait.", "It is over."]
    assert watcher.prompt == "WATCH"


async def test_a_foreground_subagent_is_moved_to_the_background_while_it_runs() -> None:
    gate = Gate()
    scripts: Scripts = {
        "SLOW": [Reply(tool_use("Bash", {"command": "echo 1"})), Reply(text("late report"), after=gate)]
    }
    with ScriptedModel(
        turn(agent("slow", "SLOW", run_in_background=False), text("It goes on.")), agents=scripts
    ) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                run = client.query("go")
                slow = await known(client, "slow")
                was_in_background = slow.is_backgrounded
                assert await slow.move_to_background() is True
                assert (await run).text == "It goes on."
                assert not slow.done
                gate.open()
                outcome = await slow.wait(timeout=60)
    assert (was_in_background, slow.is_backgrounded) == (False, True)
    assert outcome.summary == "late report"


async def test_following_a_shell_shows_lines_while_it_runs(tmp_path: Path) -> None:
    """It writes a line once the one before has been read."""
    command = f"for i in 1 2 3 4 5; do echo line $i; while [ ! -e {tmp_path}/$i ]; do sleep 0.05; done; done"
    with ScriptedModel(turn(shell("prints", command), text("ok"))) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                await client.query("go")
                task = await known(client, "prints")
                chunks: list[str] = []
                async for chunk in task.follow():
                    chunks.append(chunk)
                    (tmp_path / str(len(chunks))).touch()
    assert chunks == [f"line {n}\n" for n in range(1, 6)]
    assert task.exit_code == 0


async def test_following_a_subagent_shows_what_it_says_while_it_runs() -> None:
    gate = Gate()
    scripts: Scripts = {
        "TALK": [[text("Looking."), tool_use("Bash", {"command": "echo x"})], Reply(text("Found it."), after=gate)]
    }
    with ScriptedModel(turn(agent("talker", "TALK"), text("ok")), agents=scripts) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                await client.query("go")
                task = await known(client, "talker")
                chunks: list[str] = []
                async for chunk in task.follow():
                    chunks.append(chunk)
                    gate.open()
    assert chunks == ["Looking.\n", "Found it.\n"]


async def test_the_output_of_a_live_shell_as_the_cli_tells_it() -> None:
    with ScriptedModel(turn(shell("ticks", QUIET), text("ok"))) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                await client.query("go")
                task = await known(client, "ticks")
                async for _ in task.follow():
                    break
                found = await client.tasks.output(task.id, block=False)
                asked = await client.control("get_task_output", task_id=task.id)
                late = await client.tasks.output(task.id, timeout=0.1)
                outcomes = await client.tasks.stop_all()
                left = await client.tasks.output(task.id)
    assert (found.retrieval_status, found.text.startswith("tick 1\n")) == ("not_ready", True)
    assert asked["output"].startswith("tick 1\n")
    assert late.retrieval_status == "timeout"
    assert [outcome.status for outcome in outcomes] == [TaskStatus.STOPPED]
    assert (left.retrieval_status, left.status, left.text.startswith("tick 1\n")) == ("success", "stopped", True)
    assert "[killed]" not in left.text


async def test_interrupting_the_main_turn_leaves_the_tasks_running() -> None:
    gate = Gate()
    launch = Reply([agent("agent", "LONG"), shell("shell", FOREVER)])
    scripts: Scripts = {"LONG": [shell("in", FOREVER, background=False)]}
    with ScriptedModel(turn(launch, Reply(text("never said"), after=gate)), agents=scripts) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                run = client.query("go")
                tasks = [await known(client, "agent"), await known(client, "shell")]
                await model.wait_for_requests(2, agent="main")
                await run.interrupt()
                with pytest.raises(InterruptedRunError):
                    await run
                assert [task.status for task in tasks] == [TaskStatus.RUNNING] * 2
                await client.tasks.stop_all()
                gate.open()
    assert [task.status for task in tasks] == [TaskStatus.STOPPED] * 2


async def test_the_messages_of_a_subagent_belong_to_its_task() -> None:
    scripts: Scripts = {"A": [[tool_use("Bash", {"command": "echo a"})], text("report a")], "B": [text("report b")]}
    with ScriptedModel(turn(Reply([agent("a", "A"), agent("b", "B")]), text("ok")), agents=scripts) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                await client.query("go", until="idle")
                said = {task.description: [m async for m in task.messages()] for task in client.tasks}
    assert [message.text for message in said["b"] if isinstance(message, AssistantMessage)] == ["report b"]
    assert isinstance(said["a"][-1], AssistantMessage)
    assert said["a"][-1].text == "report a"
    assert len(said["b"]) == 1
    assert len(said["a"]) == 3


async def test_when_the_process_dies_its_tasks_fail() -> None:
    calls = Reply([agent("agent", "LONG"), shell("shell", FOREVER)])
    scripts: Scripts = {"LONG": [shell("in", FOREVER, background=False)]}
    with ScriptedModel(turn(calls, text("ok")), agents=scripts) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                await client.query("go")
                tasks = [await known(client, "agent"), await known(client, "shell")]
                assert client.pid is not None
                kill(client.pid)
                outcomes = await client.tasks.wait_all([task.id for task in tasks])
    assert {outcome.status for outcome in outcomes} == {TaskStatus.FAILED}
    assert all(outcome.failure_reason for outcome in outcomes)


async def test_the_to_do_list() -> None:
    script = turn(
        Reply(
            [
                tool_use("TaskCreate", {"subject": "First", "description": "do it", "activeForm": "Doing it"}),
                tool_use("TaskCreate", {"subject": "Second", "description": "then this", "metadata": {"k": 1}}),
            ]
        ),
        tool_use("TaskUpdate", {"taskId": "2", "addBlockedBy": ["1"], "owner": "me"}),
        tool_use("TaskUpdate", {"taskId": "1", "status": "completed"}),
        text("listed"),
    )
    with ScriptedModel(script) as model:
        listed = TaskList(model.sandbox.config_dir)
        async with Client(model.options(env=dict(TASK_LIST_ENVIRONMENT))) as client:
            with anyio.fail_after(60):
                run = client.query("go")
                changes = [change.kind async for message in run for change in listed.track(message)]
                by_wire = listed.items
                by_file = await listed.read()
                assert len(client.tasks) == 0
    assert changes == ["created", "created", "updated", "updated", "updated"]
    assert [(item.subject, item.status, item.owner, item.blocked_by) for item in by_wire] == [
        ("First", "completed", None, []),
        ("Second", "pending", "me", ["1"]),
    ]
    assert by_file == by_wire
    assert [item.subject for item in listed.ready] == ["Second"]


async def test_a_session_in_the_history(tmp_path: Any) -> None:
    scripts: Scripts = {"OUTER": [agent("inner", "INNER", run_in_background=False), text("outer report")]}
    with ScriptedModel(turn(agent("outer", "OUTER"), text("ok")), agents=scripts) as model:
        async with TaskHistory(tmp_path / "history.sqlite") as history:
            async with Client(model.options()) as client:
                history.attach(client.tasks, "session")
                with anyio.fail_after(60):
                    await client.query("go", until="idle")
                    tree = {(task.parent.id if task.parent else None, task.id) for task in client.tasks}
                    while len(await history.finished()) < 2:
                        await anyio.lowlevel.checkpoint()
            kept = await history.tree("session")
            failed = await history.finished(status="failed")
    assert {(parent, child) for parent, children in kept.items() for child in children} == tree
    assert failed == []


async def test_the_records_of_a_session_say_who_ended_its_tasks() -> None:
    def main(request: RecordedRequest) -> Any:
        seen.append("asked")
        if len(seen) == 1:
            return Reply([agent("by program", "LONG"), shell("by model", FOREVER)])
        if len(seen) == 2:
            (shell_id,) = re.findall(r"running in background with ID: (\w+)", str(request.tool_results))
            return tool_use("TaskStop", {"task_id": shell_id})
        return text("Noted.")

    seen: list[str] = []
    scripts: Scripts = {"LONG": [shell("below", FOREVER), shell("in", FOREVER, background=False)]}
    async with TaskHistory(":memory:") as history:
        with ScriptedModel(main, agents=scripts) as model:
            async with Client(model.options()) as client:
                history.attach(client.tasks, "session")
                with anyio.fail_after(60):
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
    ends = {names[record.task_id]: record for record in records if record.kind.value == "cancelled"}
    assert {name: end.details.get("by") for name, end in ends.items()} == {
        "by program": "program",
        "by model": "model",
        "below": "parent",
    }
    assert rebuilt == live
    assert [record.number for record in records] == list(range(1, len(records) + 1))
    created = {names[record.task_id]: record for record in records if record.kind.value == "created"}
    assert created["by program"].details["prompt"] == "LONG"
    assert created["below"].author == "general-purpose"


async def test_a_subagent_that_its_turn_waits_for_ends_with_the_turn() -> None:
    scripts: Scripts = {"LONG": [shell("below", FOREVER, background=False)]}
    async with TaskHistory(":memory:") as history:
        call = agent("waited for", "LONG", run_in_background=False)
        with ScriptedModel(turn(call, text("never said")), agents=scripts) as model:
            async with Client(model.options()) as client:
                history.attach(client.tasks, "session")
                with anyio.fail_after(60):
                    run = client.query("go")
                    task = await known(client, "waited for")
                    await client.tasks.until(lambda: task.activity == "Running below", task.id)
                    await run.interrupt()
                    outcome = await task
                await history.flush()
                records = await history.records("session", task.id)
    *_, last = [record for record in records if record.kind.value != "changed"]
    assert (outcome.status, outcome.ended_by) == (TaskStatus.STOPPED, "parent")
    assert (last.kind.value, last.details["by"]) == ("cancelled", "parent")

"""Permissions, questions, plans, elicitation and the inbox on the real CLI."""

import sys
from collections.abc import Callable, Coroutine
from inspect import isawaitable
from itertools import chain
from pathlib import Path
from typing import Any

import anyio
import pytest

from claude_agent_py import (
    AgentDefinition,
    Allow,
    Client,
    ClientOptions,
    Deny,
    MCPStdioServer,
    PermissionContext,
    PermissionRequest,
    RunResult,
    TaskStatus,
    guard,
    within,
)
from claude_agent_py.permissions import (
    Accept,
    AddDirectories,
    AddRules,
    Answers,
    Cancel,
    Decline,
    ElicitationRequest,
    Interaction,
    PermissionRuleValue,
    Plan,
    SetMode,
    SQLiteInbox,
    allow_tools,
    bash_commands,
    deny_tools,
    first_of,
)
from claude_agent_py.testing import Reply, ScriptedModel, text, tool_use
from claude_agent_py.tools import BashInput

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

AGENTS = {"worker": AgentDefinition(description="Works", prompt="You work.")}


def shell(command: str) -> Any:
    return Reply(tool_use("Bash", {"command": command, "description": "Run it"}))


def agent(prompt: str, *, background: bool = False) -> Any:
    call = {"description": "Work", "prompt": prompt, "subagent_type": "worker", "run_in_background": background}
    return Reply(tool_use("Agent", call))


def result_of(model: ScriptedModel, who: str = "main") -> str:
    return str(model.requests_of(who)[-1].tool_results)


def asking(model: ScriptedModel, cwd: Path, **more: Any) -> ClientOptions:
    return model.options(cwd=cwd, permission_mode="default", **more)


async def go(options: ClientOptions, prompt: str = "go") -> RunResult:
    with anyio.fail_after(60):
        async with Client(options) as client:
            return await client.query(prompt, until="idle")


# Permissions -----------------------------------------------------------------------------------------------------


async def test_allow_and_deny_for_the_main_agent_and_a_subagent(tmp_path: Path) -> None:
    asked: list[tuple[str, Any, Any]] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow | Deny:
        assert isinstance(request.input, BashInput)
        asked.append((request.input.command, request.agent_id, getattr(context.task, "id", None)))
        return Deny("not this one") if "bad" in request.input.command else Allow()

    with ScriptedModel(
        [shell("touch good1"), shell("touch bad1"), agent("Do it"), text("done")],
        agents={"Do it": [shell("touch good2"), shell("touch bad2"), text("tried")]},
    ) as model:
        with anyio.fail_after(60):
            async with Client(asking(model, tmp_path, agents=AGENTS, can_use_tool=decide)) as client:
                result = await client.query("go", until="idle")
                (task,) = client.tasks
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good1", "good2"]
    assert asked == [
        ("touch good1", None, None),
        ("touch bad1", None, None),
        ("touch good2", task.id, task.id),
        ("touch bad2", task.id, task.id),
    ]
    assert "not this one" in result_of(model, "Do it")
    assert len(result.permission_denials) == 2


async def test_a_changed_input_is_what_runs(tmp_path: Path) -> None:
    with ScriptedModel([shell("touch old"), text("done")]) as model:
        allow = Allow(updated_input=BashInput(command="touch new"))
        await go(asking(model, tmp_path, can_use_tool=lambda request, context: allow))
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


async def test_updated_permissions_hold_for_the_next_call(tmp_path: Path) -> None:
    asked: list[str] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        asked.append(request.raw_input["command"])
        rule = PermissionRuleValue.parse("Bash(touch a*)")
        return Allow(updated_permissions=[AddRules(rules=[rule], behavior="allow", destination="session")])

    with ScriptedModel([shell("touch a1"), shell("touch a2"), shell("touch b"), text("done")]) as model:
        await go(asking(model, tmp_path, can_use_tool=decide))
    assert asked == ["touch a1", "touch b"]
    assert len(list(tmp_path.iterdir())) == 3


async def test_suggestions_can_be_picked_and_given_back(tmp_path: Path) -> None:
    kinds: list[type] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        kinds.extend(type(update) for update in request.suggestions)
        rules = [update for update in request.suggestions if isinstance(update, AddRules)]
        return Allow(updated_permissions=[rule.replace(destination="session") for rule in rules])

    with ScriptedModel([shell("touch a"), shell("touch a"), text("done")]) as model:
        await go(asking(model, tmp_path, can_use_tool=decide))
    assert AddRules in kinds
    assert AddDirectories in kinds or SetMode in kinds
    assert len(model.requests_of("main")) == 3


async def test_a_denial_that_interrupts_ends_the_turn(tmp_path: Path) -> None:
    with ScriptedModel([shell("touch ran"), text("done")]) as model:
        deny = Deny("stop it", interrupt=True)
        with anyio.fail_after(60):
            async with Client(asking(model, tmp_path, can_use_tool=lambda request, context: deny)) as client:
                async for _ in client.query("go"):
                    pass
    assert len(model.requests_of("main")) == 1
    assert list(tmp_path.iterdir()) == []


async def raises(request: Any, context: Any) -> Any:
    raise RuntimeError("sk-secret")


def returns_true(request: Any, context: Any) -> Any:
    return True


def returns_the_wire_reply(request: Any, context: Any) -> Any:
    return {"behavior": "allow"}


def has_no_opinion(request: Any, context: Any) -> Any:
    return None


FAILING = [raises, returns_true, returns_the_wire_reply, has_no_opinion]


@pytest.mark.each_backend
async def test_a_dangerous_command_does_not_run_when_its_handler_fails(tmp_path: Path) -> None:
    """One handler after the other, each for a turn."""

    async def decide(request: PermissionRequest, context: PermissionContext) -> Any:
        answer = failing(request, context)
        return await answer if isawaitable(answer) else answer

    with ScriptedModel(
        [shell("touch main-ran"), agent("Do it"), text("done")] * len(FAILING),
        agents={"Do it": [shell("touch agent-ran"), text("tried")]},
    ) as model:
        with anyio.fail_after(120):
            async with Client(asking(model, tmp_path, agents=AGENTS, can_use_tool=decide)) as client:
                for failing in FAILING:
                    result = await client.query("go", until="idle")
                    assert result.text == "done", failing
                    assert list(tmp_path.iterdir()) == [], failing
    assert len(model.requests_of("Do it")) == 2 * len(FAILING)
    assert "sk-secret" not in "".join(str(request.body) for request in model.requests)


async def test_policies_compose(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)

    def write(path: Path) -> Any:
        return Reply(tool_use("Write", {"file_path": str(path), "content": "x"}))

    with ScriptedModel(
        [
            write(inside / "a"),
            write(outside / "b"),
            write(inside / "link" / "c"),
            write(inside / ".." / "out" / "d"),
            shell("touch e"),
            shell("touch f; touch g"),
            text("done"),
        ]
    ) as model:
        policy = first_of(within(inside), bash_commands(["touch e"]), allow_tools("Read"))
        options = asking(model, inside, can_use_tool=policy, additional_directories=[outside])
        await go(options)
    assert sorted(path.name for path in inside.iterdir()) == ["a", "e", "link"]
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("guarded", [False, True])
async def test_a_guard_binds_what_the_cli_approves_by_itself(tmp_path: Path, guarded: bool) -> None:
    (tmp_path / ".env").write_text("KEY=sk-secret")
    with ScriptedModel(
        [
            shell("cat .env"),
            Reply(tool_use("Read", {"file_path": str(tmp_path / ".env")})),
            agent("Do it"),
            text("done"),
        ],
        agents={"Do it": [text("ran")]},
    ) as model:
        policy = deny_tools("*", message="none of this")
        hooks = {"PreToolUse": [guard(policy)]} if guarded else {}
        await go(asking(model, tmp_path, agents=AGENTS, can_use_tool=policy, hooks=hooks))
        sent = "".join(str(request.tool_results) for request in model.requests_of("main"))
    assert ("sk-secret" in sent) != guarded
    assert ("none of this" in sent) == guarded
    assert bool(model.requests_of("Do it")) != guarded


async def test_a_guard_that_denies_everything_lets_the_output_pass(tmp_path: Path) -> None:
    script = [shell("touch ran"), Reply(tool_use("StructuredOutput", {"value": [1, 2]}))]
    with ScriptedModel(script) as model:
        hooks = {"PreToolUse": [guard(deny_tools("*"))]}
        result = await go(asking(model, tmp_path, hooks=hooks, output_type=list[int]))
    assert result.output == [1, 2]
    assert list(tmp_path.iterdir()) == []


async def test_a_call_keeps_the_input_of_the_model_and_a_hook_sees_what_ran(tmp_path: Path) -> None:
    ran: list[Any] = []

    def change(request: PermissionRequest, context: PermissionContext) -> Allow:
        return Allow(updated_input={"command": "touch changed"})

    with ScriptedModel([shell("touch asked"), text("done")]) as model:
        hooks = {"PostToolUse": [lambda input, context: ran.append(input.tool_input)]}
        result = await go(asking(model, tmp_path, can_use_tool=change, hooks=hooks))
    (call,) = result.tool_calls
    assert call.input["command"] == "touch asked"
    assert [data["command"] for data in ran] == ["touch changed"]
    assert [path.name for path in tmp_path.iterdir()] == ["changed"]


async def test_a_guard_fences_reading(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "file").write_text(f"content of {directory.name}")

    def read(path: Path) -> Any:
        return Reply(tool_use("Read", {"file_path": str(path)}))

    with ScriptedModel([read(inside / "file"), read(outside / "file"), text("done")]) as model:
        await go(asking(model, tmp_path, hooks={"PreToolUse": [guard(within(inside))]}))
        sent = "".join(str(request.tool_results) for request in model.requests_of("main"))
    assert "content of in" in sent
    assert "content of out" not in sent


async def test_an_empty_input_is_no_answer(tmp_path: Path) -> None:
    with ScriptedModel([shell("touch ran"), text("done")]) as model:
        allow = Allow(updated_input={})
        await go(asking(model, tmp_path, can_use_tool=lambda request, context: allow))
    assert list(tmp_path.iterdir()) == []


# Questions and plans ---------------------------------------------------------------------------------------------

QUESTIONS = {
    "questions": [
        {
            "question": "Which color?",
            "header": "Color",
            "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cool"}],
            "multiSelect": False,
        },
        {
            "question": "Which sizes?",
            "header": "Size",
            "options": [{"label": "S", "description": "small"}, {"label": "L", "description": "large"}],
            "multiSelect": True,
        },
    ]
}


async def test_questions_are_answered(tmp_path: Path) -> None:
    cases: list[tuple[Any, list[str]]] = [
        (Answers({"Color": "Red", "Size": ["S", "L"]}, notes={"Color": "dark"}), ["Red", "S, L"]),
        (["something in between", None], ["something in between"]),
        (None, ["did not answer"]),
        (Deny("ask me tomorrow"), ["ask me tomorrow"]),
        ({"Colour": "Red"}, ["on_question failed"]),
    ]
    seen: list[Any] = []

    async def on_question(questions: Any, context: PermissionContext) -> Any:
        seen.append([question.header for question in questions])
        return cases[len(seen) - 1][0]

    script = [Reply(tool_use("AskUserQuestion", QUESTIONS)), text("done")]
    with ScriptedModel(script * len(cases)) as model, anyio.fail_after(120):
        async with Client(asking(model, tmp_path, on_question=on_question)) as client:
            for answer, told in cases:
                await client.query("go", until="idle")
                assert all(part in result_of(model) for part in told), (answer, result_of(model))
    assert seen == [["Color", "Size"]] * len(cases)


async def test_without_a_handler_the_model_cannot_ask(tmp_path: Path) -> None:
    with ScriptedModel([text("done")]) as model:
        await go(asking(model, tmp_path, can_use_tool=lambda request, context: Allow()))
        tools = {tool["name"] for tool in model.requests_of("main")[0].body["tools"]}
    assert "Bash" in tools
    assert "AskUserQuestion" not in tools


async def test_a_plan_is_refused_and_then_approved(tmp_path: Path) -> None:
    plans: list[Plan] = []

    def on_plan(plan: Plan, context: PermissionContext) -> Any:
        plans.append(plan)
        return Deny("think again") if len(plans) == 1 else Allow()

    call = Reply(tool_use("ExitPlanMode", {"plan": "1. do it"}))
    with ScriptedModel([call, call, text("done")]) as model:
        options = model.options(cwd=tmp_path, permission_mode="plan", on_plan=on_plan)
        await go(options)
    assert len(plans) == 2
    _, refused, approved = model.requests_of("main")
    assert "think again" in str(refused.tool_results)
    assert "think again" not in str(approved.tool_results)


# Elicitation -----------------------------------------------------------------------------------------------------


async def test_a_server_asks(tmp_path: Path) -> None:
    cases: list[tuple[str, Any, list[str]]] = [
        ("form", Accept({"name": "Ada", "age": 36}), ['"accept"', '"Ada"', "36"]),
        ("form", Decline(), ['"decline"']),
        ("form", Cancel(), ['"cancel"']),
        ("form", Accept({"name": "A", "age": "old"}), ['"cancel"']),
        ("url", Accept(), ['"accept"']),
    ]
    asked: list[ElicitationRequest] = []

    def on_elicitation(request: ElicitationRequest, context: PermissionContext) -> Any:
        asked.append(request)
        return cases[len(asked) - 1][1]

    server = MCPStdioServer(command=sys.executable, args=[str(Path(__file__).with_name("eliciting_mcp_server.py"))])
    script = [[Reply(tool_use("mcp__asker__ask", {"mode": mode})), text("done")] for mode, _, _ in cases]
    with ScriptedModel(list(chain(*script))) as model, anyio.fail_after(120):
        options = asking(
            model,
            tmp_path,
            mcp_servers={"asker": server},
            allowed_tools=["mcp__asker__ask"],
            on_elicitation=on_elicitation,
            env={**model.environment(), "ENABLE_TOOL_SEARCH": "false"},
        )
        async with Client(options) as client:
            for mode, answer, told in cases:
                await client.query("go", until="idle")
                assert (asked[-1].server_name, asked[-1].mode) == ("asker", mode)
                assert list(asked[-1].form.fields) == (["name", "age"] if mode == "form" else [])
                sent = result_of(model).replace("\\", "")
                assert all(part in sent for part in told), (answer, sent)
    assert len(asked) == len(cases)


# The inbox -------------------------------------------------------------------------------------------------------


async def in_background(options: ClientOptions, person: Callable[[Client], Coroutine[Any, Any, None]]) -> TaskStatus:
    """Start a subagent whose command needs permission, let somebody answer, and give how the task ended."""
    with anyio.fail_after(60):
        async with Client(options) as client:
            run = client.query("go", until="idle")
            async with anyio.create_task_group() as group:
                group.start_soon(person, client)
                await run
            (task,) = client.tasks
            return (await task.wait()).status


def script() -> ScriptedModel:
    return ScriptedModel(
        [agent("Do it", background=True), text("started")],
        agents={"Do it": [shell("touch ran"), text("did it")]},
        on_exhausted=text("over"),
    )


async def test_a_prompt_waits_for_a_person_while_its_task_says_so(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def person(client: Client) -> None:
        async for interaction in client.interactions.arrivals():
            (task,) = client.tasks
            seen.append((interaction.kind, interaction.summary, interaction.task is task, task.status))
            assert await interaction.answer(Allow())
            return

    with script() as model:
        status = await in_background(asking(model, tmp_path, agents=AGENTS, interactions=True), person)
    assert seen == [("permission", "Bash: touch ran", True, TaskStatus.AWAITING_USER)]
    assert status is TaskStatus.COMPLETED
    assert (tmp_path / "ran").exists()


OTHER_PROCESS = """
import sys
from claude_agent_py.permissions import SQLiteInbox, read_typed
[interaction] = SQLiteInbox(sys.argv[1])
print(interaction.summary, "|", interaction.task_description)
assert interaction.resolve(read_typed(interaction, sys.argv[2:]))
"""


@pytest.mark.parametrize(("words", "runs"), [(["allow"], True), (["deny", "not", "now"], False)])
async def test_a_second_process_answers_while_the_task_waits(tmp_path: Path, words: list[str], runs: bool) -> None:
    inbox = SQLiteInbox(tmp_path / "inbox.db", poll=0.05)
    work = tmp_path / "work"
    work.mkdir()
    seen: list[Any] = []

    async def person(client: Client) -> None:
        waiting: list[Interaction] = []
        while not waiting:
            await anyio.sleep(0.05)
            waiting = list(inbox)
        seen.append([task.status for task in client.tasks])
        assert waiting[0].session_id == client.session_id is not None
        done = await anyio.run_process([sys.executable, "-c", OTHER_PROCESS, str(inbox.path), *words])
        seen.append(done.stdout.decode().strip())

    with script() as model:
        await in_background(asking(model, work, agents=AGENTS, interactions=inbox), person)
        told = result_of(model, "Do it")
    assert seen == [[TaskStatus.AWAITING_USER], "Bash: touch ran | Work"]
    assert (work / "ran").exists() == runs
    assert ("not now" in told) != runs


async def test_an_interrupt_withdraws_what_waits(tmp_path: Path) -> None:
    with ScriptedModel([shell("touch ran"), text("done")]) as model:
        with anyio.fail_after(60):
            async with Client(asking(model, tmp_path, interactions=True)) as client:
                run = client.query("go")
                interaction = await anext(client.interactions.arrivals())
                await run.interrupt()
                async for _ in run:
                    pass
                assert list(client.interactions) == []
    assert not await interaction.answer(Allow())
    assert list(tmp_path.iterdir()) == []


async def test_arrivals_end_with_the_session(tmp_path: Path) -> None:
    seen: list[str] = []

    async def watch(client: Client) -> None:
        seen.extend([interaction.id async for interaction in client.interactions.arrivals()])

    with ScriptedModel([text("done")]) as model:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                async with Client(asking(model, tmp_path, interactions=True)) as client:
                    group.start_soon(watch, client)
                    await client.query("go")
    assert seen == []

"""Permissions, questions, plans, elicitation and the inbox on the real CLI."""

import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any

import anyio
import pytest
from forks import run_program
from one_session import OneSession

from claude_agent_py import (
    AgentDefinition,
    Allow,
    Deny,
    MCPStdioServer,
    PermissionContext,
    PermissionRequest,
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
from claude_agent_py.testing import Reply, tool_use
from claude_agent_py.tools import BashInput

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

AGENTS = {"worker": AgentDefinition(description="Works", prompt="You work.")}


def shell(command: str) -> Any:
    return Reply(tool_use("Bash", {"command": command, "description": "Run it"}))


def agent(prompt: str, *, background: bool = False) -> Any:
    call = {"description": "Work", "prompt": prompt, "subagent_type": "worker", "run_in_background": background}
    return Reply(tool_use("Agent", call))


@asynccontextmanager
async def hooks_of(one: OneSession, **hooks: Any) -> AsyncIterator[None]:
    """Have a hook for each event while the block runs."""
    added = [await one.client.hooks.add(event, hook) for event, hook in hooks.items()]
    yield
    for hook in added:
        await one.client.hooks.remove(hook)


# Permissions -----------------------------------------------------------------------------------------------------


class Asking(OneSession):
    """A session whose handler of permissions is that of the check."""

    decide: Any = None

    async def handle(self, request: PermissionRequest, context: PermissionContext) -> Any:
        answer = self.decide(request, context)
        return await answer if isawaitable(answer) else answer


async def allow_and_deny_for_the_main_agent_and_a_subagent(one: Asking) -> None:
    asked: list[tuple[str, Any, Any]] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow | Deny:
        assert isinstance(request.input, BashInput)
        asked.append((request.input.command, request.agent_id, getattr(context.task, "id", None)))
        return Deny("not this one") if "bad" in request.input.command else Allow()

    one.decide = decide
    result = await one.ask(shell("touch good1"), shell("touch bad1"), agent("Do both"), "done")
    (task,) = one.client.tasks
    assert one.made() == ["good1", "good2"]
    assert asked == [
        ("touch good1", None, None),
        ("touch bad1", None, None),
        ("touch good2", task.id, task.id),
        ("touch bad2", task.id, task.id),
    ]
    assert "not this one" in one.result_of("Do both")
    assert len(result.permission_denials) == 2


async def without_a_handler_the_model_cannot_ask(one: Asking) -> None:
    await one.ask("done")
    (request,) = one.requests_of()
    assert "Bash" in request.tool_names
    assert "AskUserQuestion" not in request.tool_names


async def a_changed_input_is_what_runs_and_a_call_keeps_that_of_the_model(one: Asking) -> None:
    ran: list[Any] = []
    one.decide = lambda request, context: Allow(updated_input=BashInput(command="touch new"))
    async with hooks_of(one, PostToolUse=lambda input, context: ran.append(input.tool_input)):
        result = await one.ask(shell("touch old"), "done")
    assert one.made() == ["new"]
    (call,) = result.tool_calls
    assert call.input["command"] == "touch old"
    assert [data["command"] for data in ran] == ["touch new"]


async def an_empty_input_is_no_answer(one: Asking) -> None:
    one.decide = lambda request, context: Allow(updated_input={})
    await one.ask(shell("touch ran"), "done")
    assert one.made() == []


async def a_denial_that_interrupts_ends_the_turn(one: Asking) -> None:
    one.decide = lambda request, context: Deny("stop it", interrupt=True)
    one.answers(shell("touch ran"), "done")
    with anyio.fail_after(240):
        assert (await one.client.query("go").result()).is_error
    assert len(one.requests_of()) == 1
    assert one.made() == []


async def raises(request: Any, context: Any) -> Any:
    raise RuntimeError("sk-secret")


def returns_true(request: Any, context: Any) -> Any:
    return True


def returns_the_wire_reply(request: Any, context: Any) -> Any:
    return {"behavior": "allow"}


def has_no_opinion(request: Any, context: Any) -> Any:
    return None


async def a_dangerous_command_does_not_run_when_its_handler_fails(one: Asking) -> None:
    for failing in (raises, returns_true, returns_the_wire_reply, has_no_opinion):
        one.decide = failing
        in_agent = [agent("Do it")] if failing is raises else []
        result = await one.ask(shell("touch main-ran"), *in_agent, "done")
        assert result.text == "done", failing
        assert one.made() == [], failing
        assert len(one.requests_of("Do it")) == 2 * len(in_agent)
        assert "sk-secret" not in "".join(str(request.body) for request in one.model.requests)


async def policies_compose(one: Asking) -> None:
    root = Path(str(one.client.options.cwd))
    inside, outside = root / "in", root / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)

    def write(path: Path) -> Any:
        return Reply(tool_use("Write", {"file_path": str(path), "content": "x"}))

    one.decide = first_of(within(inside), bash_commands(["touch e"]), allow_tools("Read"))
    await one.ask(
        write(inside / "a"),
        write(outside / "b"),
        write(inside / "link" / "c"),
        write(inside / ".." / "out" / "d"),
        shell("touch e"),
        shell("touch f; touch g"),
        "done",
    )
    assert one.made() == ["e"]
    assert sorted(path.name for path in inside.iterdir()) == ["a", "link"]
    assert list(outside.iterdir()) == []


async def a_guard_binds_what_the_cli_approves_by_itself(one: Asking) -> None:
    policy = deny_tools("*", message="none of this")
    one.decide = policy
    for is_guarded in (False, True):
        secret = Path(str(one.client.options.cwd)) / f"{is_guarded}.env"  # what was read before is not read again
        secret.write_text("KEY=sk-key")
        async with hooks_of(one, **({"PreToolUse": guard(policy)} if is_guarded else {})):
            read = Reply(tool_use("Read", {"file_path": str(secret)}))
            await one.ask(shell(f"cat {secret.name}"), read, agent("Run"), "done")
        sent = "".join(str(request.tool_results) for request in one.requests_of()[1:])
        assert ("sk-key" in sent) != is_guarded
        assert ("none of this" in sent) == is_guarded
        assert bool(one.requests_of("Run")) != is_guarded
        one.made()


async def a_guard_fences_reading(one: Asking) -> None:
    root = Path(str(one.client.options.cwd))
    inside, outside = root / "near", root / "far"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "file").write_text(f"content of {directory.name}")

    def read(path: Path) -> Any:
        return Reply(tool_use("Read", {"file_path": str(path)}))

    async with hooks_of(one, PreToolUse=guard(within(inside))):
        await one.ask(read(inside / "file"), read(outside / "file"), "done")
    sent = "".join(str(request.tool_results) for request in one.requests_of())
    assert "content of near" in sent
    assert "content of far" not in sent


async def updated_permissions_hold_for_the_next_call(one: Asking) -> None:
    asked: list[str] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        asked.append(request.raw_input["command"])
        rule = PermissionRuleValue.parse("Bash(touch a*)")
        return Allow(updated_permissions=[AddRules(rules=[rule], behavior="allow", destination="session")])

    one.decide = decide
    await one.ask(shell("touch a1"), shell("touch a2"), shell("touch b"), "done")
    assert asked == ["touch a1", "touch b"]
    assert one.made() == ["a1", "a2", "b"]


async def suggestions_can_be_picked_and_given_back(one: Asking) -> None:
    kinds: list[type] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        kinds.extend(type(update) for update in request.suggestions)
        rules = [update for update in request.suggestions if isinstance(update, AddRules)]
        return Allow(updated_permissions=[rule.replace(destination="session") for rule in rules])

    one.decide = decide
    await one.ask(shell("touch z"), shell("touch z"), "done")
    assert AddRules in kinds
    assert AddDirectories in kinds or SetMode in kinds
    assert kinds.count(AddRules) == 1  # not asked again
    assert len(one.requests_of()) == 3


async def test_decisions_of_permission_handlers_in_one_session() -> None:
    one = Asking(
        agents={
            "Do both": [shell("touch good2"), shell("touch bad2"), "tried"],
            "Do it": [shell("touch agent-ran"), "tried"],
            "Run": "ran",
        }
    )
    async with one.open(permission_mode="default", agents=AGENTS, can_use_tool=one.handle):
        for check in (
            allow_and_deny_for_the_main_agent_and_a_subagent,
            without_a_handler_the_model_cannot_ask,
            a_changed_input_is_what_runs_and_a_call_keeps_that_of_the_model,
            an_empty_input_is_no_answer,
            a_denial_that_interrupts_ends_the_turn,
            a_dangerous_command_does_not_run_when_its_handler_fails,
            policies_compose,
            a_guard_binds_what_the_cli_approves_by_itself,
            a_guard_fences_reading,
            updated_permissions_hold_for_the_next_call,  # for all that follow, too
            suggestions_can_be_picked_and_given_back,
        ):
            await check(one)


async def test_a_guard_that_denies_everything_lets_the_output_pass() -> None:
    one = OneSession()
    hooks = {"PreToolUse": [guard(deny_tools("*"))]}
    async with one.open(permission_mode="default", hooks=hooks, output_type=list[int]):
        result = await one.ask(shell("touch ran"), Reply(tool_use("StructuredOutput", {"value": [1, 2]})))
        assert result.output == [1, 2]
        assert one.made() == []


# Questions, plans and elicitation ---------------------------------------------------------------------------------

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


ANSWERS: list[tuple[Any, list[str]]] = [
    (Answers({"Color": "Red", "Size": ["S", "L"]}, notes={"Color": "dark"}), ["Red", "S, L"]),
    (["something in between", None], ["something in between"]),
    (None, ["did not answer"]),
    (Deny("ask me tomorrow"), ["ask me tomorrow"]),
    ({"Colour": "Red"}, ["on_question failed"]),
]
"""What a handler answers, and what the model is told of it."""

ELICITED: list[tuple[str, Any, list[str]]] = [
    ("form", Accept({"name": "Ada", "age": 36}), ['"accept"', '"Ada"', "36"]),
    ("form", Decline(), ['"decline"']),
    ("form", Cancel(), ['"cancel"']),
    ("form", Accept({"name": "A", "age": "old"}), ['"cancel"']),
    ("url", Accept(), ['"accept"']),
]
"""How a server asks, what a handler answers, and what the server says that it was told."""


async def test_a_server_asks_questions_are_answered_and_a_plan_is_refused_and_then_approved() -> None:
    asked: list[ElicitationRequest] = []
    seen: list[Any] = []
    plans: list[Plan] = []

    def on_elicitation(request: ElicitationRequest, context: PermissionContext) -> Any:
        asked.append(request)
        return ELICITED[len(asked) - 1][1]

    async def on_question(questions: Any, context: PermissionContext) -> Any:
        seen.append([question.header for question in questions])
        return ANSWERS[len(seen) - 1][0]

    def on_plan(plan: Plan, context: PermissionContext) -> Any:
        plans.append(plan)
        return Deny("think again") if len(plans) == 1 else Allow()

    server = MCPStdioServer(command=sys.executable, args=[str(Path(__file__).with_name("eliciting_mcp_server.py"))])
    one = OneSession()
    async with one.open(
        permission_mode="default",
        mcp_servers={"asker": server},
        allowed_tools=["mcp__asker__ask"],
        on_elicitation=on_elicitation,
        on_question=on_question,
        on_plan=on_plan,
        env={"ENABLE_TOOL_SEARCH": "false"},
    ) as client:
        for mode, elicited, told in ELICITED:
            await one.ask(Reply(tool_use("mcp__asker__ask", {"mode": mode})), "done")
            assert (asked[-1].server_name, asked[-1].mode) == ("asker", mode)
            assert list(asked[-1].form.fields) == (["name", "age"] if mode == "form" else [])
            sent = one.result_of().replace("\\", "")
            assert all(part in sent for part in told), (elicited, sent)
        assert len(asked) == len(ELICITED)

        for answer, told in ANSWERS:
            await one.ask(Reply(tool_use("AskUserQuestion", QUESTIONS)), "done")
            assert all(part in one.result_of() for part in told), (answer, one.result_of())
        assert seen == [["Color", "Size"]] * len(ANSWERS)

        await client.set_permission_mode("plan")
        call = Reply(tool_use("ExitPlanMode", {"plan": "1. do it"}))
        await one.ask(call, call, "done")
        assert len(plans) == 2
        _, refused, approved = one.requests_of()
        assert "think again" in str(refused.tool_results[-1])
        assert "think again" not in str(approved.tool_results[-1])


@pytest.mark.parametrize(
    "earlier", [pytest.param(each, marks=pytest.mark.long) for each in ("bypassPermissions", "acceptEdits")]
)
async def test_an_approved_plan_runs_in_the_mode_default_whatever_the_mode_was_before(earlier: Any) -> None:
    asked: list[str] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        asked.append(request.tool_name)
        return Allow()

    one = OneSession()
    handlers = {"can_use_tool": decide, "on_plan": lambda plan, context: Allow()}
    async with one.open(permission_mode="default", allow_dangerously_skip_permissions=True, **handlers):
        await one.client.set_permission_mode(earlier)
        await one.client.set_permission_mode("plan")
        await one.ask(Reply(tool_use("ExitPlanMode", {"plan": "1. do it"})), shell("touch ran"), "done")
    assert asked == ["Bash"]


# The inbox -------------------------------------------------------------------------------------------------------


IN_BACKGROUND: dict[str, Any] = {"Do it": [shell("touch ran"), "did it"]}


async def person_answers(one: OneSession, person: Callable[[], Coroutine[Any, Any, None]]) -> TaskStatus:
    """Start a subagent whose command needs permission, let somebody answer, and return how the task ended."""
    async with anyio.create_task_group() as group:
        group.start_soon(person)
        await one.ask(agent("Do it", background=True), "started", "over")
    with anyio.fail_after(240):
        return (await list(one.client.tasks)[-1].wait()).status


async def test_a_prompt_waits_for_a_person_until_an_interrupt_withdraws_it() -> None:
    seen: list[Any] = []
    late: list[str] = []
    one = OneSession(agents=IN_BACKGROUND)

    async def person() -> None:
        async for interaction in one.client.interactions.arrivals():
            (task,) = one.client.tasks
            seen.append((interaction.kind, interaction.summary, interaction.task is task, task.status))
            assert await interaction.answer(Allow())
            return

    async def watch() -> None:
        late.extend([interaction.id async for interaction in one.client.interactions.arrivals()])

    with anyio.fail_after(240):
        async with anyio.create_task_group() as group:
            async with one.open(permission_mode="default", agents=AGENTS, interactions=True) as client:
                status = await person_answers(one, person)
                assert seen == [("permission", "Bash: touch ran", True, TaskStatus.AWAITING_USER)]
                assert status is TaskStatus.COMPLETED
                assert one.made() == ["ran"]

                one.answers(shell("touch ran"), "done")
                run = client.query("go")
                interaction = await anext(client.interactions.arrivals())
                await run.interrupt()
                async for _ in run:
                    pass
                assert list(client.interactions) == []
                assert not await interaction.answer(Allow())
                assert one.made() == []

                group.start_soon(watch)  # its arrivals end with the session
                await one.ask("done")
    assert late == []


OTHER_PROCESS = """
import sys
from claude_agent_py.permissions import read_typed
from claude_agent_py.permissions import SQLiteInbox
[interaction] = SQLiteInbox(sys.argv[1])
print(interaction.summary, "|", interaction.task_description)
assert interaction.resolve(read_typed(interaction, sys.argv[2:]))
"""


async def test_a_second_process_answers_while_the_task_waits(tmp_path: Path) -> None:
    inbox = SQLiteInbox(tmp_path / "inbox.db", poll=0.05)
    seen: list[Any] = []
    one = OneSession(agents=IN_BACKGROUND)
    words: list[str] = []

    async def person() -> None:
        waiting: list[Interaction] = []
        while not waiting:
            await anyio.sleep(0.05)
            waiting = list(inbox)
        seen.append(list(one.client.tasks)[-1].status)
        assert waiting[0].session_id == one.client.session_id is not None
        command = [sys.executable, "-c", OTHER_PROCESS, str(inbox.path), *words]
        done = await anyio.to_thread.run_sync(run_program, command)
        seen.append(done.stdout.strip())

    async with one.open(permission_mode="default", agents=AGENTS, interactions=inbox):
        for answer, ran in (("allow", True), ("deny not now", False)):
            words[:] = answer.split()
            await person_answers(one, person)
            assert seen == [TaskStatus.AWAITING_USER, "Bash: touch ran | Work"]
            assert one.made() == (["ran"] if ran else [])
            assert ("not now" in one.result_of("Do it")) != ran
            seen.clear()

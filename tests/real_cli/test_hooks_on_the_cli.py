"""Hooks on the real CLI: every effect an answer can have, and what a failing guard lets through (nothing)."""

import shlex
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from bounds import set_bound
from one_session import OneSession

from claude_agent_py import (
    AgentDefinition,
    Allow,
    Client,
    Deny,
    HookContext,
    HookMatcher,
    Hooks,
    PermissionRequest,
    RunResult,
    SubagentStopInput,
    SubagentStopOutput,
)
from claude_agent_py.errors import ConnectionClosedError, HookStoppedError
from claude_agent_py.hooks import (
    HOOK_EVENT_FACTS,
    HookInput,
    HookOutput,
    HookRun,
    PermissionRequestOutput,
    PostToolBatchOutput,
    PostToolUseInput,
    PostToolUseOutput,
    PreToolUseInput,
    PreToolUseOutput,
    StopInput,
    StopOutput,
    SubagentStartInput,
    SubagentStartOutput,
    UnknownHookInput,
    UserPromptSubmitOutput,
    WorktreeCreateOutput,
)
from claude_agent_py.testing import RecordedRequest, Reply, ScriptedModel, text, tool_use
from claude_agent_py.tools import BashInput, BashOutput

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

AGENTS = {"worker": AgentDefinition(description="Works", prompt="You work.")}


def shell(command: str) -> Any:
    return Reply(tool_use("Bash", {"command": command, "description": "Run it"}))


def agent(prompt: str, *, background: bool = False) -> Any:
    call = {"description": "Work", "prompt": prompt, "subagent_type": "worker", "run_in_background": background}
    return Reply(tool_use("Agent", call))


def heard(request: RecordedRequest) -> str:
    """Return all that the model was sent, as text."""
    return str(request.body)


def result_of(model: ScriptedModel, who: str = "main") -> str:
    """Return the last tool result that the model was sent, as text."""
    return str(model.requests_of(who)[-1].tool_results)


@asynccontextmanager
async def hooks_of(one: OneSession, **hooks: list[Any]) -> AsyncIterator[None]:
    """Have hooks while the block runs."""
    added = [await one.client.hooks.add(event, hook) for event, some in hooks.items() for hook in some]
    yield
    for hook in added:
        await one.client.hooks.remove(hook)


# A guard that fails ----------------------------------------------------------------------------------------------


async def raises(input: HookInput, context: HookContext) -> None:
    raise RuntimeError("sk-secret")


def raises_in_a_thread(input: HookInput, context: HookContext) -> None:
    raise RuntimeError("sk-secret")


async def is_too_slow(input: HookInput, context: HookContext) -> None:
    await anyio.sleep_forever()


async def is_late_and_lets_through(input: HookInput, context: HookContext) -> None:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        return  # as if it had an answer


async def blocks_the_loop_and_lets_through(input: HookInput, context: HookContext) -> None:
    time.sleep(0.6)


def returns_rubbish(input: HookInput, context: HookContext) -> Any:
    return "deny"


def returns_a_misspelt_denial(input: HookInput, context: HookContext) -> Any:
    return {"permissionDecison": "deny"}


def returns_the_answer_of_another_event(input: HookInput, context: HookContext) -> Any:
    return StopOutput(decision="block")


class TheEnd(BaseException):
    """Not an Exception, and nothing that a program ends by."""


async def ends_it_all(input: HookInput, context: HookContext) -> None:
    raise TheEnd


FAILING = [
    raises,
    ends_it_all,
    raises_in_a_thread,
    is_too_slow,
    is_late_and_lets_through,
    blocks_the_loop_and_lets_through,
    returns_rubbish,
    returns_a_misspelt_denial,
    returns_the_answer_of_another_event,
]


async def test_a_dangerous_command_does_not_run_when_its_guard_fails(tmp_path: Path) -> None:
    """The first is an option; the others take its place one after the other, each for a turn.

    Two of them are asked about the call of a subagent, too.
    """
    in_agent = FAILING[:2]
    script = [
        answer
        for guard in FAILING
        for answer in (shell("touch main-ran"), *([agent("Do it")] if guard in in_agent else []), text("done"))
    ]
    with ScriptedModel(script, agents={"Do it": [shell("touch agent-ran"), text("tried")]}) as model:
        matcher = HookMatcher("Bash", FAILING[0], timeout=0.5)
        options = model.options(
            cwd=tmp_path, agents=AGENTS, permission_mode="bypassPermissions", hooks={"PreToolUse": [matcher]}
        )
        with anyio.fail_after(240):
            async with Client(options) as client:
                for guard in FAILING:
                    before = len(client.handler_errors)
                    if guard is not FAILING[0]:
                        assert await client.hooks.remove(matcher)
                        matcher = await client.hooks.add("PreToolUse", HookMatcher("Bash", guard, timeout=0.5))
                    result = await client.query("go", until="idle")
                    name = guard.__name__
                    assert result.text == "done", name
                    assert list(tmp_path.iterdir()) == [], name
                    (call,) = [call for call in result.tool_calls if call.name == "Bash" and call.agent_id is None]
                    assert "failed" in call.text, name
                    asked = 2 if guard in in_agent else 1
                    assert [name in error.handler for error in client.handler_errors[before:]] == [True] * asked
    of_agent = model.requests_of("Do it")
    assert ["failed" in str(request.tool_results) for request in of_agent] == [False, True] * len(in_agent)
    assert "sk-secret" not in "".join(map(heard, model.requests))


# What PreToolUse can do ------------------------------------------------------------------------------------------


async def test_hook_decisions_about_calls_and_subagents() -> None:
    """One session, a turn for each answer of the hook; in the last ones a subagent is kept from stopping."""
    outputs: list[PreToolUseOutput] = []
    seen: list[PreToolUseInput] = []
    asked: list[PermissionRequest] = []
    withdrawn: list[bool] = []

    def hook(input: PreToolUseInput, context: HookContext) -> Any:
        seen.append(input)
        return outputs[-1]

    async def decide(request: PermissionRequest, context: Any) -> Allow | Deny:
        asked.append(request)
        if request.raw_input["command"] == "touch unasked":
            try:
                await anyio.sleep_forever()
            finally:
                withdrawn.append(context.cancelled)
        return Deny("the handler says no") if request.decision_reason_type == "hook" else Allow()

    hooks = Hooks()
    hooks.pre_tool_use("Bash")(hook)
    tasks: list[Any] = []

    @hooks.subagent_start("worker")
    def start(input: SubagentStartInput, context: HookContext) -> SubagentStartOutput:
        return SubagentStartOutput(additional_context="be brief")

    @hooks.subagent_stop
    def stop(input: SubagentStopInput, context: HookContext) -> SubagentStopOutput | None:
        tasks.append((context.agent_id, getattr(context.task, "id", None), input.agent_type))
        return None if input.stop_hook_active else SubagentStopOutput(decision="block", reason="look twice")

    one = OneSession(agents={"Do it": ["first", "second"]})
    async with one.open(permission_mode="default", can_use_tool=decide, agents=AGENTS, hooks=hooks) as client:

        async def after(**output: Any) -> RunResult:
            outputs.append(PreToolUseOutput(**output))
            return await one.ask(shell("touch old"), "done")

        result = await after(permission_decision="deny", permission_decision_reason="not today")
        assert "not today" in one.result_of()
        assert len(result.permission_denials) == 1
        assert (one.made(), asked) == ([], [])

        await after(permission_decision="allow")
        assert (one.made(), asked) == (["old"], [])

        await after(permission_decision="ask", permission_decision_reason="look at it")
        assert "the handler says no" in one.result_of()
        assert [(request.decision_reason_type, request.tool_name) for request in asked] == [("hook", "Bash")]
        assert one.made() == []

        await after(permission_decision="allow", updated_input=BashInput(command="touch new"))
        assert (one.made(), len(asked)) == (["new"], 1)

        await after(updated_input={"command": "touch newer"})
        assert (one.made(), len(asked)) == (["newer"], 2)
        assert asked[-1].raw_input["command"] == "touch newer"

        result = await after(
            permission_decision="allow", additional_context="the moon is full", system_message="look out"
        )
        assert "the moon is full" in heard(one.requests_of()[-1])
        assert "look out" in str(list(result.messages))
        assert [input.typed_input() for input in seen] == [BashInput(command="touch old", description="Run it")] * 6
        one.made()

        def answer(input: HookInput, context: HookContext) -> PermissionRequestOutput:
            return PermissionRequestOutput(behavior="allow", updated_input={"command": "touch new", "description": "d"})

        async with hooks_of(one, PermissionRequest=[HookMatcher("Bash", answer)]):
            await after(updated_input={"command": "touch unasked"})
        assert one.made() == ["new"]
        assert withdrawn == [True]

        for background in (False, True):
            await one.ask(agent("Do it", background=background), "done")
            task = list(client.tasks)[-1]
            requests = one.requests_of("Do it")
            assert task.is_backgrounded is background
            assert "be brief" in heard(requests[0])
            assert "look twice" in heard(requests[-1])
            assert (await task.wait(timeout=60)).summary == "second"
            assert tasks[-2:] == [(task.id, task.id, "worker")] * 2
    assert len(tasks) == 4


# What an answer can do -------------------------------------------------------------------------------------------


async def a_prompt_is_not_sent_when_its_guard_fails(one: OneSession) -> None:
    async with hooks_of(one, UserPromptSubmit=[raises]):
        with pytest.raises(HookStoppedError):
            await one.ask("answered")
    assert one.requests_of() == []


async def a_hook_that_may_fail_lets_the_command_run(one: OneSession) -> None:
    async with hooks_of(one, PreToolUse=[HookMatcher("Bash", raises, on_failure="continue")]):
        await one.ask(shell("touch ran"), "done")
    assert one.made() == ["ran"]


async def an_interrupt_cancels_a_handler_and_the_command_does_not_run(one: OneSession) -> None:
    asked, over = anyio.Event(), []

    async def thinks(input: PreToolUseInput, context: HookContext) -> None:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            over.append(context.cancelled)

    async with hooks_of(one, PreToolUse=[thinks]):
        one.answers(shell("touch ran"), "done")
        with anyio.fail_after(240):
            run = one.client.query("go")
            await asked.wait()
            await run.interrupt()
            async for _ in run:
                pass
    assert over == [True]
    assert one.made() == []


async def stopping_ends_the_turn_before_the_tool(one: OneSession) -> None:
    seen: list[str] = []

    def hook(input: HookInput, context: HookContext) -> HookOutput:
        seen.append(context.event)
        return HookOutput(continue_=False, stop_reason="enough")

    async with hooks_of(one, PreToolUse=[hook]):
        with pytest.raises(HookStoppedError):
            await one.ask(shell("touch ran"), "done")
    assert seen == ["PreToolUse"]
    assert one.made() == []
    assert len(one.requests_of()) == 1


async def the_strictest_of_several_wins(one: OneSession) -> None:
    def allow(input: HookInput, context: HookContext) -> PreToolUseOutput:
        return PreToolUseOutput(permission_decision="allow")

    def deny(input: HookInput, context: HookContext) -> PreToolUseOutput:
        return PreToolUseOutput(permission_decision="deny", permission_decision_reason="one is enough")

    async with hooks_of(one, PreToolUse=[allow, HookMatcher("Bash", [allow, deny])]):
        await one.ask(shell("touch ran"), "done")
    assert "one is enough" in one.result_of()
    assert one.made() == []


async def a_guard_sees_the_input_before_another_hook_changed_it(one: OneSession) -> None:
    commands: list[str] = []

    def guard(input: PreToolUseInput, context: HookContext) -> PreToolUseOutput | None:
        commands.append(input.tool_input["command"])
        return PreToolUseOutput(permission_decision="deny") if "new" in commands[-1] else None

    def change(input: PreToolUseInput, context: HookContext) -> PreToolUseOutput:
        return PreToolUseOutput(updated_input={"command": "touch new"})

    async with hooks_of(one, PreToolUse=[change, guard]):
        await one.ask(shell("touch old"), "done")
    assert commands == ["touch old"]
    assert one.made() == ["new"]  # as docs/hooks.md warns


async def changing_the_hooks_withdraws_those_that_are_pending(one: OneSession) -> None:
    asked, changed = anyio.Event(), anyio.Event()
    output: Any = {"permission_decision": "deny"}

    async def hook(input: HookInput, context: HookContext) -> Any:
        asked.set()
        await changed.wait()
        return output

    async def change() -> None:
        await asked.wait()
        added = await one.client.hooks.add("Notification", lambda input, context: None)
        changed.set()
        await one.client.hooks.remove(added)

    for event, lets in (("PreToolUse", False), ("PostToolUse", True)):
        async with hooks_of(one, **{event: [hook]}), anyio.create_task_group() as group:
            group.start_soon(change)
            await one.ask(shell("touch ran; echo the-output"), "done")
        assert (one.made() == ["ran"]) is lets, event
        assert ("the-output" in one.result_of()) is lets, event
        asked, changed, output = anyio.Event(), anyio.Event(), {"updated_tool_output": "gone"}


async def changing_the_hooks_withholds_the_outputs_that_wait_for_a_redaction(one: OneSession) -> None:
    async def change(input: HookInput, context: HookContext) -> None:
        group.start_soon(one.client.hooks.add, "Notification", lambda input, context: None)
        await anyio.sleep_forever()

    redaction = HookMatcher(None, change, on_failure="block")
    async with hooks_of(one, PostToolUse=[redaction]), anyio.create_task_group() as group:
        await one.ask(shell("echo $((4200 + 42))"), "done")
    assert "withheld" in one.result_of()
    assert "4242" not in one.result_of()


async def closing_lets_no_output_pass_that_waits_for_a_redaction(one: OneSession) -> None:
    async def close(input: HookInput, context: HookContext) -> None:
        group.start_soon(one.client.close)
        await anyio.sleep_forever()

    await one.client.hooks.add("PostToolUse", close)
    async with anyio.create_task_group() as group:
        with pytest.raises(ConnectionClosedError):
            await one.ask(shell("echo $((4200 + 42))"), "done")
    assert len(one.requests_of()) == 1


async def after_a_tool_its_output_can_be_changed_and_commented(one: OneSession) -> None:
    seen: list[Any] = []

    def change(input: PostToolUseInput, context: HookContext) -> PostToolUseOutput:
        seen.append(input.typed_output())
        output = dict(input.tool_response, stdout="[removed]")
        return PostToolUseOutput(updated_tool_output=output, additional_context="it was long")

    async with hooks_of(one, PostToolUse=[HookMatcher("Bash", change)]):
        await one.ask(shell("echo secret-key"), "done")
    (output,) = seen
    assert isinstance(output, BashOutput)
    assert output.stdout == "secret-key"
    last = one.requests_of()[-1]
    assert "[removed]" in str(last.tool_results)
    assert "it was long" in heard(last)


def no_text(input: HookInput, context: HookContext) -> PostToolUseOutput:
    return PostToolUseOutput(updated_tool_output={"stdout": ""})


def a_text(input: HookInput, context: HookContext) -> PostToolUseOutput:
    return PostToolUseOutput(updated_tool_output="[removed]")


async def the_model_does_not_read_what_a_redaction_was_to_hide(one: OneSession) -> None:
    redactions = [
        (HookMatcher(None, raises, on_failure="block"), "withheld"),
        (HookMatcher(None, no_text), "withheld"),
        (HookMatcher(None, a_text), "[removed]"),
    ]
    for number, (redact, read) in enumerate(redactions):  # what was read before is not read again
        key = Path(str(one.client.options.cwd), f"key{number}")
        key.write_text("secret-word")
        async with hooks_of(one, PostToolUse=[redact]):
            await one.ask(shell(f"cat {key.name}"), Reply(tool_use("Read", {"file_path": str(key)})), "done")
        requests = one.requests_of()
        assert len(requests) == 3
        assert [read in str(request.tool_results[-1]) for request in requests[1:]] == [True, True], read
        assert "secret-word" not in heard(requests[-1]), read
    one.made()


async def a_redaction_that_comes_late_withholds_the_output(one: OneSession) -> None:
    async def blocks_the_loop(input: HookInput, context: HookContext) -> None:
        time.sleep(1.5)

    with pytest.MonkeyPatch.context() as patch:
        set_bound(patch, "GRACE", 0)  # where a failure does not block, the CLI would wait for one second
        async with hooks_of(one, PostToolUse=[HookMatcher(None, blocks_the_loop, timeout=0.1, on_failure="block")]):
            await one.ask(shell("echo $((4200 + 42))"), "done")
    assert "withheld" in one.result_of()
    assert "4242" not in one.result_of()


async def a_batch_can_end_the_turn(one: OneSession) -> None:
    def stop(input: HookInput, context: HookContext) -> PostToolBatchOutput:
        return PostToolBatchOutput(decision="block", reason="that will do")

    async with hooks_of(one, PostToolBatch=[stop]):
        with pytest.raises(HookStoppedError):
            await one.ask(shell("true"), "done")
    assert len(one.requests_of()) == 1


async def a_prompt_can_be_blocked_or_added_to(one: OneSession) -> None:
    def check(input: Any, context: HookContext) -> UserPromptSubmitOutput:
        if "password" in input.prompt:
            return UserPromptSubmitOutput(decision="block", reason="no passwords")
        return UserPromptSubmitOutput(additional_context="it is Friday")

    async with hooks_of(one, UserPromptSubmit=[check]):
        with pytest.raises(HookStoppedError, match="no passwords"):
            await one.ask("never said", prompt="my password is x")
        assert one.requests_of() == []
        result = await one.ask("hello", prompt="hi")
    assert result.text == "hello"
    assert "it is Friday" in heard(one.requests_of()[0])


async def the_end_of_a_turn_can_be_put_off(one: OneSession) -> None:
    seen: list[bool] = []

    def stop(input: StopInput, context: HookContext) -> StopOutput | None:
        seen.append(input.stop_hook_active)
        return None if input.stop_hook_active else StopOutput(decision="block", reason="check it again")

    async with hooks_of(one, Stop=[stop]):
        result = await one.ask("first", "second")
    assert result.text == "second"
    assert seen == [False, True]
    assert "check it again" in heard(one.requests_of()[-1])


async def hook_events_say_which_handler_ran(one: OneSession) -> None:
    async def look(input: PreToolUseInput, context: HookContext) -> None:
        """No opinion."""

    messages = one.client.messages()
    async with hooks_of(one, PreToolUse=[look]):
        await one.ask(shell("true"), "done")
    async for ran in messages:
        if isinstance(ran, HookRun) and "look" in ran.handler:
            break
    assert isinstance(ran, HookRun)
    assert (ran.event, ran.error, ran.output) == ("PreToolUse", None, {})


async def a_worktree_is_where_the_hook_made_it(one: OneSession) -> None:
    place = Path(str(one.client.options.cwd)) / "elsewhere"

    def make(input: Any, context: HookContext) -> WorktreeCreateOutput:
        place.mkdir()
        return WorktreeCreateOutput(worktree_path=str(place))

    async with hooks_of(one, WorktreeCreate=[make]):
        await one.ask(Reply(tool_use("EnterWorktree", {"name": "w"})), shell("touch here"), "done")
    assert (place / "here").exists()


NOTEBOOK = """{"cells": [{"cell_type": "code", "id": "a", "source": ["secret-key"], "metadata": {}, "outputs": [],
 "execution_count": null}], "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}"""


async def the_output_of_every_tool_is_withheld_in_a_shape_that_the_cli_takes(one: OneSession) -> None:
    folder = Path(str(one.client.options.cwd))
    (folder / "key").write_text("secret-key")
    (folder / "secret-key.txt").write_text("secret-key")
    (folder / "n.ipynb").write_text(NOTEBOOK)
    worker = {"description": "Work", "prompt": "Say it", "subagent_type": "general-purpose", "run_in_background": False}
    search = {"pattern": "secret", "path": str(folder)}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"file_path": str(folder / "key")}),
        ("Read", {"file_path": str(folder / "n.ipynb")}),
        ("Grep", {**search, "output_mode": "content"}),
        ("Grep", {**search, "output_mode": "count"}),
        ("Grep", search),
        ("Glob", {"pattern": "*.txt", "path": str(folder)}),
        ("Bash", {"command": "cat key", "description": "Read it"}),
        ("Agent", worker),
    ]
    async with hooks_of(one, PostToolUse=[HookMatcher(None, raises, on_failure="block")]):
        await one.ask(Reply([tool_use(name, data) for name, data in calls]), "done")
    results = one.requests_of()[-1].tool_results
    assert len(results) == len(calls)
    for (name, data), result in zip(calls, results, strict=True):
        assert "withheld" in str(result["content"]), (name, data, result)
        assert "secret-key" not in str(result["content"]), (name, data, result)
    one.made()


async def test_effects_of_hook_answers_in_one_session() -> None:
    one = OneSession(agents={"Say it": "the secret-key"})
    tools = ["Read", "Grep", "Glob", "Bash", "Agent", "EnterWorktree"]
    async with one.open(include_hook_events=True, tools=tools):
        for check in (
            a_prompt_is_not_sent_when_its_guard_fails,
            a_hook_that_may_fail_lets_the_command_run,
            an_interrupt_cancels_a_handler_and_the_command_does_not_run,
            stopping_ends_the_turn_before_the_tool,
            the_strictest_of_several_wins,
            a_guard_sees_the_input_before_another_hook_changed_it,
            changing_the_hooks_withdraws_those_that_are_pending,
            changing_the_hooks_withholds_the_outputs_that_wait_for_a_redaction,
            after_a_tool_its_output_can_be_changed_and_commented,
            the_model_does_not_read_what_a_redaction_was_to_hide,
            a_redaction_that_comes_late_withholds_the_output,
            the_output_of_every_tool_is_withheld_in_a_shape_that_the_cli_takes,
            a_batch_can_end_the_turn,
            a_prompt_can_be_blocked_or_added_to,
            the_end_of_a_turn_can_be_put_off,
            hook_events_say_which_handler_ran,
            a_worktree_is_where_the_hook_made_it,  # the session is in it from here on
            closing_lets_no_output_pass_that_waits_for_a_redaction,
        ):
            await check(one)


@pytest.mark.long
async def test_hooks_of_the_options_select_their_tools() -> None:
    """By every pattern, and one in the shape of the official SDK beside them."""
    counts: Counter[str] = Counter()
    seen: list[Any] = []

    def counting(name: str) -> Any:
        return lambda input, context: counts.update([name])

    async def callback(input_data: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        seen.append((input_data["tool_name"], tool_use_id))
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": "as ever",
            }
        }

    fitting = ["Bash", "Bash|Read", "^Ba.*", "*", "", None, "Write , Bash"]
    fitting += [r"\x42[^\d]sh$", "^(?<tool>B)a(?:sh|d)", r"(?!R)\u0042\w{3}", "(?<=B)ash", r"\bBash\b"]
    others = ["Read", "^(?!Bash)", r"Bash\S", "[^B]ash"]
    hooks: list[Any] = [HookMatcher(pattern, counting(str(pattern))) for pattern in (*fitting, *others)]
    for pattern in (
        "Bash\\",
        "[]B]ash",
        r"\U00000042ash",
        r"Bash\z",
        "(?<=R)*Bash",
        "(?i)bash",
    ):
        hooks.append(HookMatcher(None, counting(pattern)))
        hooks[-1].pattern = pattern  # past the check: this is why it is there
    hooks.append({"matcher": "Bash", "hooks": [callback], "timeout": 30})
    one = OneSession()
    async with one.open(hooks={"PreToolUse": hooks}):
        await one.ask(shell("touch ran"), "done")
        assert one.made() == []
    assert set(counts) == {str(pattern) for pattern in fitting}
    assert "as ever" in one.result_of()
    assert seen[0][0] == "Bash"
    assert seen[0][1]


GUARD = """
import json, sys
from claude_agent_py.hooks import PreToolUseInput, PreToolUseOutput, parse_hook_input

input = parse_hook_input(json.load(sys.stdin))
if isinstance(input, PreToolUseInput) and "ran" in input.tool_input["command"]:
    denial = PreToolUseOutput(permission_decision="deny", permission_decision_reason="Not that.")
    print(json.dumps(denial.to_wire()))
"""


async def test_a_program_that_settings_name_as_a_hook_reads_and_writes_these_models(tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text(GUARD)
    hook = {"type": "command", "command": shlex.join([sys.executable, str(tmp_path / "guard.py")])}
    one = OneSession()
    async with one.open(settings={"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}):
        await one.ask(shell("touch ran"), "done")
        assert one.made() == []
        assert "Not that." in one.result_of()
        await one.ask(shell("touch other"), "done")
        assert one.made() == ["other"]


# Which events come -----------------------------------------------------------------------------------------------


async def test_the_events_that_can_be_caused_here_come_and_are_typed(tmp_path: Path) -> None:
    seen: dict[str, HookInput] = {}
    hooks = Hooks()
    for event, facts in HOOK_EVENT_FACTS.items():
        if facts.delivery == "always" and event != "WorktreeCreate":
            hooks.on(event)(lambda input, context: seen.update({context.event: input}))
    (tmp_path / ".claude" / "commands").mkdir(parents=True)
    (tmp_path / ".claude" / "commands" / "greet.md").write_text("Say hi to $ARGUMENTS")
    todo = {"subject": "First", "description": "do it"}
    with ScriptedModel(
        [
            Reply([tool_use("Bash", {"command": "true", "description": "d"}), tool_use("TaskCreate", todo)]),
            Reply([tool_use("Bash", {"command": "exit 3", "description": "d"})]),
            Reply(tool_use("TaskUpdate", {"taskId": "1", "status": "completed"})),
            agent("Do it"),
            text("done"),
            text("hi"),
        ],
        agents={"Do it": [text("did it")]},
        on_exhausted=text("more"),
    ) as model:
        options = model.options(
            cwd=tmp_path,
            agents=AGENTS,
            hooks=hooks,
            setting_sources=["project"],
            env={**model.environment(), "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"},
            can_use_tool=lambda request, context: Allow(),
            permission_mode="default",
        )
        with anyio.fail_after(240):
            async with Client(options) as client:
                await client.query("go", until="idle")
                await client.query("/greet bob")
                await client.set_model("sonnet")
                await client.query("/compact")
    assert not [input for input in seen.values() if isinstance(input, UnknownHookInput)]
    caused = {
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "UserPromptSubmit",
        "UserPromptExpansion",
        "Stop",
        "SubagentStart",
        "SubagentStop",
        "PreCompact",
        "PostCompact",
        "PreModelSwitch",
        "PostModelSwitch",
        "PermissionRequest",
        "TaskCreated",
        "TaskCompleted",
        "MessageDisplay",
    }
    assert caused <= set(seen), caused - set(seen)

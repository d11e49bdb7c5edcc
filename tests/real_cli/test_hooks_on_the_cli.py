"""Hooks on the real CLI: every effect an answer can have, and what a failing guard lets through (nothing)."""

import time
from collections import Counter
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
    HookContext,
    HookMatcher,
    Hooks,
    PermissionRequest,
    PostToolUseInput,
    PreToolUseInput,
    PreToolUseOutput,
    RunResult,
    SubagentStopInput,
    SubagentStopOutput,
)
from claude_agent_py.errors import HookStoppedError
from claude_agent_py.hooks import (
    HOOK_EVENT_FACTS,
    HookInput,
    HookOutput,
    HookRun,
    PermissionRequestOutput,
    PostToolBatchOutput,
    PostToolUseOutput,
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
    """Give all that the model was sent, as text."""
    return str(request.body)


def result_of(model: ScriptedModel, who: str = "main") -> str:
    """Give the last tool result that the model was sent, as text."""
    return str(model.requests_of(who)[-1].tool_results)


async def go(options: ClientOptions, prompt: str = "go") -> RunResult:
    with anyio.fail_after(60):
        async with Client(options) as client:
            return await client.query(prompt, until="idle")


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


@pytest.mark.each_backend
async def test_a_dangerous_command_does_not_run_when_its_guard_fails(tmp_path: Path) -> None:
    """The first is an option; the others take its place one after the other, each for a turn."""
    script = [shell("touch main-ran"), agent("Do it"), text("done")]
    with ScriptedModel(script * len(FAILING), agents={"Do it": [shell("touch agent-ran"), text("tried")]}) as model:
        matcher = HookMatcher("Bash", FAILING[0], timeout=0.5)
        options = model.options(
            cwd=tmp_path, agents=AGENTS, permission_mode="bypassPermissions", hooks={"PreToolUse": [matcher]}
        )
        with anyio.fail_after(240):
            async with Client(options) as client:
                for number, guard in enumerate(FAILING):
                    if guard is not FAILING[0]:
                        assert await client.hooks.remove(matcher)
                        matcher = await client.hooks.add("PreToolUse", HookMatcher("Bash", guard, timeout=0.5))
                    result = await client.query("go", until="idle")
                    name = guard.__name__
                    assert result.text == "done", name
                    assert list(tmp_path.iterdir()) == [], name
                    assert "failed" in result_of(model, "Do it"), name
                    assert [name in error.handler for error in client.handler_errors[2 * number :]] == [True, True]
    assert len(model.requests_of("Do it")) == 2 * len(FAILING)
    assert "sk-secret" not in "".join(map(heard, model.requests))


async def test_a_prompt_is_not_sent_when_its_guard_fails() -> None:
    with ScriptedModel([text("answered")]) as model:
        with pytest.raises(HookStoppedError):
            await go(model.options(hooks={"UserPromptSubmit": [raises]}))
    assert model.requests_of("main") == []


async def test_a_hook_that_may_fail_lets_the_command_run(tmp_path: Path) -> None:
    with ScriptedModel([shell("touch ran"), text("done")]) as model:
        matcher = HookMatcher("Bash", raises, on_failure="continue")
        options = model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks={"PreToolUse": [matcher]})
        await go(options)
    assert (tmp_path / "ran").exists()


async def test_an_interrupt_cancels_a_handler_and_the_command_does_not_run(tmp_path: Path) -> None:
    asked, over = anyio.Event(), []

    async def thinks(input: PreToolUseInput, context: HookContext) -> None:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            over.append(context.cancelled)

    with ScriptedModel([shell("touch ran"), text("done")]) as model:
        options = model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks={"PreToolUse": [thinks]})
        with anyio.fail_after(60):
            async with Client(options) as client:
                run = client.query("go")
                await asked.wait()
                await run.interrupt()
                async for _ in run:
                    pass
    assert over == [True]
    assert list(tmp_path.iterdir()) == []


# What PreToolUse can do ------------------------------------------------------------------------------------------


async def test_every_decision_about_a_call(tmp_path: Path) -> None:
    """One session, a turn for each answer of the hook."""
    outputs: list[PreToolUseOutput] = []
    seen: list[PreToolUseInput] = []
    asked: list[PermissionRequest] = []

    def hook(input: PreToolUseInput, context: HookContext) -> Any:
        seen.append(input)
        return outputs[-1]

    def decide(request: PermissionRequest, context: Any) -> Allow | Deny:
        asked.append(request)
        return Deny("the handler says no") if request.decision_reason_type == "hook" else Allow()

    def made() -> set[str]:
        names = {path.name for path in tmp_path.iterdir()}
        for name in names:
            (tmp_path / name).unlink()
        return names

    with ScriptedModel([shell("touch old"), text("done")] * 6) as model:
        options = model.options(
            cwd=tmp_path,
            permission_mode="default",
            can_use_tool=decide,
            hooks={"PreToolUse": [HookMatcher("Bash", hook)]},
        )
        with anyio.fail_after(120):
            async with Client(options) as client:

                async def after(**output: Any) -> RunResult:
                    outputs.append(PreToolUseOutput(**output))
                    return await client.query("go", until="idle")

                result = await after(permission_decision="deny", permission_decision_reason="not today")
                assert "not today" in result_of(model)
                assert len(result.permission_denials) == 1
                assert (made(), asked) == (set(), [])

                await after(permission_decision="allow")
                assert (made(), asked) == ({"old"}, [])

                await after(permission_decision="ask", permission_decision_reason="look at it")
                assert "the handler says no" in result_of(model)
                assert [(request.decision_reason_type, request.tool_name) for request in asked] == [("hook", "Bash")]
                assert made() == set()

                await after(permission_decision="allow", updated_input=BashInput(command="touch new"))
                assert (made(), len(asked)) == ({"new"}, 1)

                await after(updated_input={"command": "touch newer"})
                assert (made(), len(asked)) == ({"newer"}, 2)
                assert asked[-1].raw_input["command"] == "touch newer"

                result = await after(
                    permission_decision="allow", additional_context="the moon is full", system_message="look out"
                )
                assert "the moon is full" in heard(model.requests_of("main")[-1])
                assert "look out" in str(list(result.messages))
    assert [input.typed_input() for input in seen] == [BashInput(command="touch old", description="Run it")] * 6


async def test_stopping_ends_the_turn_before_the_tool(tmp_path: Path) -> None:
    seen: list[str] = []

    def hook(input: HookInput, context: HookContext) -> HookOutput:
        seen.append(context.event)
        return HookOutput(continue_=False, stop_reason="enough")

    with ScriptedModel([shell("touch ran"), text("done")]) as model:
        options = model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks={"PreToolUse": [hook]})
        with anyio.fail_after(60):
            async with Client(options) as client:
                run = client.query("go")
                async for _ in run:
                    pass
    assert seen == ["PreToolUse"]
    assert list(tmp_path.iterdir()) == []
    assert len(model.requests_of("main")) == 1


async def test_the_strictest_of_several_wins(tmp_path: Path) -> None:
    def allow(input: HookInput, context: HookContext) -> PreToolUseOutput:
        return PreToolUseOutput(permission_decision="allow")

    def deny(input: HookInput, context: HookContext) -> PreToolUseOutput:
        return PreToolUseOutput(permission_decision="deny", permission_decision_reason="one is enough")

    with ScriptedModel([shell("touch ran"), text("done")]) as model:
        hooks = {"PreToolUse": [allow, HookMatcher("Bash", [allow, deny])]}
        await go(model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks=hooks))
    assert "one is enough" in result_of(model)
    assert list(tmp_path.iterdir()) == []


async def test_a_guard_sees_the_input_before_another_hook_changed_it(tmp_path: Path) -> None:
    commands: list[str] = []

    def guard(input: PreToolUseInput, context: HookContext) -> PreToolUseOutput | None:
        commands.append(input.tool_input["command"])
        return PreToolUseOutput(permission_decision="deny") if "new" in commands[-1] else None

    def change(input: PreToolUseInput, context: HookContext) -> PreToolUseOutput:
        return PreToolUseOutput(updated_input={"command": "touch new"})

    with ScriptedModel([shell("touch old"), text("done")]) as model:
        hooks = {"PreToolUse": [change, guard]}
        await go(model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks=hooks))
    assert commands == ["touch old"]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]  # as docs/hooks.md warns


@pytest.mark.parametrize(
    ("event", "output", "lets"),
    [("PreToolUse", {"permission_decision": "deny"}, False), ("PostToolUse", {"updated_tool_output": "gone"}, True)],
)
async def test_changing_the_hooks_withdraws_those_that_are_pending(
    tmp_path: Path, event: str, output: Any, lets: bool
) -> None:
    asked, changed = anyio.Event(), anyio.Event()

    async def hook(input: HookInput, context: HookContext) -> Any:
        asked.set()
        await changed.wait()
        return output

    async def change(client: Client) -> None:
        await asked.wait()
        await client.hooks.add("Notification", lambda input, context: None)
        changed.set()

    with ScriptedModel([shell("touch ran; echo the-output"), text("done")]) as model:
        options = model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks={event: [hook]})
        with anyio.fail_after(60):
            async with Client(options) as client, anyio.create_task_group() as group:
                group.start_soon(change, client)
                await client.query("go", until="idle")
    assert (tmp_path / "ran").exists() == lets
    assert ("the-output" in result_of(model)) == lets


async def test_a_matcher_selects_the_tool(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()

    def counting(name: str) -> Any:
        return lambda input, context: counts.update([name])

    fitting = ["Bash", "Bash|Read", "^Ba.*", "*", "", None, "Write , Bash"]
    fitting += [r"\x42[^\d]sh$", "^(?<tool>B)a(?:sh|d)", r"(?!R)\u0042\w{3}", "(?<=B)ash", r"\bBash\b"]
    others = ["Read", "^(?!Bash)", r"Bash\S", "[^B]ash"]
    hooks = [HookMatcher(pattern, counting(str(pattern))) for pattern in (*fitting, *others)]
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
    with ScriptedModel([shell("true"), text("done")]) as model:
        options = model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks={"PreToolUse": hooks})
        await go(options)
    assert set(counts) == {str(pattern) for pattern in fitting}


async def test_a_hook_in_the_shape_of_the_official_sdk_works(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def callback(input_data: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        seen.append((input_data["tool_name"], tool_use_id))
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": "as ever",
            }
        }

    with ScriptedModel([shell("touch ran"), text("done")]) as model:
        hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [callback], "timeout": 30}]}
        await go(model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks=hooks))
    assert "as ever" in result_of(model)
    assert seen[0][0] == "Bash"
    assert seen[0][1]
    assert list(tmp_path.iterdir()) == []


# What the other events can do ------------------------------------------------------------------------------------


async def test_after_a_tool_its_output_can_be_changed_and_commented(tmp_path: Path) -> None:
    hooks = Hooks()
    seen: list[Any] = []

    @hooks.post_tool_use("Bash")
    def change(input: PostToolUseInput, context: HookContext) -> PostToolUseOutput:
        seen.append(input.typed_output())
        output = dict(input.tool_response, stdout="[removed]")
        return PostToolUseOutput(updated_tool_output=output, additional_context="it was long")

    with ScriptedModel([shell("echo secret-key"), text("done")]) as model:
        await go(model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks=hooks))
    (output,) = seen
    assert isinstance(output, BashOutput)
    assert output.stdout == "secret-key"
    last = model.requests_of("main")[-1]
    assert "[removed]" in str(last.tool_results)
    assert "it was long" in heard(last)


def no_text(input: HookInput, context: HookContext) -> PostToolUseOutput:
    return PostToolUseOutput(updated_tool_output={"stdout": ""})


def a_text(input: HookInput, context: HookContext) -> PostToolUseOutput:
    return PostToolUseOutput(updated_tool_output="[removed]")


async def test_the_model_does_not_read_what_a_redaction_was_to_hide(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret-key")
    (tmp_path / "key2").write_text("secret-key")
    (tmp_path / "key3").write_text("secret-key")
    redactions = [
        (HookMatcher(None, raises, on_failure="block"), "withheld"),
        (HookMatcher(None, no_text), "withheld"),
        (HookMatcher(None, a_text), "[removed]"),
    ]
    script: list[Any] = []
    for name in ("key", "key2", "key3"):  # what was read before is not read again
        script += [shell(f"cat {name}"), Reply(tool_use("Read", {"file_path": str(tmp_path / name)})), text("done")]
    before = None
    with ScriptedModel(script) as model, anyio.fail_after(120):
        async with Client(model.options(cwd=tmp_path, permission_mode="bypassPermissions")) as client:
            for redact, read in redactions:
                if before is not None:
                    await client.hooks.remove(before)
                before = await client.hooks.add("PostToolUse", redact)
                await client.query("go", until="idle")
                requests = model.requests_of("main")[-2:]
                assert [read in str(request.tool_results[-1]) for request in requests] == [True, True]
                assert "secret-key" not in heard(requests[-1])
    assert len(model.requests_of("main")) == 9


NOTEBOOK = """{"cells": [{"cell_type": "code", "id": "a", "source": ["secret-key"], "metadata": {}, "outputs": [],
 "execution_count": null}], "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the backend is no part of it
async def test_the_output_of_every_tool_is_withheld_in_a_shape_that_the_cli_takes(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret-key")
    (tmp_path / "secret-key.txt").write_text("secret-key")
    (tmp_path / "n.ipynb").write_text(NOTEBOOK)
    worker = {"description": "Work", "prompt": "Do it", "subagent_type": "general-purpose", "run_in_background": False}
    search = {"pattern": "secret", "path": str(tmp_path)}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"file_path": str(tmp_path / "key")}),
        ("Read", {"file_path": str(tmp_path / "n.ipynb")}),
        ("Grep", {**search, "output_mode": "content"}),
        ("Grep", {**search, "output_mode": "count"}),
        ("Grep", search),
        ("Glob", {"pattern": "*.txt", "path": str(tmp_path)}),
        ("Bash", {"command": "cat key", "description": "Read it"}),
        ("Agent", worker),
    ]
    hooks = {"PostToolUse": [HookMatcher(None, raises, on_failure="block")]}
    script: list[Any] = [Reply([tool_use(name, data) for name, data in calls]), text("done")]
    with ScriptedModel(script, agents={"Do it": text("the secret-key")}) as model:
        tools = ["Read", "Grep", "Glob", "Bash", "Agent"]
        options = model.options(cwd=tmp_path, permission_mode="bypassPermissions", tools=tools, hooks=hooks)
        await go(options)
    results = model.requests_of("main")[-1].tool_results
    assert len(results) == len(calls)
    for (name, data), result in zip(calls, results, strict=True):
        assert "withheld" in str(result["content"]), (name, data, result)
        assert "secret-key" not in str(result["content"]), (name, data, result)


async def test_a_batch_can_end_the_turn(tmp_path: Path) -> None:
    def stop(input: HookInput, context: HookContext) -> PostToolBatchOutput:
        return PostToolBatchOutput(decision="block", reason="that will do")

    with ScriptedModel([shell("true"), text("done")]) as model:
        options = model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks={"PostToolBatch": [stop]})
        with anyio.fail_after(60):
            async with Client(options) as client:
                async for _ in client.query("go"):
                    pass
    assert len(model.requests_of("main")) == 1


async def test_a_prompt_can_be_blocked_or_added_to() -> None:
    def check(input: Any, context: HookContext) -> UserPromptSubmitOutput:
        if "password" in input.prompt:
            return UserPromptSubmitOutput(decision="block", reason="no passwords")
        return UserPromptSubmitOutput(additional_context="it is Friday")

    with ScriptedModel([text("hello")]) as model:
        with anyio.fail_after(60):
            async with Client(model.options(hooks={"UserPromptSubmit": [check]})) as client:
                async for _ in client.query("my password is x"):
                    pass
                assert model.requests_of("main") == []
                result = await client.query("hi")
    assert result.text == "hello"
    assert "it is Friday" in heard(model.requests_of("main")[0])


async def test_the_end_of_a_turn_can_be_put_off() -> None:
    seen: list[bool] = []

    def stop(input: StopInput, context: HookContext) -> StopOutput | None:
        seen.append(input.stop_hook_active)
        return None if input.stop_hook_active else StopOutput(decision="block", reason="check it again")

    with ScriptedModel([text("first"), text("second")]) as model:
        result = await go(model.options(hooks={"Stop": [stop]}))
    assert result.text == "second"
    assert seen == [False, True]
    assert "check it again" in heard(model.requests_of("main")[-1])


@pytest.mark.parametrize("background", [False, True])
async def test_a_subagent_is_told_something_at_its_start_and_kept_from_stopping(background: bool) -> None:
    hooks = Hooks()
    tasks: list[Any] = []

    @hooks.subagent_start("worker")
    def start(input: SubagentStartInput, context: HookContext) -> SubagentStartOutput:
        return SubagentStartOutput(additional_context="be brief")

    @hooks.subagent_stop
    def stop(input: SubagentStopInput, context: HookContext) -> SubagentStopOutput | None:
        tasks.append((context.agent_id, getattr(context.task, "id", None), input.agent_type))
        return None if input.stop_hook_active else SubagentStopOutput(decision="block", reason="look twice")

    with ScriptedModel(
        [agent("Do it", background=background), text("done")],
        agents={"Do it": [text("first"), text("second")]},
        on_exhausted=text("over"),
    ) as model:
        with anyio.fail_after(60):
            async with Client(model.options(agents=AGENTS, hooks=hooks)) as client:
                await client.query("go", until="idle")
                (task,) = client.tasks
                outcome = await task.wait()
    requests = model.requests_of("Do it")
    assert "be brief" in heard(requests[0])
    assert "look twice" in heard(requests[-1])
    assert outcome.summary == "second"
    assert tasks == [(task.id, task.id, "worker")] * 2


async def test_a_permission_prompt_is_answered_by_a_hook_before_the_handler(tmp_path: Path) -> None:
    withdrawn: list[bool] = []

    def hook(input: HookInput, context: HookContext) -> PermissionRequestOutput:
        return PermissionRequestOutput(behavior="allow", updated_input={"command": "touch new", "description": "d"})

    async def decide(request: PermissionRequest, context: Any) -> Deny:
        try:
            await anyio.sleep_forever()
        finally:
            withdrawn.append(context.cancelled)
        raise AssertionError

    with ScriptedModel([shell("touch old"), text("done")]) as model:
        hooks = {"PermissionRequest": [HookMatcher("Bash", hook)]}
        await go(model.options(cwd=tmp_path, permission_mode="default", hooks=hooks, can_use_tool=decide))
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert withdrawn == [True]


async def test_a_worktree_is_where_the_hook_made_it(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"

    def make(input: Any, context: HookContext) -> WorktreeCreateOutput:
        place.mkdir()
        return WorktreeCreateOutput(worktree_path=str(place))

    with ScriptedModel([Reply(tool_use("EnterWorktree", {"name": "w"})), shell("touch here"), text("done")]) as model:
        hooks = {"WorktreeCreate": [make]}
        await go(model.options(cwd=tmp_path, permission_mode="bypassPermissions", hooks=hooks))
    assert (place / "here").exists()


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
        with anyio.fail_after(90):
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


async def test_hook_events_say_which_handler_ran() -> None:
    async def look(input: PreToolUseInput, context: HookContext) -> None:
        """No opinion."""

    with ScriptedModel([shell("true"), text("done")]) as model:
        async with Client(model.options(include_hook_events=True, hooks={"PreToolUse": [look]})) as client:
            with anyio.fail_after(60):
                await client.query("go")
                ran = []
                async for message in client.messages():
                    if isinstance(message, HookRun):
                        ran.append(message)
                        break
    assert [(run.event, run.error, run.output) for run in ran] == [("PreToolUse", None, {})]
    assert "look" in ran[0].handler

"""A policy as a hook."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from asking_cli import asking

from claude_agent_py import (
    Allow,
    Client,
    ClientOptions,
    Deny,
    HookMatcher,
    PermissionContext,
    PermissionRequest,
    guard,
    within,
)
from claude_agent_py.errors import HandlerError, OptionsError
from claude_agent_py.messages import UserContent, UserMessage
from claude_agent_py.permissions import PendingInteractions, deny_tools, first_of, read_only
from claude_agent_py.testing import FakeCLI, steps
from claude_agent_py.tools import BashInput

pytestmark = pytest.mark.anyio


async def answer(policy: Any, failures: list[HandlerError] | None = None, **more: Any) -> dict[str, Any]:
    """Return the hook's reply about a tool call, in wire form, and append what failed to `failures`."""
    data = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": "t",
        "cwd": "/somewhere",
        "agent_id": "a",
        **more,
    }
    async with asking(hooks={"PreToolUse": [guard(policy)]}) as cli:
        (group,) = cli.hooks["PreToolUse"]
        assert "matcher" not in group
        reply = await cli.call_hook(data, group["hookCallbackIds"][0], "t")
    if failures is not None:
        failures += cli.client.handler_errors
    return reply


def decision(reply: dict[str, Any]) -> Any:
    return reply.get("hookSpecificOutput", {}).get("permissionDecision")


async def test_a_call_that_a_policy_denies_is_denied() -> None:
    reply = await answer(deny_tools("Bash", message="not here"))
    assert reply["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert reply["hookSpecificOutput"]["permissionDecisionReason"] == "not here"
    assert "continue" not in reply


async def test_a_denial_that_interrupts_ends_the_turn() -> None:
    reply = await answer(lambda request, context: Deny("stop", interrupt=True))
    assert (decision(reply), reply["continue"], reply["stopReason"]) == ("deny", False, "stop")


@pytest.mark.parametrize("opinion", [None, Allow()])
async def test_a_guard_approves_nothing(opinion: Any) -> None:
    assert await answer(lambda request, context: opinion) == {}


async def test_a_changed_input_is_checked_as_usual() -> None:
    reply = await answer(lambda request, context: Allow(updated_input=BashInput(command="pwd")))
    assert reply["hookSpecificOutput"]["updatedInput"] == {"command": "pwd"}
    assert decision(reply) is None


def raises(request: Any, context: Any) -> Any:
    raise RuntimeError("sk-secret")


@pytest.mark.parametrize(
    "policy",
    [raises, lambda request, context: True, lambda request, context: {}, lambda r, c: Allow(updated_input={})],
)
async def test_a_policy_that_fails_denies(policy: Any) -> None:
    reply = await answer(policy)
    assert decision(reply) == "deny"
    assert "sk-secret" not in str(reply)


async def test_a_call_of_another_shape_is_denied() -> None:
    assert decision(await answer(lambda request, context: None, tool_input=["x"])) == "deny"
    assert decision(await answer(lambda request, context: None, tool_name=3)) == "deny"


async def test_the_policy_sees_the_call() -> None:
    seen: list[Any] = []

    def policy(request: PermissionRequest, context: PermissionContext) -> None:
        seen.append((request.tool_name, request.input, request.agent_id, context.tool_use_id, context.cwd))

    await answer(policy)
    assert seen == [("Bash", BashInput(command="ls"), "a", "t", "/somewhere")]


SKILL_COMMAND = {
    "hook_event_name": "PreSkillShellCommand",
    "tool_name": "Bash",
    "tool_input": {"command": "cat /etc/hostname"},
    "tool_use_id": "toolu_1:preamble-0",
    "command_name": "demo",
    "command_source": "projectSettings",
    "invoked_by": "claude",
}


@pytest.mark.parametrize(
    ("policy", "denied"),
    [
        (deny_tools("Bash", message="not here"), "not here"),
        (raises, "guard(raises) failed"),
        (lambda request, context: Deny("x") if request.raw_input["command"].startswith("cat") else None, "x"),
        (lambda request, context: Allow(updated_input={"command": "true"}), "cannot change it"),
        (lambda request, context: Allow(updated_input=request.raw_input), None),
        (lambda request, context: Allow(), None),
        (lambda request, context: None, None),
    ],
)
async def test_a_guard_decides_about_the_shell_commands_of_skills(policy: Any, denied: str | None) -> None:
    async with asking() as cli:
        cli.answers["get_hooks_listing"] = {"eventCatalog": [{"name": "PreSkillShellCommand"}]}
        await cli.client.hooks.add("PreToolUse", guard(policy))
        (group,) = cli.hooks["PreSkillShellCommand"]
        assert group["onFailure"] == "block"
        reply = await cli.call_hook(SKILL_COMMAND, group["hookCallbackIds"][0], "t")
        assert not cli.requests("apply_flag_settings")
    assert decision(reply) == (None if denied is None else "deny")
    assert denied is None or denied in reply["hookSpecificOutput"]["permissionDecisionReason"]


async def test_a_guard_under_both_names_is_asked_once() -> None:
    matcher = guard(read_only())
    async with asking(hooks={"PreToolUse": [matcher], "PreSkillShellCommand": [matcher]}) as cli:
        assert [len(cli.hooks[event]) for event in ("PreToolUse", "PreSkillShellCommand")] == [1, 1]
    async with asking(hooks={"PreSkillShellCommand": [matcher]}) as cli:
        assert list(cli.hooks) == ["PreSkillShellCommand"]


@pytest.mark.parametrize("catalog", [{}, {"eventCatalog": [{"name": "PreToolUse"}]}, {"eventCatalog": 3}])
async def test_a_cli_without_the_event_runs_no_shell_commands_of_skills_under_a_guard(catalog: Any) -> None:
    async with asking(hooks={"Stop": [lambda input, context: None]}) as cli:
        cli.answers["get_hooks_listing"] = catalog
        assert not cli.requests("apply_flag_settings")
        await cli.client.hooks.add("PreToolUse", guard(read_only()))
        [request] = cli.requests("apply_flag_settings")
        assert request["settings"] == {"disableSkillShellExecution": True}


async def test_reading_outside_is_denied(tmp_path: Path) -> None:
    data: dict[str, Any] = {"tool_name": "Read", "tool_input": {"file_path": "/etc/passwd"}}
    assert decision(await answer(within(tmp_path), **data)) == "deny"
    data = {"tool_name": "Read", "tool_input": {"file_path": str(tmp_path / "a")}}
    assert await answer(within(tmp_path), **data) == {}


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (raises, "guard(raises)"),
        (first_of(within("."), raises), "guard(first_of(within, raises))"),
    ],
)
async def test_a_failure_names_the_policy(policy: Any, name: str) -> None:
    failures: list[HandlerError] = []
    await answer(policy, failures)
    assert [failure.handler for failure in failures] == [name]


@pytest.mark.parametrize("event", ["PostToolUse", "PermissionRequest", "UserPromptSubmit"])
def test_a_guard_on_another_event_is_an_error(event: Any) -> None:
    with pytest.raises(OptionsError, match=r"guard\(deny_tools\).*belongs to PreToolUse"):
        ClientOptions(hooks={event: [guard(deny_tools("Bash"))]})


async def annotated(request: "PermissionRequest", context: PermissionContext) -> Deny:
    return Deny()


@pytest.mark.parametrize(
    "policy", [deny_tools("Bash"), first_of(read_only()), within("."), annotated, PendingInteractions().permission]
)
def test_a_policy_is_not_a_hook_handler(policy: Any) -> None:
    with pytest.raises(OptionsError, match=r"permission policy.*use guard\("):
        ClientOptions(hooks={"PreToolUse": [policy]})
    with pytest.raises(OptionsError, match=r"permission policy.*use guard\("):
        HookMatcher("Bash", policy)


@pytest.mark.parametrize("policy", [None, Deny(), lambda request: None])
def test_a_value_that_is_no_policy_is_refused(policy: Any) -> None:
    with pytest.raises(OptionsError):
        guard(policy)


# Files that a prompt mentions ------------------------------------------------------------------------------------


async def test_with_a_guard_prompts_that_may_mention_files_are_sent_verbatim() -> None:
    async def stream() -> AsyncIterator[Any]:
        yield "one"
        yield [{"type": "text", "text": "two @b", "odd": 1}]

    async def sent(**options: Any) -> list[bool]:
        fake = FakeCLI(*[steps.turn("ok") for _ in range(5)])
        async with Client(ClientOptions(**options), transport=fake.transport()) as client:
            whole = UserMessage(message=UserContent(role="user", content="@a"))
            for prompt in ("/compact", "look at @/etc/hostname", whole, stream()):
                await client.query(prompt)
        return [bool(frame.get("client_composed")) for frame in fake.received_like({"type": "user"})]

    guarded = {"hooks": {"PreToolUse": [guard(lambda request, context: None)]}}
    with anyio.fail_after(60):
        assert await sent(**guarded) == [False, True, True, False, True]
        assert await sent(**guarded, verbatim_prompts=True) == [True] * 5
        assert await sent(**guarded, verbatim_prompts=False) == [False] * 5
        assert await sent(hooks={"PreToolUse": [lambda input, context: None]}) == [False] * 5

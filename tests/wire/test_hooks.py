"""The models of hook inputs and outputs. `hook_inputs.jsonl` has what CLI 2.1.328 really sent, one event a line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from asking_cli import asking
from pydantic import BaseModel, Field, ValidationError
from wire_values import as_json

from claude_agent_py import HookContext, HookMatcher, hooks
from claude_agent_py.permissions import AddRules, PermissionRuleValue
from claude_agent_py.tools import BashInput, BashOutput


class OwnInput(BaseModel):
    """The input of a tool of one's own."""

    path: str = Field(serialization_alias="filePath")
    mode: str = "r"


RECORDED: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("hook_inputs.jsonl").read_text().splitlines()
]


def models(suffix: str, base: type) -> dict[str, Any]:
    """Return the public models that are called after an event, by the event."""
    every = [getattr(hooks, name) for name in dir(hooks)]
    found = [one for one in every if isinstance(one, type) and issubclass(one, base) and one is not base]
    return {one.__name__.removesuffix(suffix): one for one in found if one is not hooks.UnknownHookInput}


INPUTS = models("Input", hooks.HookInput)
OUTPUTS = models("Output", hooks.HookOutput)


def test_there_are_34_events_and_all_tables_agree() -> None:
    assert len(hooks.HOOK_EVENTS) == 34
    assert get_args(hooks.HookEvent) == hooks.HOOK_EVENTS
    assert INPUTS.keys() == set(hooks.HOOK_EVENTS)
    assert OUTPUTS.keys() <= set(hooks.HOOK_EVENTS)
    assert tuple(hooks.HooksByEvent.__annotations__) == hooks.HOOK_EVENTS


def test_models_are_named_after_their_event() -> None:
    for event in hooks.HOOK_EVENTS:
        assert INPUTS[event].hook_event_name == event
        output = OUTPUTS.get(event)
        assert output is None or event == output.EVENT


def test_the_field_that_a_matcher_compares_exists() -> None:
    for event in hooks.HOOK_EVENTS:
        matches = hooks.HOOK_EVENT_FACTS[event].matches
        assert matches in (None, "file name") or matches in INPUTS[event].__struct_fields__


def test_an_event_that_is_not_always_sent_says_why() -> None:
    assert all(facts.note for facts in hooks.HOOK_EVENT_FACTS.values() if facts.delivery != "always")


@pytest.mark.parametrize("data", RECORDED, ids=lambda data: data["hook_event_name"])
def test_recorded_inputs_are_typed_without_loss(data: dict[str, Any]) -> None:
    value = hooks.parse_hook_input(data)
    assert type(value) is INPUTS[data["hook_event_name"]]
    assert as_json(value) == data
    assert data.keys() - {"hook_event_name"} <= set(value.__struct_encode_fields__)


def test_an_unknown_event_keeps_everything() -> None:
    data = {"hook_event_name": "PreBreakfast", "session_id": "s", "eggs": 2}
    value = hooks.parse_hook_input(data)
    assert isinstance(value, hooks.UnknownHookInput)
    assert value.hook_event_name == "PreBreakfast"
    assert value.raw == data
    assert as_json(value) == data


@pytest.mark.parametrize(
    "data",
    [
        {"hook_event_name": "PreToolUse", "tool_input": {}},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "session_id": 7},
        {"hook_event_name": ["PreToolUse"]},
        {},
    ],
)
def test_a_known_event_of_another_shape_is_unknown_and_keeps_everything(data: dict[str, Any]) -> None:
    value = hooks.parse_hook_input(data)
    assert isinstance(value, hooks.UnknownHookInput)
    assert value.raw == as_json(value) == data
    assert isinstance(value.hook_event_name, str)
    assert repr(value)


def test_tool_input_and_output_are_available_typed() -> None:
    before = hooks.PreToolUseInput(tool_name="Bash", tool_input={"command": "ls"})
    assert before.typed_input() == BashInput(command="ls")
    assert hooks.PreToolUseInput(tool_name="Bash", tool_input={"cmd": "ls"}).typed_input() == {"cmd": "ls"}
    after = hooks.PostToolUseInput(
        tool_name="Bash",
        tool_input={"command": "ls"},
        tool_response={"stdout": "a", "stderr": "", "interrupted": False},
    )
    assert after.typed_output() == BashOutput(stdout="a", stderr="", interrupted=False)
    assert as_json(after)["hook_event_name"] == "PostToolUse"


def test_a_batch_has_typed_inputs() -> None:
    call = hooks.PostToolBatchToolCall(tool_name="Bash", tool_input={"command": "ls"}, tool_response="a")
    assert call.typed_input() == BashInput(command="ls")


# Outputs ---------------------------------------------------------------------------------------------------------

WIRE: list[tuple[Any, dict[str, Any]]] = [
    (hooks.HookOutput(), {}),
    (hooks.HookOutput(continue_=False, stop_reason="r"), {"continue": False, "stopReason": "r"}),
    (
        hooks.PreToolUseOutput(permission_decision="deny", permission_decision_reason="no", system_message="s"),
        {
            "systemMessage": "s",
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": "no",
            },
        },
    ),
    (
        hooks.PreToolUseOutput(updated_input=BashInput(command="ls", run_in_background=False)),
        {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "updatedInput": {"command": "ls", "run_in_background": False},
            }
        },
    ),
    (
        hooks.PreToolUseOutput(permission_decision="allow", updated_input={"command": "ls"}, additional_context="c"),
        {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "allow",
                "updatedInput": {"command": "ls"},
                "additionalContext": "c",
            }
        },
    ),
    (
        hooks.PermissionRequestOutput(
            behavior="allow",
            updated_permissions=[
                AddRules(rules=[PermissionRuleValue(tool_name="Bash")], behavior="allow", destination="session")
            ],
        ),
        {
            "hookSpecificOutput": {
                "hookEventName": "PermissionRequest",
                "decision": {
                    "behavior": "allow",
                    "updatedPermissions": [
                        {
                            "type": "addRules",
                            "rules": [{"toolName": "Bash"}],
                            "behavior": "allow",
                            "destination": "session",
                        }
                    ],
                },
            }
        },
    ),
    (hooks.PermissionRequestOutput(), {}),
    (hooks.SubagentStopOutput(decision="block", reason="go on"), {"decision": "block", "reason": "go on"}),
    (
        hooks.PostToolUseOutput(updated_tool_output={"stdout": ""}, updated_mcp_tool_output="x"),
        {
            "hookSpecificOutput": {
                "hookEventName": "PostToolUse",
                "updatedToolOutput": {"stdout": ""},
                "updatedMCPToolOutput": "x",
            }
        },
    ),
    (
        hooks.WorktreeCreateOutput(worktree_path="/w"),
        {"hookSpecificOutput": {"hookEventName": "WorktreeCreate", "worktreePath": "/w"}},
    ),
    (hooks.AsyncHookOutput(), {"async": True}),
    (hooks.AsyncHookOutput(async_timeout=5), {"async": True, "asyncTimeout": 5}),
]


@pytest.mark.parametrize(("output", "wire"), WIRE)
def test_an_output_becomes_two_levels(output: hooks.HookOutput, wire: dict[str, Any]) -> None:
    assert output.to_wire() == wire


@pytest.mark.parametrize(("output", "wire"), [(output, wire) for output, wire in WIRE if wire])
def test_a_dict_in_the_shape_of_the_wire_reads_as_the_same_output(
    output: hooks.HookOutput, wire: dict[str, Any]
) -> None:
    event = getattr(output, "EVENT", None) or "Stop"
    assert hooks.parse_hook_output(event, wire).to_wire() == wire


def test_an_update_of_rules_keeps_what_its_model_does_not_know() -> None:
    update = {"type": "addRules", "rules": [], "behavior": "allow", "destination": "session", "new": 1}
    output = hooks.parse_hook_output("PermissionRequest", {"behavior": "allow", "updatedPermissions": [update]})
    assert output.to_wire()["hookSpecificOutput"]["decision"]["updatedPermissions"] == [update]


@pytest.mark.parametrize(
    ("event", "value", "wire"),
    [
        ("Stop", None, {}),
        ("Stop", {}, {}),
        ("Stop", {"continue_": False}, {"continue": False}),
        ("Stop", {"async_": True, "asyncTimeout": 5}, {"async": True, "asyncTimeout": 5}),
        ("SessionEnd", {"systemMessage": "s"}, {"systemMessage": "s"}),
        (
            "PreToolUse",
            {"permission_decision": "deny"},
            {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}},
        ),
        (
            "PreToolUse",
            {"hookSpecificOutput": {"permissionDecision": "deny"}},
            {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}},
        ),
        ("PreToolUse", hooks.HookOutput(decision="block"), {"decision": "block"}),
        ("PreToolUse", {"decision": "block", "continue": False}, {"decision": "block", "continue": False}),
        (
            "PreToolUse",
            {"updatedInput": OwnInput(path="/a")},
            {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"filePath": "/a"}}},
        ),
    ],
)
def test_valid_outputs_of_a_handler(event: str, value: Any, wire: dict[str, Any]) -> None:
    assert hooks.parse_hook_output(event, value).to_wire() == wire


@pytest.mark.parametrize(
    ("event", "value", "says"),
    [
        ("PreToolUse", True, "not bool"),
        ("PreToolUse", "deny", "not str"),
        ("PreToolUse", {"permissionDecison": "deny"}, "permissionDecison"),
        ("PreToolUse", {"permissionDecision": "refuse"}, "permissionDecision"),
        ("PreToolUse", {"hookSpecificOutput": {"hookEventName": "Stop"}}, "'Stop'"),
        ("PreToolUse", {"hookSpecificOutput": "deny"}, "must be a dict"),
        ("PreToolUse", hooks.StopOutput(), "StopOutput is an output for Stop"),
        ("SessionEnd", {"additionalContext": "x"}, "additionalContext"),
        ("WorktreeCreate", {}, "worktreePath"),
    ],
)
def test_invalid_outputs_of_a_handler_are_refused(event: str, value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        hooks.parse_hook_output(event, value)


def test_the_explanation_does_not_show_the_value() -> None:
    with pytest.raises(ValueError, match="invalid output for") as caught:
        hooks.parse_hook_output("PreToolUse", {"permissionDecision": "sk-secret"})
    assert "sk-secret" not in str(caught.value)


def test_a_misspelt_field_is_refused_at_construction() -> None:
    with pytest.raises(ValidationError):
        hooks.PreToolUseOutput.model_validate({"permission_decison": "deny"})


async def answer_of_failing_hook(event: str) -> dict[str, Any]:
    """Return what the CLI gets from a hook that blocks if it fails, and fails."""

    def fail(input: hooks.HookInput, context: HookContext) -> None:
        raise LookupError

    async with asking(hooks={event: [HookMatcher(None, fail, on_failure="block")]}) as cli:
        return await cli.call_hook({"hook_event_name": event})


@pytest.mark.anyio
@pytest.mark.parametrize("event", [name for name, facts in hooks.HOOK_EVENT_FACTS.items() if facts.block])
async def test_every_blockable_event_has_a_blocking_answer_with_a_reason(event: str) -> None:
    wire = await answer_of_failing_hook(event)
    assert "fail" in json.dumps(wire)
    assert hooks.parse_hook_output(event, wire).to_wire() == wire


@pytest.mark.anyio
async def test_an_event_is_blocked_by_the_field_that_it_has_for_that() -> None:
    denied = (await answer_of_failing_hook("PreToolUse"))["hookSpecificOutput"]
    assert (denied["hookEventName"], denied["permissionDecision"]) == ("PreToolUse", "deny")
    refused = (await answer_of_failing_hook("PermissionRequest"))["hookSpecificOutput"]
    assert (refused["hookEventName"], refused["decision"]["behavior"]) == ("PermissionRequest", "deny")
    assert (await answer_of_failing_hook("UserPromptSubmit"))["decision"] == "block"


def test_the_list_of_events_costs_no_models() -> None:
    code = (
        "import sys; from claude_agent_py.hooks import HOOK_EVENTS; "
        + "print(sorted(m for m in sys.modules if 'wire.hooks.' in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['claude_agent_py.wire.hooks.events']"

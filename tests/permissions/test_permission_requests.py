"""What a permission handler is asked, and decisions on the wire."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, cast

import pytest
from asking_cli import asking
from pydantic import BaseModel, Field
from wire_values import read_request

from claude_agent_py import Allow, Deny, PermissionContext, PermissionRequest
from claude_agent_py.control import CanUseToolRequest
from claude_agent_py.errors import HandlerError
from claude_agent_py.permissions import AddRules, PermissionRuleValue, SetMode, UnknownPermissionUpdate, displayable
from claude_agent_py.tools import BashInput

WIRE = {
    "subtype": "can_use_tool",
    "tool_name": "Bash",
    "display_name": "Bash",
    "input": {"command": "touch x", "description": "d"},
    "permission_suggestions": [
        {
            "type": "addRules",
            "rules": [{"toolName": "Bash", "ruleContent": "touch x"}],
            "behavior": "allow",
            "destination": "localSettings",
        },
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        {"type": "paintItBlack", "destination": "session"},
    ],
    "blocked_path": "/x",
    "decision_reason": "because",
    "decision_reason_type": "other",
    "tool_use_id": "toolu_1",
    "agent_id": "a1",
}


def request() -> PermissionRequest:
    return PermissionRequest(read_request(WIRE), PermissionContext(request_id="r", task=cast(Any, "a task")))


def test_a_request_is_typed() -> None:
    asked = request()
    assert asked.input == BashInput(command="touch x", description="d")
    assert asked.raw_input == WIRE["input"]
    assert (asked.tool_name, asked.tool_use_id, asked.agent_id) == ("Bash", "toolu_1", "a1")
    assert asked.context is not None
    assert asked.task is asked.context.task
    assert (asked.blocked_path, asked.decision_reason, asked.decision_reason_type) == ("/x", "because", "other")
    assert (asked.display_name, asked.title, asked.description) == ("Bash", None, None)
    assert (asked.mcp_server, asked.matched_ask_rule) == (None, None)
    assert not asked.requires_user_interaction
    assert (asked.suppress_always_allow_rule, asked.default_to_no) == (False, False)
    careful = read_request({**WIRE, "suppress_always_allow_rule": True, "default_to_no": True})
    assert PermissionRequest(careful).suppress_always_allow_rule
    assert PermissionRequest(careful).default_to_no
    assert [type(update) for update in asked.suggestions] == [AddRules, SetMode, UnknownPermissionUpdate]
    assert [update.destination for update in asked.suggestions] == ["localSettings", "session", "session"]
    assert "touch" not in repr(asked)


def test_an_input_of_another_shape_stays_a_dict() -> None:
    asked = PermissionRequest(CanUseToolRequest(tool_name="Bash", input={"cmd": "x"}, tool_use_id="t"))
    assert asked.input == {"cmd": "x"}
    assert asked.suggestions == ()
    assert asked.task is None


RULE = AddRules(rules=[PermissionRuleValue.parse("Bash(ls)")], behavior="allow", destination="session")
RULE_WIRE = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "ls"}],
    "behavior": "allow",
    "destination": "session",
}


class Edited(BaseModel):
    """The input of a tool of the user."""

    file_path: str = Field(alias="filePath")
    is_new: bool = False


async def reply_of(decision: Any, **fields: Any) -> tuple[dict[str, Any], Sequence[HandlerError]]:
    """Return what the CLI is told if a handler returns this, and what failed."""

    def decide(request: PermissionRequest, context: PermissionContext) -> Any:
        return decision

    async with asking(can_use_tool=decide) as cli:
        reply = await cli.ask({"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "t", **fields})
    return reply, cli.client.handler_errors


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("decision", "reply"),
    [
        (Allow(), {"behavior": "allow"}),
        (Allow(updated_input={"a": 1}), {"behavior": "allow", "updatedInput": {"a": 1}}),
        (Allow(BashInput(command="ls")), {"behavior": "allow", "updatedInput": {"command": "ls"}}),
        (Allow(Edited(filePath="/x")), {"behavior": "allow", "updatedInput": {"filePath": "/x"}}),
        (Allow(updated_permissions=[RULE]), {"behavior": "allow", "updatedPermissions": [RULE_WIRE]}),
        (Allow(updated_permissions=(RULE_WIRE,)), {"behavior": "allow", "updatedPermissions": [RULE_WIRE]}),
        (Deny("no"), {"behavior": "deny", "message": "no"}),
        (Deny("no", interrupt=True), {"behavior": "deny", "message": "no", "interrupt": True}),
        (
            Deny("no", decision_classification="user_reject"),
            {"behavior": "deny", "message": "no", "decisionClassification": "user_reject"},
        ),
        (
            Allow(decision_classification="user_permanent"),
            {"behavior": "allow", "decisionClassification": "user_permanent"},
        ),
        (Deny(), {"behavior": "deny", "message": "The user denied this."}),
        (Deny("  "), {"behavior": "deny", "message": "The user denied this."}),
    ],
)
async def test_a_decision_on_the_wire(decision: Any, reply: dict[str, Any]) -> None:
    assert await reply_of(decision) == (reply, [])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("decision", "says"),
    [
        (True, "type bool"),
        ("allow", "type str"),
        ({"behavior": "allow"}, "type dict"),
        (Allow, "type type"),
        (Allow(updated_input="x"), "updated_input"),  # type: ignore[arg-type]
        (Deny(decision_classification=5), "decision_classification must be a string, not"),  # type: ignore[arg-type]
        (Allow(updated_input={"a": object()}), "must be valid JSON"),
        (Allow(updated_input={"a": float("nan")}), "must be valid JSON"),
        (Allow(updated_permissions=["x"]), "list of permission updates"),  # type: ignore[list-item]
        (Allow(updated_permissions=7), "list of permission updates"),  # type: ignore[arg-type]
        (Allow(updated_permissions=[SetMode(mode="yolo", destination="session")]), "mode 'yolo'"),
        (Allow(updated_permissions=[{**RULE_WIRE, "rules": [{"tool_name": 1}]}]), "type 'addRules'"),
        (Allow(updated_permissions=[{**RULE_WIRE, "rules": [MappingProxyType({"toolName": "Bash"})]}]), "valid JSON"),
        (Allow(updated_permissions=[{**RULE_WIRE, "until": object()}]), "updated_permissions must be valid JSON"),
        (Deny(7), "must be a string"),  # type: ignore[arg-type]
    ],
)
async def test_a_handler_that_returns_no_decision_refuses_and_is_reported(decision: Any, says: str) -> None:
    reply, (error,) = await reply_of(decision)
    assert says in error.reason
    assert reply["behavior"] == "deny"
    assert "updatedInput" not in reply


@pytest.mark.anyio
async def test_an_unknown_suggestion_of_the_cli_is_kept() -> None:
    unknown = request().suggestions[2]
    suggestions = WIRE["permission_suggestions"]
    assert isinstance(suggestions, list)
    reply, _ = await reply_of(Allow(updated_permissions=[unknown]), permission_suggestions=suggestions)
    assert reply["updatedPermissions"] == [suggestions[2]]
    _, (error,) = await reply_of(Allow(updated_permissions=[unknown]))
    assert "paintItBlack" in error.reason


def test_text_of_others_is_made_harmless() -> None:
    assert displayable("a\x1b[2Jb\nc\u202ed") == "a\ufffd[2Jb\nc\ufffdd"
    assert displayable("x" * 10, 4) == "xxxx… [+6 characters]"

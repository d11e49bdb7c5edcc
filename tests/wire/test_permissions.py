"""The models of permissions."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from wire_values import as_json, read_request

from claude_agent_py import PermissionContext, PermissionRequest, permissions as p

RULE = {"toolName": "Bash", "ruleContent": "npm test:*"}


@pytest.mark.parametrize(
    ("data", "model"),
    [
        ({"type": "addRules", "rules": [RULE], "behavior": "allow", "destination": "localSettings"}, p.AddRules),
        ({"type": "replaceRules", "rules": [], "behavior": "deny", "destination": "session"}, p.ReplaceRules),
        ({"type": "removeRules", "rules": [RULE], "behavior": "ask", "destination": "cliArg"}, p.RemoveRules),
        ({"type": "setMode", "mode": "acceptEdits", "destination": "session"}, p.SetMode),
        ({"type": "addDirectories", "directories": ["/a"], "destination": "session"}, p.AddDirectories),
        ({"type": "removeDirectories", "directories": ["/a"], "destination": "session"}, p.RemoveDirectories),
        ({"type": "addColours", "colours": ["red"], "destination": "session"}, p.UnknownPermissionUpdate),
        ({"type": "addRules", "destination": "session"}, p.UnknownPermissionUpdate),
    ],
)
def test_every_update_is_typed_and_loses_nothing(data: dict[str, Any], model: type) -> None:
    data = {**data, "new": [1]}
    asked = read_request(
        {"subtype": "can_use_tool", "tool_name": "Read", "tool_use_id": "t", "permission_suggestions": [data]}
    )
    update: Any = PermissionRequest(asked, PermissionContext(request_id="r")).suggestions[0]
    assert as_json(update) == data
    assert (update.problem is None) == (model is not p.UnknownPermissionUpdate)
    assert type(update) is model


@pytest.mark.parametrize(
    "data",
    [
        {"type": "addColours", "colours": ["red"], "destination": "session"},
        {"type": "setMode", "mode": "plan", "destination": "session", "new": [1]},
    ],
)
def test_an_update_loses_nothing_in_a_model_of_pydantic(data: dict[str, Any]) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(p.PermissionUpdate)
    update = adapter.validate_python(data)
    assert adapter.dump_python(update) == data
    assert adapter.validate_python(update) is update
    with pytest.raises(ValidationError):
        adapter.validate_python(5)


@pytest.mark.parametrize(
    ("update", "says"),
    [
        (p.SetMode(mode="yolo", destination="session"), "mode 'yolo'"),
        (p.SetMode(mode="plan", destination="disk"), "destination 'disk'"),
        (p.AddRules(rules=[], behavior="permit", destination="session"), "behavior 'permit'"),
        (p.AddDirectories(directories=[], destination="Session"), "destination 'Session'"),
    ],
)
def test_an_update_that_the_cli_would_drop_says_so(update: Any, says: str) -> None:
    assert says in str(update.problem)


def test_manual_is_another_name_of_a_mode() -> None:
    assert p.SetMode(mode="manual", destination="session").problem is None


@pytest.mark.parametrize("text", ["Read", "Bash(npm test:*)", "mcp__server__tool", "Read()"])
def test_a_rule_reads_and_writes_as_in_settings(text: str) -> None:
    assert str(p.PermissionRuleValue.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"Bash(touch a\(1\).txt)", "touch a(1).txt"),
        (r"Read(C:\\Users\\\(me\))", r"C:\Users\(me)"),
        (r"Bash(echo \\\\)", r"echo \\"),
    ],
)
def test_a_rule_escapes_parentheses_and_backslashes(text: str, content: str) -> None:
    rule = p.PermissionRuleValue.parse(text)
    assert rule.rule_content == content
    assert str(rule) == text


@pytest.mark.parametrize("content", ["a(b", ")", "\\", r"\(", r"\\)", r"a\d"])
def test_any_rule_is_read_from_its_own_text(content: str) -> None:
    rule = p.PermissionRuleValue(tool_name="Bash", rule_content=content)
    assert p.PermissionRuleValue.parse(str(rule)) == rule


def test_a_rule_has_a_tool_and_a_content() -> None:
    rule = p.PermissionRuleValue.parse(" Bash(npm test:*) ")
    assert as_json(rule) == RULE
    assert as_json(p.PermissionRuleValue.parse("Read")) == {"toolName": "Read"}
    assert p.PermissionRuleValue.parse("Bash(echo (a) b)").rule_content == "echo (a) b"


@pytest.mark.parametrize("text", ["", "Bash(", "Bash)", "(x)", "Bash(x) y"])
def test_an_invalid_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid permission rule"):
        p.PermissionRuleValue.parse(text)

"""Reading a recorded request."""

from typing import Any

from claude_agent_py.testing import RecordedRequest

RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "found it"}]}
REMINDER = {"type": "text", "text": "<system-reminder>\nremember\n</system-reminder>"}


def request(*messages: dict[str, Any], **body: Any) -> RecordedRequest:
    return RecordedRequest(body={"messages": list(messages), **body}, headers={})


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def test_the_prompt_is_what_the_user_said_first() -> None:
    opening = user(REMINDER, {"type": "text", "text": "do it"})
    asked = request({"role": "system", "content": "env"}, opening, {"role": "assistant", "content": []}, user("then"))
    assert asked.prompt == "do it"
    assert asked.last_user_text == "then"
    assert request(user("plain")).prompt == "plain"
    assert request(user(REMINDER), user("late")).prompt == "late"
    assert request().prompt == request().last_user_text == ""


def test_tool_results_of_the_last_message_that_has_any() -> None:
    other = {**RESULT, "tool_use_id": "toolu_2"}
    asked = request(user("go"), user(RESULT), {"role": "assistant", "content": []}, user(other), user("more"))
    assert asked.tool_results == [other]
    assert asked.tool_result("toolu_1") == RESULT
    assert asked.tool_result("toolu_3") is None


def test_contains_looks_everywhere() -> None:
    asked = request(user(REMINDER), user(RESULT), system=[{"type": "text", "text": "be brief"}])
    assert asked.contains("be brief")
    assert asked.contains("found it")
    assert asked.contains("remember")
    assert not asked.contains("absent")


def test_system_joins_blocks() -> None:
    assert request(system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]).system == "a\n\nb"
    assert request(system="plain").system == "plain"
    assert request().system == ""


def test_odd_bodies_are_read_without_an_error() -> None:
    odd = RecordedRequest(body={"messages": None, "tools": None, "system": 3}, headers={})
    assert (odd.messages, odd.tools, odd.tool_names, odd.system, odd.model) == ([], [], [], "", "")

"""Reading a recorded request."""

from typing import Any

import pytest

from claude_agent_py.testing import RecordedRequest

RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "found it"}]}
REMINDER = {"type": "text", "text": "<system-reminder>\nremember\n</system-reminder>"}


def request(*messages: dict[str, Any], **body: Any) -> RecordedRequest:
    return RecordedRequest(body={"messages": list(messages), **body}, headers={})


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def test_the_prompt_is_the_first_text_of_the_user() -> None:
    opening = user(REMINDER, {"type": "text", "text": "do it"})
    asked = request({"role": "system", "content": "env"}, opening, {"role": "assistant", "content": []}, user("then"))
    assert asked.prompt == "do it"
    assert asked.last_user_text == "then"
    assert request(user("plain")).prompt == "plain"
    assert request(user(REMINDER), user("late")).prompt == "late"
    assert request().prompt == request().last_user_text == ""


HOOK_TEXT = (
    "<system-reminder>\nThe text below is the output of a hook{}. It carries no message from the user.\n"
    "Stop hook feedback:\nBe brief.\n</system-reminder>"
)
"""What CLI 2.1.332 sends if a stop hook blocks; the words of the first line differ."""


@pytest.mark.parametrize("lead", [HOOK_TEXT.format(""), HOOK_TEXT.format(" that the user set up")])
def test_the_text_of_a_stop_hook_is_not_a_reminder(lead: str) -> None:
    feedback = "Stop hook feedback:\nBe brief."
    asked = request(user("go"), {"role": "assistant", "content": "long"}, user(lead))
    assert asked.last_user_text == feedback
    assert asked.prompt == "go"
    several = user(REMINDER, {"type": "text", "text": f"{REMINDER['text']}\n{lead}"}, {"type": "text", "text": "then"})
    assert request(several).last_user_text == f"{feedback}\nthen"


def test_text_next_to_a_reminder() -> None:
    assert request(user(f"{REMINDER['text']}\nbefore")).last_user_text == "before"
    assert request(user(f"after\n\n{REMINDER['text']}")).prompt == "after"


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

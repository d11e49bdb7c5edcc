"""What a chat shows: entries, diffs, questions."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from live import Conversation

from claude_agent_py.control import CanUseToolRequest
from claude_agent_py.journal import Journal
from claude_agent_py.permissions import AnswerSource, ElicitationRequest, Interaction, OpenQuestion, build_diff
from claude_agent_py.wire import JSONObject, decode


def said(text: str, *blocks: object, uuid: str = "m") -> object:
    content = [*([{"type": "text", "text": text}] if text else []), *blocks]
    message = {"role": "assistant", "id": uuid, "content": content}
    return decode(json.dumps({"type": "assistant", "message": message, "uuid": uuid}))


def told(content: object) -> object:
    return decode(json.dumps({"type": "user", "message": {"role": "user", "content": content}, "uuid": "u"}))


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make\x1b]0;owned\x07\ntest"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "\n".join(f"line {n}\x1b[2J" for n in range(9))}


def test_a_conversation_is_answers_and_calls_without_control_characters() -> None:
    chat, journal = Conversation(), Journal()
    messages = (said("I look.\x9b1m"), said("", CALL), told([RESULT]), said("Done.", uuid="n"))
    items = [item for message in messages for item in (message, *journal.feed(message))]
    shown = list(dict.fromkeys(entry for item in items for entry in chat.apply(item)))
    assert [(one.kind, one.mark, one.text) for one in shown] == [
        ("answer", "", "I look.�1m"),
        ("tool", "✓", "Bash make�]0;owned� test"),
        ("answer", "", "Done."),
    ]
    assert shown[1].output[0] == "line 0�[2J"
    assert shown[1].output[-1] == "… 5 more lines"


def test_a_diff_shows_what_a_call_changes(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("one\ntwo\nthree\n")
    assert build_diff("Write", {"file_path": str(file), "content": "one\n2\nthree\n"})[1:] == [
        " one",
        "-two",
        "+2",
        " three",
    ]
    edit = {"file_path": str(file), "old_string": "two", "new_string": "2\x1b[1m"}
    assert build_diff("Edit", edit)[1:] == [" one", "-two", "+2�[1m", " three"]
    lines = build_diff("Edit", {"file_path": str(file), "old_string": "-- a\nb", "new_string": "++ a\nb"})
    assert lines == ["@@ not at these lines @@", "@@ -1,2 +1,2 @@", "--- a", "+++ a", " b"]
    assert build_diff("NotebookEdit", {"new_source": "x = 1"}) == ["@@ replace cell  @@", "@@ -0,0 +1 @@", "+x = 1"]
    inserted = {"new_source": "x = 1", "edit_mode": "insert", "cell_id": "c1"}
    assert build_diff("NotebookEdit", inserted)[0] == "@@ insert cell c1 @@"
    long = build_diff("Write", {"file_path": str(tmp_path), "content": "x\n" * 8000})
    assert len(long) == 400 + 1
    assert long[-1] == f"@@ {8000 - 400} more lines @@"
    assert build_diff("Edit", {"old_string": 3}) == ["@@ not at these lines @@"]
    assert build_diff("Bash", {"command": "ls"}) == []


class Pending(Interaction):
    """A question whose reply is kept."""

    reply: object = None
    source: AnswerSource | None = None

    def __init__(self, kind: Any, **request: object) -> None:
        super().__init__(
            kind,
            msgspec.convert(request, ElicitationRequest if kind == "elicitation" else CanUseToolRequest),
            id="1",
            created_at=0.0,
        )

    @property
    def done(self) -> bool:
        return self.reply is not None

    def _settle(self, reply: JSONObject, source: AnswerSource) -> bool:
        is_first, self.reply, self.source = not self.done, self.reply or reply, source
        return is_first


def test_allow_always_names_and_applies_its_change() -> None:
    rule = {"toolName": "Bash", "ruleContent": "npm test:*"}
    suggestions = [
        {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings"},
        {"type": "addDirectories", "directories": ["/x"], "destination": "session"},
        {"type": "setMode", "mode": "nonsense", "destination": "session"},
    ]
    given = {"tool_name": "Bash", "tool_use_id": "t", "input": {"command": "npm test\nrm x\x1b[1m"}}
    one = Pending("permission", **given, permission_suggestions=suggestions)
    question = OpenQuestion(one)
    assert question.lines == ["command: npm test\n    | rm x�[1m"]
    assert question.always == "allow Bash(npm test:*) for you in this project; add /x for this session"
    assert question.allow(always=True)
    assert not question.deny()
    assert isinstance(one.reply, dict)
    assert one.reply["updatedPermissions"] == suggestions[:2]
    careful = Pending("permission", **given, permission_suggestions=suggestions, suppress_always_allow_rule=True)
    assert OpenQuestion(careful).always == ""


def test_a_plan_is_shown_to_its_end() -> None:
    end = "Last, remove the database."
    plan = Pending("plan", tool_name="ExitPlanMode", tool_use_id="t", input={"plan": "Read. " * 20_000 + end})
    question = OpenQuestion(plan)
    assert question.title == "Proceed with this plan?"
    assert question.markdown.endswith(end)
    assert question.always == "switch to the mode acceptEdits for this session"
    assert question.deny()
    assert not question.allow()
    denied = {"behavior": "deny", "message": "The user denied this.", "decisionClassification": "user_reject"}
    assert (plan.reply, plan.source) == (denied, AnswerSource.here())


def test_a_server_is_answered_with_words() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    given = {"mcp_server_name": "shop", "message": "Who?\x1b[2J", "requested_schema": schema}
    one = Pending("elicitation", **given)
    question = OpenQuestion(one)
    assert question.lines == ["Who?�[2J", "name: string", "age: integer"]
    with pytest.raises(ValueError, match="must be a number"):
        question.type("accept name='Ada L' age=x")
    assert question.type("accept name='Ada L' age=36")
    assert one.reply == {"action": "accept", "content": {"name": "Ada L", "age": 36}}
    other = Pending("elicitation", **given)
    assert OpenQuestion(other).deny()
    assert other.reply == {"action": "cancel"}


RULE = {"toolName": "Bash", "ruleContent": "ls"}
ALWAYS = {"type": "addRules", "rules": [RULE], "behavior": "allow", "destination": "localSettings"}


@pytest.mark.parametrize(
    ("typed", "behavior", "updates"),
    [("y", "allow", None), ("Yes", "allow", None), ("A", "allow", [ALWAYS]), ("no  never", "deny", None)],
)
def test_a_decision_is_typed(typed: str, behavior: str, updates: object) -> None:
    one = Pending(
        "permission", tool_name="Bash", tool_use_id="t", input={"command": "ls"}, permission_suggestions=[ALWAYS]
    )
    question = OpenQuestion(one)
    for text in ("", "perhaps", "a second thing: rename it", "always test", "y but later", "yes it was"):
        with pytest.raises(ValueError, match=r"answer with y, n \[why\] or a"):
            question.type(text)
    assert not one.done
    assert question.type(typed)
    assert isinstance(one.reply, dict)
    assert (one.reply["behavior"], one.reply.get("updatedPermissions")) == (behavior, updates)


def test_what_cannot_be_allowed_always_is_not_by_a_word() -> None:
    one = Pending("permission", tool_name="Bash", tool_use_id="t", input={"command": "ls"})
    with pytest.raises(ValueError, match=r"answer with y, n \[why\]$"):
        OpenQuestion(one).type("always")
    assert not one.done


def test_several_questions_are_answered_one_after_the_other() -> None:
    asked = [
        {
            "question": text,
            "header": text,
            "options": [{"label": "A", "description": ""}, {"label": "B", "description": ""}],
        }
        for text in ("First?", "Second?")
    ]
    one = Pending("question", tool_name="AskUserQuestion", tool_use_id="t", input={"questions": asked})
    question = OpenQuestion(one)
    with pytest.raises(ValueError, match="must not be empty"):
        question.type("")
    assert not question.type("1")
    assert not one.done
    assert question.type("2")
    assert isinstance(one.reply, dict)
    assert one.reply["updatedInput"]["answers"] == {"First?": "A", "Second?": "B"}

"""The parts of the chat that need no terminal: entries, diffs, sections of a long answer, earlier prompts."""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len

from claude_agent_py.cli._chat.answers import MAX_CHARS, SECTION_CHARS, Sections, render_markdown
from claude_agent_py.cli._chat.conversation import Conversation
from claude_agent_py.cli._chat.widgets import MAX_PROMPTS, PromptHistory, get_history_file
from claude_agent_py.cli.diffs import COMPARED_LINES, SHOWN_LINES, build_diff
from claude_agent_py.cli.questions import OpenQuestion, list_details
from claude_agent_py.permissions import Interaction
from claude_agent_py.permissions.interactions import AnswerSource
from claude_agent_py.permissions.prompts import KINDS, Kind
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode
from claude_agent_py.wire.base import JSONObject


def said(text: str, *blocks: object, uuid: str = "m") -> object:
    content = [*([{"type": "text", "text": text}] if text else []), *blocks]
    message = {"role": "assistant", "id": uuid, "content": content}
    return decode(json.dumps({"type": "assistant", "message": message, "uuid": uuid}))


def told(content: object) -> object:
    return decode(json.dumps({"type": "user", "message": {"role": "user", "content": content}, "uuid": "u"}))


def turn_end(total: int, added: int) -> object:
    """Return the end of a turn, with the totals of its process and what the turn added."""
    used, new = ({"m": {"inputTokens": tokens, "costUSD": tokens}} for tokens in (total, added))
    named: Any = {"user_message_uuid": "u", "user_message_uuids": ["u"]}
    result = frames.result("x", modelUsage=used, total_cost_usd=total, model_usage_since_last_result=new, **named)
    return decode(json.dumps(result))


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make\x1b]0;owned\x07\ntest"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "\n".join(f"line {n}\x1b[2J" for n in range(9))}


def test_a_conversation_is_prompts_answers_and_calls_without_control_characters() -> None:
    chat = Conversation()
    chat.prompt("go \x1b[31m")
    for message in (said("I look.\x9b1m"), said("", CALL), told([RESULT]), said("Done.", uuid="n")):
        chat.apply(message)
    assert [(one.kind, one.mark, one.text) for one in chat.entries] == [
        ("prompt", "", "go �[31m"),
        ("answer", "", "I look.�1m"),
        ("tool", "✓", "Bash make�]0;owned� test"),
        ("answer", "", "Done."),
    ]
    assert chat.entries[2].output[0] == "line 0�[2J"
    assert chat.entries[2].output[-1] == "… 5 more lines"
    again = Conversation()
    again.replay([told("go"), said("I look."), said("", CALL), told([RESULT]), told("<task-notification>x"), told("x")])
    assert [one.kind for one in again.entries] == ["prompt", "answer", "tool", "prompt"]
    assert not again.is_working


def test_an_answer_to_a_notification_is_a_separate_answer() -> None:
    chat = Conversation()
    chat.replay([told("go"), said("It runs."), told("<task-notification>x"), said("It is done.", uuid="n")])
    assert [one.text for one in chat.entries] == ["go", "It runs.", "It is done."]


@pytest.mark.parametrize(("first", "second"), [(220, 330), (110, 210)], ids=["continues", "counts from 0"])
def test_a_new_process_that_continues_the_earlier_sums_is_not_counted_twice(first: int, second: int) -> None:
    chat = Conversation()
    chat.apply(turn_end(200, 200))
    chat.end_process()
    chat.apply(turn_end(first, first % 200))
    assert chat.spent.tokens == (220 if first == 220 else 310)
    chat.apply(turn_end(second, second - first))
    assert chat.spent == ((330.0, 330) if first == 220 else (410.0, 410))


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
    assert build_diff("NotebookEdit", {"new_source": "x = 1"})[-1] == "+x = 1"
    long = build_diff("Write", {"file_path": str(tmp_path), "content": "x\n" * COMPARED_LINES * 2})
    assert len(long) == SHOWN_LINES + 1
    assert long[-1] == f"@@ {COMPARED_LINES * 2 - SHOWN_LINES} more lines @@"
    assert build_diff("Edit", {"old_string": 3}) == ["@@ not at these lines @@"]
    assert build_diff("Bash", {"command": "ls"}) == []


@pytest.mark.parametrize(
    "text",
    [
        "word " * 20_000,
        "\n\n".join(f"Paragraph {n}." for n in range(9000)),
        "x" * 100_000,
        "Before\n\n```python\n" + "\n\n".join(f"a{n} = {n}" for n in range(9000)) + "\n```\n\nAfter, **bold**.\n",
    ],
    ids=["words", "paragraphs", "a line", "a code block"],
)
def test_a_long_answer_is_cut_into_parts_that_are_drawn_alone(text: str) -> None:
    sections = Sections()
    for start in range(0, len(text), 97):
        sections.feed(text[start : start + 97])
        assert len(sections.tail) <= MAX_CHARS + SECTION_CHARS
    parts = [*sections.done, sections.tail]
    assert len(parts) > 5
    fences = [line for part in parts for line in part.splitlines() if line.startswith("```")]
    whole = "".join(parts)
    for fence in set(fences):
        whole = whole.replace(f"{fence}\n", "")
    assert whole.replace("\n", "").replace("`", "") == text.replace("```python", "").replace("\n", "").replace("`", "")
    for part in parts:
        assert sum(line.startswith("```") for line in part.splitlines()) % 2 == 0


def test_markdown_of_an_agent_is_drawn_within_the_width_and_runs_nothing() -> None:
    source = "# 標題 **b** [red]x[/red]\n\n[click](javascript:alert(1))\n\n| 漢 | b |\n|--|--|\n| 字 | 👩 |\n"
    text = render_markdown(source, 30)
    assert "[red]x[/red]" in text.plain
    assert "javascript:alert(1)" in text.plain  # the address is seen, and no link
    assert not [span for span in text.spans if getattr(span.style, "link", None)]
    assert max(cell_len(line) for line in text.plain.splitlines()) <= 30


def test_earlier_prompts_are_kept_for_the_user_alone(tmp_path: Path) -> None:
    file = get_history_file({"XDG_STATE_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path), "HOME": str(tmp_path)})
    assert tmp_path in file.parents
    history = PromptHistory(file)
    for prompt in ("one", "two\nlines", "two\nlines", "x" * 50_000):
        history.add(prompt)
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    later = PromptHistory(file)
    assert later.prompts == ["one", "two\nlines"]
    assert later.forward() is None
    assert [later.back("draft"), later.back("x"), later.back("x")] == ["two\nlines", "one", None]
    assert [later.forward(), later.forward(), later.forward()] == ["two\nlines", "draft", None]

    file.write_text("".join(f"{json.dumps(str(n))}\n" for n in range(3 * MAX_PROMPTS)) + "nonsense\n[1]\n")
    assert len(PromptHistory(file).prompts) == MAX_PROMPTS
    assert len(file.read_text().splitlines()) == MAX_PROMPTS
    assert PromptHistory(tmp_path).prompts == []  # a folder is no history, and no error
    PromptHistory(tmp_path).add("x")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert PromptHistory(tmp_path / "pipe").prompts == []


class Pending(Interaction):
    """A question whose reply is kept."""

    reply: object = None

    def __init__(self, kind: Kind, **request: object) -> None:
        super().__init__(kind, msgspec.convert(request, KINDS[kind].wire), id="1", created_at=0.0)

    @property
    def done(self) -> bool:
        return self.reply is not None

    def _settle(self, reply: JSONObject, source: AnswerSource) -> bool:
        is_first, self.reply = not self.done, self.reply or reply
        return is_first


def test_what_allow_always_changes_is_named_and_nothing_else_is_changed() -> None:
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
    assert OpenQuestion(plan).markdown.endswith(end)
    assert not any(end in line for line in list_details(plan))
    assert any(end in line for line in list_details(plan, full=True))


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

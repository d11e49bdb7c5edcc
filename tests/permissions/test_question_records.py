"""Questions as JSON, for programs that keep them elsewhere than in an inbox."""

import json
from typing import Any

import pytest

from claude_agent_py import Allow, Deny, PermissionRequest
from claude_agent_py.control import CanUseToolRequest, ElicitationRequest, UserDialogRequest
from claude_agent_py.permissions import Accept, Answers, Cancel, Completed, Decline, Dismissed, QuestionRecord

BASH = CanUseToolRequest(tool_name="Bash", input={"command": "make"}, tool_use_id="t1", agent_id="a1")
FORM = ElicitationRequest(server_name="e", message="?", requested_schema={"properties": {"n": {"type": "integer"}}})
DIALOG = UserDialogRequest(dialog_kind="refusal_fallback_prompt")
WHICH = {"question": "Which?", "header": "W", "options": [{"label": "A"}, {"label": "B"}]}
QUESTION = CanUseToolRequest(tool_name="AskUserQuestion", input={"questions": [WHICH]}, tool_use_id="t2")
MODE = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


@pytest.mark.parametrize(
    ("kind", "wire", "answer"),
    [
        ("permission", BASH, Allow()),
        ("permission", BASH, Allow({"command": "ls"}, [MODE], "user_permanent")),
        ("permission", BASH, Deny("no", True, "user_reject")),
        ("question", QUESTION, Answers(["A"], {"W": "or B"})),
        ("question", QUESTION, None),
        ("plan", CanUseToolRequest(tool_name="ExitPlanMode", input={"plan": "1. a"}, tool_use_id="t3"), Allow()),
        ("elicitation", FORM, Accept({"n": 1})),
        ("elicitation", FORM, Decline()),
        ("elicitation", FORM, Cancel()),
        ("dialog", DIALOG, Completed(1)),
        ("dialog", DIALOG, Dismissed()),
    ],
)
def test_a_question_and_its_answer_survive_as_json(kind: Any, wire: Any, answer: Any) -> None:
    question = QuestionRecord.of(kind, wire, session_id="s", agent_id="a1")
    copy = QuestionRecord.from_dict(json.loads(json.dumps(question.to_dict())))
    assert copy == question
    assert (copy.key, copy.summary) == (question.key, question.summary)
    reply = json.loads(json.dumps(copy.reply(answer)))
    assert copy.check(reply) == reply
    assert copy.check(copy.refusal("no")) == copy.refusal("no")
    assert copy.refusal() == copy.refusal("")
    with pytest.raises(ValueError, match=r"answer|decision|must be"):
        copy.reply(object())


def test_a_stored_answer_that_cannot_be_read_refuses() -> None:
    question = QuestionRecord.of("permission", BASH)
    assert isinstance(question.subject, PermissionRequest)
    assert question.tool_use_id == "t1"
    replies: list[object] = [{"behavior": "perhaps"}, [], None, {"behavior": "allow", "updatedInput": {}}]
    for broken in replies:
        assert question.check(broken) == question.reply(Deny("The stored answer could not be read."))


def test_the_key_is_the_same_when_the_model_repeats_the_question() -> None:
    again = BASH.replace(tool_use_id="t2", agent_id=None)
    other = BASH.replace(input={"command": "make all"})
    keys = {QuestionRecord.of("permission", wire).key for wire in (BASH, again)}
    assert len(keys) == 1
    assert QuestionRecord.of("permission", other).key not in keys

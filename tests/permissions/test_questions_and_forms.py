"""Questions, plans, elicitation and dialogs: what may be answered."""

import pickle
from typing import Any, cast

import pytest

from claude_agent_py import Allow, Deny
from claude_agent_py.control import CanUseToolRequest
from claude_agent_py.permissions import (
    Accept,
    Answers,
    Cancel,
    Completed,
    Decline,
    Dismissed,
    ElicitationRequest,
    Form,
    FormError,
    Plan,
    read_form,
)
from claude_agent_py.permissions.elicitation import read_elicitation
from claude_agent_py.permissions.prompts import read_dialog, read_plan
from claude_agent_py.permissions.questions import UNANSWERED, read_answers, read_questions

INPUT: dict[str, Any] = {
    "questions": [
        {
            "question": "Which color?",
            "header": "Color",
            "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cool"}],
            "multiSelect": False,
        },
        {
            "question": "Which sizes?",
            "header": "Size",
            "options": [{"label": "S", "description": "small"}, {"label": "L", "description": "large"}],
            "multiSelect": True,
        },
    ]
}


def asked(data: dict[str, Any] = INPUT, tool: str = "AskUserQuestion") -> CanUseToolRequest:
    return CanUseToolRequest(tool_name=tool, input=data, tool_use_id="t", requires_user_interaction=True)


def test_questions_are_typed() -> None:
    first, second = read_questions(asked())
    assert (first.question, first.header, first.multi_select) == ("Which color?", "Color", False)
    assert [option.label for option in second.options] == ["S", "L"]
    assert second.multi_select
    assert read_questions(asked({"questions": "?"})) == ()


FIRST, SECOND = read_questions(asked())


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        ({"Which color?": "Red", "Which sizes?": ["S", "L"]}, {"Which color?": "Red", "Which sizes?": "S, L"}),
        ({"Color": "Red"}, {"Which color?": "Red"}),
        ({"Size": "S"}, {"Which sizes?": "S"}),
        (["Green, if possible", ("L",)], {"Which color?": "Green, if possible", "Which sizes?": "L"}),
        ([None, ["S"]], {"Which sizes?": "S"}),
        (["Red"], {"Which color?": "Red"}),
        ([], {}),
        (Answers(["Red"]), {"Which color?": "Red"}),
    ],
)
def test_answers_go_into_the_input(value: Any, answers: dict[str, str]) -> None:
    assert read_answers(asked(), value) == {"behavior": "allow", "updatedInput": {**INPUT, "answers": answers}}


def test_notes_go_along() -> None:
    reply = read_answers(asked(), Answers({"Color": "Red"}, notes={"Color": "dark"}))
    assert reply["updatedInput"]["annotations"] == {"Which color?": {"notes": "dark"}}


def test_one_text_answers_a_single_question() -> None:
    single = {"questions": INPUT["questions"][:1]}
    assert read_answers(asked(single), "Red")["updatedInput"]["answers"] == {"Which color?": "Red"}


def test_no_answer_is_a_denial_that_says_so() -> None:
    assert read_answers(asked(), None) == {"behavior": "deny", "message": UNANSWERED}
    assert read_answers(asked(), Deny("later")) == {"behavior": "deny", "message": "later"}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("Red", "a string cannot answer 2"),
        ({"Which colour?": "Red"}, "'Which color\\?', 'Which sizes\\?'"),
        (["a", "b", "c"], "at most 2 answers, not 3"),
        ({"Color": ["Red", "Blue"]}, "takes one answer"),
        ({"Color": 3}, "type int"),
        ({"Size": ["S", 3]}, "string or a list"),
        (b"x", "answers must be a dict or a list"),
        (3, "answers must be a dict or a list"),
        (Answers({"Color": "Red"}, notes={"Colour": "x"}), "not the text or header"),
    ],
)
def test_an_invalid_answer_is_refused(value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_answers(asked(), value)


def test_a_plan_may_have_no_text() -> None:
    plan = read_plan(asked({"plan": "1. a", "planFilePath": "/p.md"}, "ExitPlanMode"))
    assert plan == Plan(text="1. a", file_path="/p.md", tool_use_id="t")
    assert read_plan(asked({}, "ExitPlanMode")).text == ""
    assert read_plan(asked({"plan": 3}, "ExitPlanMode")).text == ""


# Forms -----------------------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "name": {"type": "string", "title": "Name", "description": "yours", "minLength": 2, "maxLength": 5},
        "mail": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date"},
        "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l"}]},
        "weight": {"type": "number"},
        "ok": {"type": "boolean", "default": True},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "maxItems": 1},
        "other": {"type": "colour"},
    },
    "required": ["name"],
}


def test_a_form_has_fields_in_the_order_of_the_server() -> None:
    form = Form.of(SCHEMA, ["name", "age", "gone"])
    assert list(form.fields)[:3] == ["name", "age", "mail"]
    name = form.fields["name"]
    assert (name.title, name.description, name.required, name.type) == ("Name", "yours", True, "string")
    assert form.fields["ok"].default is True
    assert form.fields["color"].choices == {"r": "Red", "g": "Green"}
    assert form.fields["size"].choices == {"s": "Small", "l": "l"}
    assert form.fields["tags"].choices == {"x": "x", "y": "y"}


@pytest.mark.parametrize("schema", [None, {}, {"properties": 3}, {"properties": {"a": 3}}])
def test_a_strange_schema_makes_no_trouble(schema: Any) -> None:
    assert Form.of(schema).problems({}) == {}


@pytest.mark.parametrize(
    "content",
    [
        {"name": "Ada"},
        {"name": "Ada", "age": 36, "mail": "a@b.c", "day": "2026-11-20", "color": "r", "size": "l"},
        {"name": "Ada", "age": 36.0, "weight": 1.5, "ok": False, "tags": ["x"], "other": object()},
    ],
)
def test_an_answer_that_fits(content: dict[str, Any]) -> None:
    assert Form.of(SCHEMA).check(content) == content


@pytest.mark.parametrize(
    ("content", "field", "says"),
    [
        ({}, "name", "is missing"),
        ({"name": 3}, "name", "must be a string"),
        ({"name": "A"}, "name", "at least 2 characters"),
        ({"name": "Augusta"}, "name", "at most 5 characters"),
        ({"age": "36"}, "age", "must be a number"),
        ({"age": True}, "age", "must be a number"),
        ({"age": 1.5}, "age", "whole"),
        ({"age": float("inf")}, "age", "whole"),
        ({"age": -1}, "age", "at least 0"),
        ({"age": 151}, "age", "at most 150"),
        ({"mail": "me"}, "mail", "must be a email"),
        ({"day": "tomorrow"}, "day", "must be a date"),
        ({"color": "Red"}, "color", "one of r, g"),
        ({"size": "m"}, "size", "one of s, l"),
        ({"ok": "yes"}, "ok", "true or false"),
        ({"tags": "x"}, "tags", "list of strings"),
        ({"tags": ["z"]}, "tags", "some of x, y"),
        ({"tags": ["x", "y"]}, "tags", "at most 1"),
        ({"shoe": 42}, "shoe", "not a field of the form"),
    ],
)
def test_an_answer_that_does_not_fit(content: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(FormError) as caught:
        Form.of(SCHEMA).check(content)
    assert says in caught.value.problems[field]
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


def test_typed_text_becomes_values_of_the_form() -> None:
    texts = {"name": " Ada ", "age": "36", "weight": "1.5", "ok": "No", "tags": "x", "color": "", "mail": "a@b"}
    assert read_form(Form.of(SCHEMA), texts) == {
        "name": "Ada",
        "age": 36,
        "weight": 1.5,
        "ok": False,
        "tags": ["x"],
        "mail": "a@b",
    }
    with pytest.raises(FormError) as caught:
        read_form(Form.of(SCHEMA), {"name": "Ada", "age": "old", "ok": "maybe"})
    assert caught.value.problems == {"age": "must be a number", "ok": "must be yes or no"}
    with pytest.raises(FormError, match="not a field of the form"):
        read_form(Form.of(SCHEMA), {"name": "Ada", "shoe": "42"})


# Elicitation and dialogs -----------------------------------------------------------------------------------------

FORM = ElicitationRequest(server_name="e", message="who?", mode="form", requested_schema=SCHEMA)
PAGE = ElicitationRequest(server_name="e", mode="url", url="https://example.com", elicitation_id="el1")


def test_an_elicitation_is_typed() -> None:
    assert (FORM.server_name, FORM.message, FORM.mode, FORM.url) == ("e", "who?", "form", None)
    assert (PAGE.mode, PAGE.url, PAGE.elicitation_id, PAGE.form.fields) == ("url", "https://example.com", "el1", {})
    assert (PAGE.title, PAGE.display_name, PAGE.description) == (None, None, None)
    assert ElicitationRequest(server_name="e", url="https://x").mode == "url"


@pytest.mark.parametrize(
    ("request_", "value", "reply"),
    [
        (FORM, Accept({"name": "Ada"}), {"action": "accept", "content": {"name": "Ada"}}),
        (FORM, {"action": "accept", "content": {"name": "Ada"}}, {"action": "accept", "content": {"name": "Ada"}}),
        (FORM, {"action": "decline"}, {"action": "decline"}),
        (PAGE, {"action": "accept"}, {"action": "accept"}),
        (PAGE, {"action": "cancel"}, {"action": "cancel"}),
        (FORM, Decline(), {"action": "decline"}),
        (FORM, Cancel(), {"action": "cancel"}),
        (FORM, None, {"action": "cancel"}),
        (PAGE, Accept(), {"action": "accept"}),
        (PAGE, Accept({"ignored": 1}), {"action": "accept"}),
    ],
)
def test_answers_to_an_elicitation(request_: ElicitationRequest, value: Any, reply: dict[str, Any]) -> None:
    assert read_elicitation(request_, value) == reply


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Accept(), "name: is missing"),
        (Accept({"name": 3}), "name: must be a string"),
        (Accept(cast(Any, "x")), "content must be a dict"),
        (Accept({"name": object()}), "content must be valid JSON"),
        (True, "must be Accept.* not a value of type bool"),
        ({"name": "Ada"}, "a dict must be"),
        (Allow(), "not a value of type Allow"),
        ({"action": "accept"}, "name: is missing"),
        ({"action": "accept", "content": {"name": 3}}, "name: must be a string"),
        ({"action": "ok"}, "a dict must be"),
        ({"action": "accept", "x": 1}, "a dict must be"),
    ],
)
def test_an_invalid_answer_to_an_elicitation_is_refused(value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_elicitation(FORM, value)


def test_answers_to_a_dialog() -> None:
    assert read_dialog(Completed({"choice": 1})) == {"behavior": "completed", "result": {"choice": 1}}
    assert read_dialog(Completed()) == {"behavior": "completed", "result": None}
    assert read_dialog(Dismissed()) == {"behavior": "cancelled"}
    assert read_dialog(None) == {"behavior": "cancelled"}
    for wrong in ("yes", {"choice": 1}):
        with pytest.raises(ValueError, match=r"must be Completed\(\.\.\.\) or Dismissed\(\), not a value of type"):
            read_dialog(wrong)
    with pytest.raises(ValueError, match="the result of a dialog must be valid JSON"):
        read_dialog(Completed(object()))

"""Questions, plans, elicitation and dialogs: what may be answered."""

import pickle
import re
from typing import Any, cast

import pytest
from asking_cli import asking
from wire_values import as_json

from claude_agent_py import Allow, Deny
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

pytestmark = pytest.mark.anyio

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


def asked(data: dict[str, Any] = INPUT, tool: str = "AskUserQuestion") -> dict[str, Any]:
    """Return what the CLI asks about a call."""
    call = {"tool_name": tool, "input": data, "tool_use_id": "t", "requires_user_interaction": True}
    return {"subtype": "can_use_tool", **call}


async def reply_to(request: dict[str, Any], option: str, value: object) -> dict[str, Any]:
    """Return what the CLI is told if the handler of an option returns this."""
    async with asking(**{option: lambda asked, context: value}) as cli:
        reply = await cli.ask(request)
        assert not cli.client.handler_errors
    return reply


async def problem_of(request: dict[str, Any], option: str, value: object) -> str:
    """Return what is wrong with a value that the handler of an option returns."""
    async with asking(**{option: lambda asked, context: value}) as cli:
        await cli.ask(request)
        [error] = cli.client.handler_errors
    return str(error.__cause__)


async def seen_by(request: dict[str, Any], option: str) -> Any:
    """Return what the handler of an option gets."""
    seen: list[Any] = []
    async with asking(**{option: lambda asked, context: seen.append(asked)}) as cli:
        await cli.ask(request)
    return seen[0]


async def test_questions_are_typed() -> None:
    first, second = await seen_by(asked(), "on_question")
    assert (first.question, first.header, first.multi_select) == ("Which color?", "Color", False)
    assert [option.label for option in second.options] == ["S", "L"]
    assert second.multi_select
    assert await seen_by(asked({"questions": "?"}), "on_question") == ()


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
async def test_answers_go_into_the_input(value: Any, answers: dict[str, str]) -> None:
    assert await reply_to(asked(), "on_question", value) == {
        "behavior": "allow",
        "updatedInput": {**INPUT, "answers": answers},
    }


async def test_notes_go_along() -> None:
    reply = await reply_to(asked(), "on_question", Answers({"Color": "Red"}, notes={"Color": "dark"}))
    assert reply["updatedInput"]["annotations"] == {"Which color?": {"notes": "dark"}}


async def test_one_text_answers_a_single_question() -> None:
    single = {"questions": INPUT["questions"][:1]}
    assert (await reply_to(asked(single), "on_question", "Red"))["updatedInput"]["answers"] == {"Which color?": "Red"}


async def test_no_answer_is_a_denial_that_says_so() -> None:
    denied = await reply_to(asked(), "on_question", None)
    assert (denied["behavior"], "did not answer" in denied["message"]) == ("deny", True)
    assert await reply_to(asked(), "on_question", Deny("later")) == {"behavior": "deny", "message": "later"}


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
        (Answers({"Color": "Red"}, notes=cast("Any", {"Color": 5})), "notes must be a dict of texts"),
        (Answers({"Color": "Red"}, notes=cast("Any", "dark")), "notes must be a dict of texts"),
    ],
)
async def test_an_invalid_answer_is_refused(value: Any, says: str) -> None:
    assert re.search(says, await problem_of(asked(), "on_question", value))


async def test_a_plan_may_have_no_text() -> None:
    plan = await seen_by(asked({"plan": "1. a", "planFilePath": "/p.md"}, "ExitPlanMode"), "on_plan")
    assert plan == Plan(text="1. a", file_path="/p.md", tool_use_id="t")
    assert (await seen_by(asked({}, "ExitPlanMode"), "on_plan")).text == ""
    assert (await seen_by(asked({"plan": 3}, "ExitPlanMode"), "on_plan")).text == ""


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


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"properties": 3},
        {"properties": {"a": 3}},
        {"properties": {"a": {"oneOf": [3, "const"]}, "b": {"items": {"anyOf": [None]}}}},
        {"properties": {"a": {}}, "required": 3},
    ],
)
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
        ({"age": float("inf")}, "age", "finite"),
        ({"age": 10**400}, "age", "at most 150"),
        ({"weight": float("nan")}, "weight", "finite"),
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
async def test_answers_to_an_elicitation(request_: ElicitationRequest, value: Any, reply: dict[str, Any]) -> None:
    assert await reply_to(as_json(request_), "on_elicitation", value) == reply


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
async def test_an_invalid_answer_to_an_elicitation_is_refused(value: Any, says: str) -> None:
    assert re.search(says, await problem_of(as_json(FORM), "on_elicitation", value))


async def test_answers_to_a_dialog() -> None:
    dialog = {"subtype": "request_user_dialog", "dialog_kind": "refusal_fallback_prompt", "payload": {}}
    for value, reply in (
        (Completed({"choice": 1}), {"behavior": "completed", "result": {"choice": 1}}),
        (Completed(), {"behavior": "completed", "result": None}),
        (Dismissed(), {"behavior": "cancelled"}),
        (None, {"behavior": "cancelled"}),
    ):
        assert await reply_to(dialog, "on_user_dialog", value) == reply
    for wrong in ("yes", {"choice": 1}):
        problem = await problem_of(dialog, "on_user_dialog", wrong)
        assert "must be Completed(...) or Dismissed(), not a value of type" in problem
    problem = await problem_of(dialog, "on_user_dialog", Completed(object()))
    assert "the result of a dialog must be valid JSON" in problem

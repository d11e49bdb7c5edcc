"""Answering what the CLI asks a person, above all when a handler fails."""

import os
import platform
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest
from folding import Desk
from msgspec.structs import replace

from claude_agent_py import Allow, ClientOptions, Deny, PermissionContext, PermissionRequest, read_only
from claude_agent_py.control import (
    CanUseToolRequest,
    ControlCancelRequest,
    ControlRequest,
    ControlResponse,
    ControlSuccess,
    UserDialogRequest,
)
from claude_agent_py.errors import HandlerError, OptionsError
from claude_agent_py.permissions import Accept, Completed, ElicitationRequest, Inbox, PendingInteractions, Plan, ask
from claude_agent_py.permissions.dispatcher import PermissionDispatcher
from claude_agent_py.tasks import Answered, Asked, TaskAnswered, TaskAsked, TaskStatusChanged
from claude_agent_py.testing import frames
from claude_agent_py.tools import BashInput

pytestmark = pytest.mark.anyio

BASH = CanUseToolRequest(tool_name="Bash", input={"command": "rm -rf /"}, tool_use_id="t1", agent_id="a1")
QUESTION = CanUseToolRequest(
    tool_name="AskUserQuestion",
    input={"questions": [{"question": "Which?", "header": "W", "options": [{"label": "A"}, {"label": "B"}]}]},
    tool_use_id="t2",
)
PLAN = CanUseToolRequest(tool_name="ExitPlanMode", input={"plan": "1. a"}, tool_use_id="t3")
FORM = ElicitationRequest(server_name="e", message="?", requested_schema={"properties": {"n": {"type": "integer"}}})
DIALOG = UserDialogRequest(dialog_kind="refusal_fallback_prompt", payload={"a": 1}, tool_use_id="t4")
CONTEXT = PermissionContext(request_id="r1", agent_id="a1", task=cast(Any, "a task"), cwd="/repo")


class Session:
    """A dispatcher, what it reported, and the events of the task `a1`."""

    def __init__(self, **how: Any) -> None:
        self.errors: list[HandlerError] = []
        self.desk = Desk()
        self.desk.fold(frames.task_started("a1"))
        self.threads: list[int] = []
        self.desk.tasks.watch(lambda *changes: self.threads.append(threading.get_ident()))
        self.dispatcher = PermissionDispatcher(
            {option: how.pop(option) for option in OPTIONS if option in how},
            report=self.errors.append,
            **how,
        )

    @property
    def waits(self) -> list[Any]:
        """The questions to a person, their answers, and the statuses of the task."""
        found: list[Any] = []
        for event in self.desk.events:
            match event:
                case TaskAsked(asked=asked):
                    found.append(asked)
                case TaskAnswered(answered=answered):
                    found.append(answered)
                case TaskStatusChanged(new=status):
                    found.append(str(status))
        return found

    async def ask(self, request: Any) -> dict[str, Any]:
        with anyio.fail_after(30):
            cancellation = type(CONTEXT.cancellation)()
            tool_use_id = getattr(request, "tool_use_id", None)
            track = self.desk.intake.track
            context = replace(
                CONTEXT, cancellation=cancellation, tool_use_id=tool_use_id, _request=request, _tell=track
            )
            track(ControlRequest(request_id="r1", request=request))
            end: Any = ControlCancelRequest(request_id="r1")
            try:
                reply: dict[str, Any] = await self.dispatcher.answer(request, context)
                end = ControlResponse(response=ControlSuccess(request_id="r1", response=reply))
            finally:
                track(end)
        return reply


def is_denied(reply: dict[str, Any]) -> bool:
    """Return whether the CLI would take a reply for a denial: it wants a message."""
    return reply["behavior"] == "deny" and bool(reply["message"])


# Handlers --------------------------------------------------------------------------------------------------------


async def test_a_handler_gets_a_typed_request_and_a_context() -> None:
    seen: list[Any] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        seen.extend((request, context))
        return Allow(updated_input=BashInput(command="ls"))

    session = Session(can_use_tool=decide)
    assert await session.ask(BASH) == {"behavior": "allow", "updatedInput": {"command": "ls"}}
    request, context = seen
    assert request.input == BashInput(command="rm -rf /")
    assert request.task == "a task"
    assert (context.request_id, context.agent_id, context.task) == ("r1", "a1", "a task")
    assert (context.tool_use_id, context.cwd, context.cancelled) == ("t1", "/repo", False)
    assert session.waits == []


async def test_each_kind_has_its_handler() -> None:
    seen: list[Any] = []

    def keep(answer: Any) -> Any:
        async def handler(subject: Any, context: PermissionContext) -> Any:
            seen.append((subject, context.tool_use_id))
            return answer

        return handler

    session = Session(
        can_use_tool=keep(Deny("no")),
        on_question=keep({"Which?": "A"}),
        on_plan=keep(Allow()),
        on_elicitation=keep(Accept({"n": 3})),
        on_user_dialog=keep(Completed("x")),
    )
    assert await session.ask(BASH) == {"behavior": "deny", "message": "no"}
    assert (await session.ask(QUESTION))["updatedInput"]["answers"] == {"Which?": "A"}
    mode = {"type": "setMode", "mode": "default", "destination": "session"}
    assert await session.ask(PLAN) == {"behavior": "allow", "updatedPermissions": [mode]}
    assert await session.ask(FORM) == {"action": "accept", "content": {"n": 3}}
    assert await session.ask(DIALOG) == {"behavior": "completed", "result": "x"}
    assert [tool_use_id for _, tool_use_id in seen] == ["t1", "t2", "t3", None, "t4"]
    assert seen[1][0][0].question == "Which?"
    assert seen[2][0] == Plan(text="1. a", tool_use_id="t3")
    assert isinstance(seen[3][0], ElicitationRequest)
    assert seen[4][0].payload == {"a": 1}


RULE = {"type": "addDirectories", "directories": ["/x"], "destination": "session"}
EDITS = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
DEFAULT = {"type": "setMode", "mode": "default", "destination": "session"}


@pytest.mark.parametrize(
    ("decision", "updates"),
    [
        (Allow(updated_permissions=[RULE]), [RULE, DEFAULT]),
        (Allow(updated_permissions=[RULE, EDITS]), [RULE, EDITS]),
        (Deny("no"), None),
    ],
)
async def test_an_approved_plan_runs_in_the_mode_that_was_chosen(decision: Any, updates: Any) -> None:
    reply = await Session(on_plan=lambda plan, context: decision).ask(PLAN)
    assert reply.get("updatedPermissions") == updates


async def test_questions_to_a_person_show_that_a_person_is_waited_for() -> None:
    session = Session(on_question=lambda questions, context: ["A"], can_use_tool=ask(lambda request, context: Allow()))
    await session.ask(QUESTION)
    await session.ask(BASH)
    assert session.waits == [
        "awaiting_user",
        Asked("Which?", "question"),
        Answered({"behavior": "allow", "answers": {"Which?": "A"}}, "<lambda>", "on_question"),
        "running",
        "awaiting_user",
        Asked("Bash: rm -rf /", "permission"),
        Answered({"behavior": "allow"}, "ask", "can_use_tool"),
        "running",
    ]


async def test_a_plain_handler_can_say_so_itself_and_it_is_reported_in_the_event_loop() -> None:
    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        with context.awaiting_user():
            return Allow()

    session = Session(can_use_tool=decide)
    await session.ask(BASH)
    answered = Answered({"behavior": "allow"}, "decide", "can_use_tool")
    assert session.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission"), answered, "running"]
    assert set(session.threads) == {threading.get_ident()}


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_handler_that_takes_longer_than_a_moment_waits_for_a_person(kind: str) -> None:
    def decide(request: PermissionRequest, context: PermissionContext) -> Deny:
        while not session.waits:
            time.sleep(0.01)
        return Deny("no")

    async def decide_async(request: PermissionRequest, context: PermissionContext) -> Deny:
        while not session.waits:
            await anyio.sleep(0.01)
        with context.awaiting_user():  # which is known
            return Deny("no")

    session = Session(can_use_tool=decide if kind == "plain" else decide_async)
    with anyio.fail_after(60):
        await session.ask(BASH)
    name = "decide" if kind == "plain" else "decide_async"
    answered = Answered({"behavior": "deny", "message": "no"}, name, "can_use_tool")
    assert session.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission"), answered, "running"]
    assert set(session.threads) == {threading.get_ident()}


async def test_a_handler_that_asks_a_person_after_its_answer_changes_nothing() -> None:
    seen: list[PermissionContext] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        seen.append(context)
        return Allow()

    session = Session(can_use_tool=decide)
    await session.ask(BASH)
    with seen[0].awaiting_user():
        assert session.waits == []
    assert seen[0].request == BASH
    assert repr(seen[0]).startswith("PermissionContext(request_id='r1', agent_id='a1'")
    assert "rm -rf" not in repr(seen[0])
    with pytest.raises(AttributeError):
        seen[0].agent_id = "a2"  # type: ignore[misc]


async def test_a_withdrawn_question_does_not_resume_the_task() -> None:
    async def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        with context.awaiting_user():
            scope.cancel()
            await anyio.sleep_forever()
        return Allow()

    session = Session(can_use_tool=decide)
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        await session.ask(BASH)
    assert session.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission")]


async def test_without_handlers_everything_is_refused() -> None:
    session = Session()
    for request in (BASH, QUESTION, PLAN):
        assert is_denied(await session.ask(request))
    assert await session.ask(FORM) == {"action": "cancel"}
    assert await session.ask(DIALOG) == {"behavior": "cancelled"}
    assert session.errors == []


async def test_questions_and_plans_fall_back_to_can_use_tool() -> None:
    session = Session(can_use_tool=lambda request, context: Deny(request.tool_name))
    assert (await session.ask(QUESTION))["message"] == "AskUserQuestion"
    assert (await session.ask(PLAN))["message"] == "ExitPlanMode"


async def test_no_opinion_is_a_denial() -> None:
    session = Session(can_use_tool=read_only())
    assert is_denied(await session.ask(BASH))
    assert session.errors == []


# Failing ---------------------------------------------------------------------------------------------------------


async def raises(subject: Any, context: PermissionContext) -> Any:
    raise RuntimeError("sk-secret")


def raises_in_a_thread(subject: Any, context: PermissionContext) -> Any:
    raise RuntimeError("sk-secret")


def returns_true(subject: Any, context: PermissionContext) -> Any:
    return True


def returns_the_wire_reply(subject: Any, context: PermissionContext) -> Any:
    return {"behavior": "allow"}


def allows_what_is_no_json(subject: Any, context: PermissionContext) -> Any:
    return Allow(updated_input={"command": object()})


OPTIONS = ["can_use_tool", "on_question", "on_plan", "on_elicitation", "on_user_dialog"]
REQUESTS = dict(zip(OPTIONS, [BASH, QUESTION, PLAN, FORM, DIALOG], strict=True))
REFUSALS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "can_use_tool": is_denied,
    "on_question": is_denied,
    "on_plan": is_denied,
    "on_elicitation": lambda reply: reply == {"action": "cancel"},
    "on_user_dialog": lambda reply: reply == {"behavior": "cancelled"},
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "failing",
    [raises, raises_in_a_thread, returns_true, returns_the_wire_reply, allows_what_is_no_json],
)
async def test_a_handler_that_fails_refuses_and_reports_once(option: str, failing: Any) -> None:
    session = Session(**{option: failing})
    reply = await session.ask(REQUESTS[option])
    assert REFUSALS[option](reply)
    assert "sk-secret" not in str(reply)
    assert [failing.__name__ in error.handler for error in session.errors] == [True]


@pytest.mark.parametrize(
    "handler",
    [
        lambda *given: Deny("no") if given[0] == "Bash" else Allow(),
        lambda name, data: Allow() if name != "Bash" else Deny("no"),
        lambda name, data: Deny("no") if name in ("Bash", "Write") else Allow(),
        lambda name, data: {"Bash": Deny("no")}.get(name, Allow()),
    ],
)
async def test_a_handler_that_takes_the_request_for_a_name_refuses(handler: Any) -> None:
    """A callback of the official SDK that its parameters do not show."""
    session = Session(can_use_tool=handler)
    assert is_denied(await session.ask(BASH))
    assert len(session.errors) == 1


def test_a_request_that_is_compared_with_a_text_says_how_to_port_the_callback() -> None:
    request = PermissionRequest(BASH)
    with pytest.raises(TypeError, match=r"compared with 'Bash'.* read request\.tool_name"):
        _ = request == "Bash"
    assert (request == PermissionRequest(BASH), request == PermissionRequest(PLAN), request == 1) == (
        True,
        False,
        False,
    )


async def test_the_refusal_of_a_handler_that_fails_answers_the_question_to_a_person() -> None:
    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        with context.awaiting_user():
            raise RuntimeError("no terminal")

    session = Session(can_use_tool=decide)
    reply = await session.ask(BASH)
    answered = Answered(reply, "decide", "can_use_tool")
    assert session.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission"), answered, "running"]


async def test_a_failure_of_one_handler_does_not_ask_the_inbox() -> None:
    session = Session(can_use_tool=raises, interactions=True)
    assert is_denied(await session.ask(BASH))


async def test_a_withdrawn_question_cancels_the_handler() -> None:
    started, seen = anyio.Event(), []
    context = PermissionContext(request_id="r2")

    async def waits(request: PermissionRequest, context: PermissionContext) -> Any:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(context.cancelled)

    session = Session(can_use_tool=waits)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(session.dispatcher.answer, BASH, context)
            await started.wait()
            context.cancellation.set()
            group.cancel_scope.cancel()
    assert seen == [True]
    assert session.errors == []


# Construction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("handler", [3, Allow(), lambda: None, lambda request: None, lambda tool, data, context: None])
def test_an_invalid_handler_is_refused_with_the_name_of_its_option(option: str, handler: Any) -> None:
    with pytest.raises(OptionsError) as caught:
        ClientOptions(**{option: handler})
    assert caught.value.option == option


def test_an_invalid_inbox_is_refused() -> None:
    with pytest.raises(OptionsError, match="interactions"):
        ClientOptions(interactions=cast(Any, "inbox.db"))


def test_true_makes_an_inbox() -> None:
    assert isinstance(Session(interactions=True).dispatcher.interactions, PendingInteractions)
    assert Session(interactions=False).dispatcher.interactions is None


# With an inbox ---------------------------------------------------------------------------------------------------


async def test_an_undecided_call_waits_in_the_inbox() -> None:
    inbox = PendingInteractions()
    session = Session(can_use_tool=read_only(), interactions=inbox)
    reply: list[Any] = []

    async def ask_session() -> None:
        reply.append(await session.ask(BASH))

    assert (await session.ask(CanUseToolRequest(tool_name="Read", tool_use_id="t"))) == {"behavior": "allow"}
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask_session)
            async for interaction in inbox.arrivals():
                assert session.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission", interaction.id)]
                assert await interaction.answer(Allow(), by="Ann")
                break
    assert reply == [{"behavior": "allow"}]
    *_, answered, status = session.waits
    assert status == "running"
    assert (answered.answer, answered.by) == ({"behavior": "allow"}, "Ann")
    assert answered.origin == f"process {os.getpid()} on {platform.node()}"
    assert answered.interaction_id == interaction.id


async def test_a_handler_that_edits_the_input_in_place_changes_nothing_for_the_inbox() -> None:
    def edit(request: PermissionRequest, context: PermissionContext) -> None:
        request.raw_input["command"] = "ls"

    inbox = PendingInteractions()
    session = Session(can_use_tool=edit, interactions=inbox)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(session.ask, BASH)
            async for interaction in inbox.arrivals():
                assert isinstance(interaction.subject, PermissionRequest)
                assert interaction.subject.raw_input == {"command": "rm -rf /"}
                assert await interaction.answer(Deny())
                break


async def test_an_inbox_that_does_not_report_its_wait_waits_for_a_person_after_a_moment() -> None:
    class Silent(Inbox):
        def arrivals(self) -> Any:
            raise NotImplementedError

        def __iter__(self) -> Any:
            return iter(())

        async def ask(self, kind: Any, wire: Any, context: Any) -> Any:
            while not session.waits:
                await anyio.sleep(0.01)
            return {"behavior": "allow"}

    session = Session(interactions=Silent())
    assert await session.ask(BASH) == {"behavior": "allow"}
    assert session.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission"), "running"]


async def test_an_inbox_that_fails_refuses() -> None:
    class Broken(Inbox):
        def arrivals(self) -> Any:
            raise OSError

        def __iter__(self) -> Any:
            return iter(())

        async def ask(self, kind: Any, wire: Any, context: Any) -> Any:
            with context.awaiting_user():
                raise OSError("disk full")

    session = Session(interactions=Broken())
    assert is_denied(await session.ask(BASH))
    assert await session.ask(FORM) == {"action": "cancel"}
    assert [error.handler for error in session.errors] == ["interactions", "interactions"]
    refused = next(each for each in session.waits if isinstance(each, Answered))
    assert (refused.by, refused.origin, refused.answer["behavior"]) == ("", "interactions", "deny")

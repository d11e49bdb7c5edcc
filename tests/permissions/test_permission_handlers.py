"""Answering what the CLI asks a person, above all when a handler fails."""

import os
import platform
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from asking_cli import AskingCLI, asking

from claude_agent_py import Allow, ClientOptions, Deny, PermissionContext, PermissionRequest, read_only
from claude_agent_py.control import CanUseToolRequest
from claude_agent_py.errors import HandlerError, OptionsError
from claude_agent_py.permissions import Accept, Completed, ElicitationRequest, Inbox, PendingInteractions, Plan, ask
from claude_agent_py.tasks import Answered, Asked, TaskAnswered, TaskAsked, TaskEvent, TaskStatusChanged
from claude_agent_py.testing import frames
from claude_agent_py.tools import BashInput

pytestmark = pytest.mark.anyio


def call(tool_name: str, tool_use_id: str, **arguments: Any) -> dict[str, Any]:
    """Return a request of the subagent `a1`."""
    fields = {"tool_name": tool_name, "input": arguments, "tool_use_id": tool_use_id, "agent_id": "a1"}
    return {"subtype": "can_use_tool", **fields}


BASH = call("Bash", "t1", command="rm -rf /")
WHICH = {"question": "Which?", "header": "W", "options": [{"label": "A"}, {"label": "B"}]}
QUESTION = call("AskUserQuestion", "t2", questions=[WHICH])
PLAN = call("ExitPlanMode", "t3", plan="1. a")
SCHEMA = {"properties": {"n": {"type": "integer"}}}
FORM = {"subtype": "elicitation", "mcp_server_name": "e", "message": "?", "requested_schema": SCHEMA}
DIALOG = {
    "subtype": "request_user_dialog",
    "dialog_kind": "refusal_fallback_prompt",
    "payload": {"a": 1},
    "tool_use_id": "t4",
}


class Session:
    """A client whose CLI asks, and the events of the task `a1`."""

    def __init__(self, cli: AskingCLI) -> None:
        self.cli = cli
        self.events: list[TaskEvent] = []
        self.threads: list[int] = []
        self.stop = cli.client.tasks.watch(self._note)
        """Note nothing more."""

    def _note(self, _: object, events: Sequence[TaskEvent]) -> None:
        self.events += events
        self.threads.append(threading.get_ident())

    @property
    def errors(self) -> Sequence[HandlerError]:
        return self.cli.client.handler_errors

    @property
    def waits(self) -> list[Any]:
        """The questions to a person, their answers, and the statuses of the task."""
        found: list[Any] = []
        for event in self.events:
            match event:
                case TaskAsked(asked=asked):
                    found.append(asked)
                case TaskAnswered(answered=answered):
                    found.append(answered)
                case TaskStatusChanged(new=status):
                    found.append(str(status))
        return found

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Have the CLI ask, and return the reply."""
        reply = await self.cli.ask(request)
        await self.settle()
        return reply

    async def settle(self) -> None:
        """Wait until the client has read what the CLI has said, and noted what it has answered."""
        await self.cli.client.control("anything")
        await anyio.wait_all_tasks_blocked()


@asynccontextmanager
async def session(**options: Any) -> AsyncIterator[Session]:
    """Open a session whose subagent `a1` runs."""
    async with asking(**options) as cli:
        cli.say(frames.task_started("a1"))
        made = Session(cli)
        await made.settle()
        made.events.clear()
        yield made
        made.stop()
        cli.say(*frames.task_end("a1"))
        await made.settle()


def is_denied(reply: dict[str, Any]) -> bool:
    """Return whether the CLI would take a reply for a denial: it wants a message."""
    return reply["behavior"] == "deny" and bool(reply["message"])


# Handlers --------------------------------------------------------------------------------------------------------


async def test_a_handler_gets_a_typed_request_and_a_context(tmp_path: Path) -> None:
    seen: list[Any] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        seen.extend((request, context))
        return Allow(updated_input=BashInput(command="ls"))

    async with session(can_use_tool=decide, cwd=tmp_path) as one:
        assert await one.ask(BASH) == {"behavior": "allow", "updatedInput": {"command": "ls"}}
        request, context = seen
        assert request.input == BashInput(command="rm -rf /")
        assert request.task is one.cli.client.tasks["a1"]
        assert (context.request_id, context.agent_id, context.task) == ("r1", "a1", request.task)
        assert (context.tool_use_id, context.cwd, context.cancelled) == ("t1", str(tmp_path), False)
        assert one.waits == []


async def test_each_kind_has_its_handler() -> None:
    seen: list[Any] = []

    def keep(answer: Any) -> Any:
        async def handler(subject: Any, context: PermissionContext) -> Any:
            seen.append((subject, context.tool_use_id))
            return answer

        return handler

    handlers = {
        "can_use_tool": keep(Deny("no")),
        "on_question": keep({"Which?": "A"}),
        "on_plan": keep(Allow()),
        "on_elicitation": keep(Accept({"n": 3})),
        "on_user_dialog": keep(Completed("x")),
    }
    async with session(**handlers) as one:
        assert await one.ask(BASH) == {"behavior": "deny", "message": "no"}
        assert (await one.ask(QUESTION))["updatedInput"]["answers"] == {"Which?": "A"}
        mode = {"type": "setMode", "mode": "default", "destination": "session"}
        assert await one.ask(PLAN) == {"behavior": "allow", "updatedPermissions": [mode]}
        assert await one.ask(FORM) == {"action": "accept", "content": {"n": 3}}
        assert await one.ask(DIALOG) == {"behavior": "completed", "result": "x"}
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
    async with session(on_plan=lambda plan, context: decision) as one:
        assert (await one.ask(PLAN)).get("updatedPermissions") == updates


async def test_questions_to_a_person_show_that_a_person_is_waited_for() -> None:
    handlers = {
        "on_question": lambda questions, context: ["A"],
        "can_use_tool": ask(lambda request, context: Allow()),
    }
    async with session(**handlers) as one:
        await one.ask(QUESTION)
        await one.ask(BASH)
    assert one.waits == [
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

    async with session(can_use_tool=decide) as one:
        await one.ask(BASH)
    answered = Answered({"behavior": "allow"}, "decide", "can_use_tool")
    assert one.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission"), answered, "running"]
    assert set(one.threads) == {threading.get_ident()}


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_handler_that_takes_longer_than_a_moment_waits_for_a_person(kind: str) -> None:
    def decide(request: PermissionRequest, context: PermissionContext) -> Deny:
        while not one.waits:
            time.sleep(0.01)
        return Deny("no")

    async def decide_async(request: PermissionRequest, context: PermissionContext) -> Deny:
        while not one.waits:
            await anyio.sleep(0.01)
        with context.awaiting_user():  # which is known
            return Deny("no")

    async with session(can_use_tool=decide if kind == "plain" else decide_async) as one:
        await one.ask(BASH)
    name = "decide" if kind == "plain" else "decide_async"
    answered = Answered({"behavior": "deny", "message": "no"}, name, "can_use_tool")
    assert one.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission"), answered, "running"]
    assert set(one.threads) == {threading.get_ident()}


async def test_a_handler_that_asks_a_person_after_its_answer_changes_nothing() -> None:
    seen: list[PermissionContext] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        seen.append(context)
        return Allow()

    async with session(can_use_tool=decide) as one:
        await one.ask(BASH)
        with seen[0].awaiting_user():
            assert one.waits == []
    assert isinstance(seen[0].request, CanUseToolRequest)
    assert seen[0].request.input == {"command": "rm -rf /"}
    assert repr(seen[0]).startswith("PermissionContext(request_id='r1', agent_id='a1'")
    assert "rm -rf" not in repr(seen[0])
    with pytest.raises(AttributeError):
        seen[0].agent_id = "a2"  # type: ignore[misc]


async def test_a_withdrawn_question_does_not_resume_the_task() -> None:
    async def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        with context.awaiting_user():
            one.cli.say(frames.control_cancel(context.request_id))
            await anyio.sleep_forever()
        return Allow()

    async with session(can_use_tool=decide) as one:
        one.cli.start_asking(BASH)
        await one.settle()
        await one.settle()
        assert one.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission")]


async def test_without_handlers_everything_is_refused() -> None:
    async with session() as one:
        for request in (BASH, QUESTION, PLAN):
            assert is_denied(await one.ask(request))
        assert await one.ask(FORM) == {"action": "cancel"}
        assert await one.ask(DIALOG) == {"behavior": "cancelled"}
        assert not one.errors


async def test_questions_and_plans_fall_back_to_can_use_tool() -> None:
    async with session(can_use_tool=lambda request, context: Deny(request.tool_name)) as one:
        assert (await one.ask(QUESTION))["message"] == "AskUserQuestion"
        assert (await one.ask(PLAN))["message"] == "ExitPlanMode"


async def test_no_opinion_is_a_denial() -> None:
    async with session(can_use_tool=read_only()) as one:
        assert is_denied(await one.ask(BASH))
        assert not one.errors


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
    async with session(**{option: failing}) as one:
        reply = await one.ask(REQUESTS[option])
        assert REFUSALS[option](reply)
        assert "sk-secret" not in str(reply)
        assert [failing.__name__ in error.handler for error in one.errors] == [True]


@pytest.mark.parametrize(
    "handler",
    [
        lambda *given: Deny("no") if given[0] == "Bash" else Allow(),
        lambda name, data: Allow() if name != "Bash" else Deny("no"),
        lambda name, data: Deny("no") if name in ("Bash", "Write") else Allow(),
        lambda name, data: {"Bash": Deny("no")}.get(name, Allow()),
    ],
)
async def test_a_handler_that_takes_the_request_for_a_name_refuses(handler: Any, swallowed_faults: list[str]) -> None:
    """A callback of the official SDK that its parameters do not show."""
    async with session(can_use_tool=handler) as one:
        assert is_denied(await one.ask(BASH))
        assert len(one.errors) == 1
    swallowed_faults.clear()  # the comparison is in the package


def test_a_request_that_is_compared_with_a_text_says_how_to_port_the_callback() -> None:
    bash, plan = (CanUseToolRequest(tool_name=name, tool_use_id="t") for name in ("Bash", "ExitPlanMode"))
    request = PermissionRequest(bash)
    with pytest.raises(TypeError, match=r"compared with 'Bash'.* read request\.tool_name"):
        _ = request == "Bash"
    assert (request == PermissionRequest(bash), request == PermissionRequest(plan), request == 1) == (
        True,
        False,
        False,
    )


async def test_the_refusal_of_a_handler_that_fails_answers_the_question_to_a_person() -> None:
    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        with context.awaiting_user():
            raise RuntimeError("no terminal")

    async with session(can_use_tool=decide) as one:
        reply = await one.ask(BASH)
    answered = Answered(reply, "decide", "can_use_tool")
    assert one.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission"), answered, "running"]


async def test_a_failure_of_one_handler_does_not_ask_the_inbox() -> None:
    async with session(can_use_tool=raises, interactions=True) as one:
        assert is_denied(await one.ask(BASH))


async def test_a_withdrawn_question_cancels_the_handler() -> None:
    started, ended, seen = anyio.Event(), anyio.Event(), list[bool]()

    async def waits(request: PermissionRequest, context: PermissionContext) -> Any:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(context.cancelled)
            ended.set()

    async with session(can_use_tool=waits) as one:
        request_id = one.cli.start_asking(BASH)
        await started.wait()
        one.cli.say(frames.control_cancel(request_id))
        await ended.wait()
        await one.settle()
        assert seen == [True]
        assert not one.errors


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


async def test_true_makes_an_inbox() -> None:
    async with session(interactions=True) as one:
        assert isinstance(one.cli.client.interactions, PendingInteractions)
    async with session(interactions=False) as one:
        with pytest.raises(OptionsError, match="interactions"):
            _ = one.cli.client.interactions


# With an inbox ---------------------------------------------------------------------------------------------------


async def test_an_undecided_call_waits_in_the_inbox() -> None:
    inbox = PendingInteractions()
    async with session(can_use_tool=read_only(), interactions=inbox) as one:
        assert (await one.ask(call("Read", "t"))) == {"behavior": "allow"}
        request_id = one.cli.start_asking(BASH)
        async for interaction in inbox.arrivals():
            assert one.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission", interaction.id)]
            assert await interaction.answer(Allow(), by="Ann")
            break
        assert await one.cli.reply_to(request_id) == {"behavior": "allow"}
        await one.settle()
    *_, answered, status = one.waits
    assert status == "running"
    assert (answered.answer, answered.by) == ({"behavior": "allow"}, "Ann")
    assert answered.origin == f"process {os.getpid()} on {platform.node()}"
    assert answered.interaction_id == interaction.id


async def test_a_handler_that_edits_the_input_in_place_changes_nothing_for_the_inbox() -> None:
    def edit(request: PermissionRequest, context: PermissionContext) -> None:
        request.raw_input["command"] = "ls"

    inbox = PendingInteractions()
    async with session(can_use_tool=edit, interactions=inbox) as one:
        one.cli.start_asking(BASH)
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
            while not one.waits:
                await anyio.sleep(0.01)
            return {"behavior": "allow"}

    async with session(interactions=Silent()) as one:
        assert await one.ask(BASH) == {"behavior": "allow"}
    assert one.waits == ["awaiting_user", Asked("Bash: rm -rf /", "permission"), "running"]


async def test_an_inbox_that_fails_refuses() -> None:
    class Broken(Inbox):
        def arrivals(self) -> Any:
            raise OSError

        def __iter__(self) -> Any:
            return iter(())

        async def ask(self, kind: Any, wire: Any, context: Any) -> Any:
            with context.awaiting_user():
                raise OSError("disk full")

    async with session(interactions=Broken()) as one:
        assert is_denied(await one.ask(BASH))
        assert await one.ask(FORM) == {"action": "cancel"}
        assert [error.handler for error in one.errors] == ["interactions", "interactions"]
    refused = next(each for each in one.waits if isinstance(each, Answered))
    assert (refused.by, refused.origin, refused.answer["behavior"]) == ("", "interactions", "deny")

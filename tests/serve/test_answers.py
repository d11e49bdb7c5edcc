"""Questions of a served session, and the answers that fit them, with a scripted CLI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from questions import asking
from test_sessions import is_end, read_until

from claude_agent_py import ClientOptions
from claude_agent_py.errors import OptionsError
from claude_agent_py.pool import Pool
from claude_agent_py.serve import ServedSession, Sessions
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = pytest.mark.anyio

RULE = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}],
    "behavior": "allow",
    "destination": "session",
}


def shell(**more: Any) -> Any:
    return frames.can_use_tool("q1", "Bash", input={"command": "ls"}, tool_use_id="t1", **more)


class Asked:
    """A question that a session has asked."""

    def __init__(self, fake: FakeCLI, session: ServedSession, question: Any) -> None:
        self._fake = fake
        self._session = session
        self.question = question

    async def answer(self, **answer: Any) -> bool:
        return await self._session.answer(self.question["question"], answer, by="ann")

    async def reply(self) -> Any:
        """Wait until the turn has ended, and return what the CLI got."""
        await read_until(self._session, is_end)
        [reply] = self._fake.received_like({"type": "control_response", "response": {"request_id": "q1"}})
        return reply["response"]["response"]


@asynccontextmanager
async def asked(folder: Path, request: Any) -> AsyncIterator[Asked]:
    """Have the CLI ask something in a turn."""
    fake = FakeCLI(steps.wait_for_prompt(), frames.init(), request, steps.wait_for_reply("q1"), frames.result())
    async with Sessions(ClientOptions(cli_path=fake.install(folder), cwd=folder)) as sessions:
        session = await sessions.create()
        await session.send("go")
        found = await read_until(session, lambda event: event["type"] == "question")
        yield Asked(fake, session, found[-1][1])


async def test_a_call_is_allowed_with_other_arguments(tmp_path: Path) -> None:
    async with asked(tmp_path, shell()) as it:
        for wrong, told in (
            ({"decision": "always"}, "has no `always`"),
            ({"decision": "allow", "input": "ls -l"}, "`input` must be an object"),
            ({}, '"allow", "always" or "deny", not null'),
        ):
            with pytest.raises(ValueError, match=told):
                await it.answer(**wrong)
        assert await it.answer(decision="allow", input={"command": "ls -l"})
        assert (await it.reply())["updatedInput"] == {"command": "ls -l"}


async def test_a_call_is_always_allowed_if_the_cli_suggests_it(tmp_path: Path) -> None:
    async with asked(tmp_path, shell(permission_suggestions=[RULE])) as it:
        assert it.question["always"]
        assert await it.answer(decision="always")
        assert (await it.reply())["updatedPermissions"] == [RULE]


async def test_questions_of_the_model_have_their_options_and_a_list_of_answers(tmp_path: Path) -> None:
    request = frames.can_use_tool("q1", "AskUserQuestion", input=asking("Which?", "a", "b"), tool_use_id="t1")
    async with asked(tmp_path, request) as it:
        options = [{"label": "a", "text": "A"}, {"label": "b", "text": "B"}]
        assert it.question["steps"] == [{"header": "Choose", "text": "Which?", "many": False, "options": options}]
        with pytest.raises(ValueError, match="`answers` must be a list"):
            await it.answer(answers="b")
        assert await it.answer(answers=["b"])
        assert (await it.reply())["updatedInput"]["answers"] == {"Which?": "b"}


async def test_questions_of_the_model_may_be_denied(tmp_path: Path) -> None:
    request = frames.can_use_tool("q1", "AskUserQuestion", input=asking("Which?", "a", "b"), tool_use_id="t1")
    async with asked(tmp_path, request) as it:
        assert await it.answer(decision="deny", reason="decide yourself")
        reply = await it.reply()
        assert (reply["behavior"], reply["message"]) == ("deny", "decide yourself")


async def test_a_form_of_a_server_has_its_fields(tmp_path: Path) -> None:
    form = {
        "type": "object",
        "properties": {"size": {"type": "string", "enum": ["s", "m"]}, "note": {"type": "string", "title": "Note"}},
        "required": ["size"],
    }
    request = frames.control_request(
        "q1", "elicitation", mcp_server_name="shop", message="Which?", mode="form", requested_schema=form
    )
    async with asked(tmp_path, request) as it:
        assert it.question["form"] == [
            {"name": "size", "title": "size", "type": "string", "required": True, "choices": ["s", "m"]},
            {"name": "note", "title": "Note", "type": "string", "required": False, "choices": []},
        ]
        assert await it.answer(action="accept", content={"size": "m"})
        assert await it.reply() == {"action": "accept", "content": {"size": "m"}}


async def test_a_session_that_is_ready_is_used_and_replaced(tmp_path: Path) -> None:
    fake = FakeCLI(steps.turn("Hello."))
    async with Sessions(ClientOptions(cli_path=fake.install(tmp_path), cwd=tmp_path), ready=1) as sessions:
        await (await sessions.create()).send("go")
        with anyio.fail_after(60):
            while sessions.spares < 1:
                await anyio.sleep(0.01)
        ready = await sessions.create()
        assert ready.state == "idle"
        await ready.send("go")
        found = await read_until(ready, is_end)
        assert found[-1][1]["status"] == "ok"


async def test_a_session_that_cannot_be_made_ready_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Sessions(ClientOptions(cli_path=tmp_path / "nothing", cwd=tmp_path), ready=1) as sessions:
        await sessions.create()
        with anyio.fail_after(60):
            while "no session can be made ready" not in caplog.text:
                await anyio.sleep(0.01)
        assert sessions.spares == 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_open": 0}, "max_open: must be at least 1, not 0"),
        ({"max_open": 2, "ready": 2}, r"ready: must be less than max_open \(2\), not 2"),
        ({"frontend_timeout": 0}, "frontend_timeout: must be positive, not 0"),
    ],
)
def test_limits_that_allow_nothing_are_refused(given: Any, told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        Sessions(ClientOptions(), **given)


def test_a_pool_has_no_other_sessions_that_are_ready() -> None:
    pool = Pool(ClientOptions(include_partial_messages=True, interactions=True), size=1)
    with pytest.raises(OptionsError, match="ready: is not for a pool, which has its `size`"):
        Sessions(pool, ready=1)

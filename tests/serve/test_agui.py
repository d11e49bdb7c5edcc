"""Agents for clients of AG-UI 1.0, on the real CLI. Every event is read by the protocol's own models."""

import http.client
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

import anyio
import pytest
from ag_ui import core
from called_app import EVENT, Agent
from serving import TOKEN, served
from starlette.requests import Request

from claude_agent_py import AgentDefinition, ClientOptions
from claude_agent_py.serve import ServedSession, Sessions, make_agui_app
from claude_agent_py.testing import FakeCLI, Gate, Reply, ScriptedModel, frames, steps, tool_use

pytestmark = pytest.mark.real_cli

SPANS = {
    "TEXT_MESSAGE": ("START", "END", "message_id"),
    "REASONING_MESSAGE": ("START", "END", "message_id"),
    "TOOL_CALL": ("START", "END", "tool_call_id"),
    "SUBAGENT": ("STARTED", "FINISHED", "subagent_run_id"),
}


class Page:
    """A client: it keeps the messages of its thread, and checks the order of the events."""

    def __init__(self, url: str, thread: str = "a-thread", *, version: str | None = "1.0", user: str = "ann") -> None:
        self._host = urlsplit(url).netloc
        self._given = {"threadId": thread, "messages": [], "state": {}, "tools": [], "context": []}
        if version:
            self._given["protocolVersion"] = version
        self._user = user
        self._runs = 0
        self.messages: list[Any] = []

    def post(self, body: Any, **headers: str) -> tuple[int, bytes]:
        return self._ask("POST", "/", body if isinstance(body, bytes) else json.dumps(body).encode(), **headers)

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        return self._ask("GET", path, b"", **headers)

    def _ask(self, method: str, path: str, data: bytes, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._host, timeout=60)
        sent = {"authorization": f"Bearer {TOKEN}", "x-user": self._user, "content-type": "application/json", **headers}
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            self.headers = answer.headers
            return answer.status, answer.read()
        finally:
            connection.close()

    def run(self, text: str = "", **given: Any) -> list[Any]:
        if text:
            self.messages.append({"id": f"u{len(self.messages)}", "role": "user", "content": text})
        self._runs += 1
        status, body = self.post({**self._given, "runId": f"run-{self._runs}", "messages": self.messages, **given})
        assert status == 200
        lines = [line.removeprefix("data: ") for line in body.decode().split("\n") if line.startswith("data: ")]
        assert "null" not in [value for line in lines for value in json.loads(line).values()]
        assert all(value is not None for line in lines for value in json.loads(line).values())
        events = [EVENT.validate_json(line) for line in lines]
        check_order(events)
        return events

    def answer(self, interrupts: Any, payload: Any = None, status: str = "resolved") -> list[Any]:
        entries = [{"interruptId": each.id, "status": status, "payload": payload} for each in interrupts]
        return self.run(resume=entries)


def check_order(events: list[Any]) -> None:
    assert events[0].type == "RUN_STARTED"
    assert events[0].protocol_version == "1.0"
    assert [e.type for e in events if e.type in ("RUN_FINISHED", "RUN_ERROR")] == [events[-1].type]
    for name, (start, end, key) in SPANS.items():
        open_ids: set[str] = set()
        seen: set[str] = set()
        for event in events:
            if event.type == f"{name}_{start}":
                assert getattr(event, key) not in seen
                open_ids.add(getattr(event, key))
                seen.add(getattr(event, key))
            elif event.type in (f"{name}_{end}", f"{name}_ERROR"):
                open_ids.remove(getattr(event, key))
            elif event.type in (f"{name}_CONTENT", f"{name}_ARGS"):
                assert getattr(event, key) in open_ids
        assert open_ids == set()


def say(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "TEXT_MESSAGE_CONTENT")


def shell(command: str, **more: Any) -> Reply:
    return Reply([tool_use("Bash", {"command": command, "description": "Run it", **more})])


def find_user(request: Request) -> str | None:
    return request.headers.get("x-user") or None


async def only_session(sessions: Sessions) -> ServedSession:
    (listed,) = await sessions.list()
    return await sessions.get(listed.id)


def test_questions_end_the_run_and_the_next_one_continues(tmp_path: Path) -> None:
    made = [tmp_path / name for name in ("one", "two", "three", "edited")]
    script = [
        shell(f"touch {made[0]}"),
        shell(f"touch {made[1]}"),
        shell(f"touch {made[2]}"),
        shell("touch nothing"),
        Reply("**All** done.", chunk_chars=4),
        Reply("Again."),
    ]
    with (
        ScriptedModel(script) as model,
        served(Sessions(model.options(permission_mode="default")), make_agui_app) as url,
    ):
        page = Page(url)
        events = page.run("Make them")
        assert [e.type for e in events[1:]] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED"]
        (asked,) = events[-1].outcome.interrupts
        assert asked.response_schema["required"] == ["approved"]
        assert asked.tool_call_id == events[1].tool_call_id
        # While it is open, nothing else is taken, and nothing but its answer.
        assert "interrupt" in page.run("Something else")[-1].message
        page.messages.pop()
        assert page.run(resume=[{"interruptId": "unknown", "status": "resolved"}])[-1].type == "RUN_ERROR"
        assert "approved" in page.answer([asked], {"behavior": "allow"})[-1].message
        assert not made[0].exists()
        for payload, status in (({"approved": True}, "resolved"), ({"approved": False}, "resolved"), ({}, "cancelled")):
            events = page.answer([asked], payload, status)
            (asked,) = events[-1].outcome.interrupts
        events = page.answer([asked], {"approved": True, "editedArgs": {"command": f"touch {made[3]}"}})
        assert [path.exists() for path in made] == [True, False, False, True]
        assert events[-1].outcome.type == "success"
        assert events[-1].usage[0].output_tokens > 0
        assert say(events) == "**All** done."
        assert say(page.run("And again")) == "Again."
        assert page.answer([asked], {"approved": True})[-1].type == "RUN_ERROR"


def test_a_follow_up_turn_never_answers_the_next_prompt_and_subagents_have_spans() -> None:
    gate = Gate()
    agent = {"description": "Look", "prompt": "look", "subagent_type": "worker"}
    script = [
        Reply([tool_use("Agent", {**agent, "run_in_background": False})]),
        Reply([tool_use("Agent", {**agent, "prompt": "watch", "run_in_background": True})]),
        Reply("Begun."),
        Reply("The follow-up."),
        Reply("The answer."),
    ]
    worker = AgentDefinition(description="Works", prompt="You work.")
    looks = {"look": [shell("echo seen"), Reply("I looked.")], "watch": [Reply("I watched.", after=gate)]}
    with ScriptedModel(script, agents=looks) as model:
        sessions = Sessions(model.options(agents={"worker": worker}))
        with served(sessions, make_agui_app) as url:
            page = Page(url)
            events = page.run("Go")
            assert say(events) == "Begun."
            (started,) = [e for e in events if e.type == "SUBAGENT_STARTED"]
            calls = [e for e in events if e.type == "TOOL_CALL_START"]
            assert started.parent_tool_call_id == calls[0].tool_call_id
            assert [(c.tool_call_name, c.subagent_run_id) for c in calls] == [
                ("Agent", None),
                ("Bash", started.subagent_run_id),
                ("Agent", None),
            ]
            (activity, *_) = [e for e in events if e.type == "ACTIVITY_SNAPSHOT"]
            assert (activity.content["name"], activity.content["status"]) == ("Look", "running")
            gate.open()
            deadline = time.monotonic() + 60
            session = anyio.run(only_session, sessions)
            while session.state != "idle" or not any("follow-up" in str(e.data) for e in session.log.read(0)):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            events = page.run("And?")
            assert say(events) == "The answer."
            assert not any(e.type == "RUN_ERROR" for e in events)


@pytest.mark.anyio
async def test_a_stopped_run_is_cancelled_for_those_who_know_it_and_an_error_for_others() -> None:
    gates = {"1.0": Gate(), None: Gate()}
    script = [Reply("Never", after=gate) for gate in gates.values()]
    async with ScriptedModel(script) as model, Sessions(model.options()) as sessions:
        agent = Agent(sessions)
        ends: list[Any] = []
        for version, gate in gates.items():
            message = core.UserMessage(id=f"u{len(ends)}", content="Go")
            given = core.RunAgentInput(thread_id="t", run_id="r", messages=[message], protocol_version=version)
            events: list[Any] = []

            async def run(given: core.RunAgentInput, events: list[Any]) -> None:
                events.extend([event async for event in agent.run(given)])

            async with anyio.create_task_group() as group:
                group.start_soon(run, given, events)
                await gate.wait_reached()
                session = await only_session(sessions)
                await session.stop()
            gate.open()
            check_order(events)
            ends.append(events[-1])
    known, unknown = ends
    assert known.outcome.type == "cancelled"
    assert (unknown.type, unknown.code) == ("RUN_ERROR", "cancelled")


@pytest.mark.long
@pytest.mark.anyio
async def test_a_client_that_left_before_a_question_gets_it_with_its_next_prompt() -> None:
    gate = Gate()
    script = [
        Reply([tool_use("Bash", {"command": "touch it", "description": "Run it"})], after=gate),
        Reply("One."),
        Reply("Two."),
    ]
    async with ScriptedModel(script) as model:
        options = model.options(permission_mode="default")
        async with Sessions(options) as sessions:
            agent = Agent(sessions)

            async def run(text: str, *resume: core.ResumeEntry) -> list[Any]:
                message = core.UserMessage(id=text, content=text)
                given = core.RunAgentInput(thread_id="t", run_id=text, messages=[message], resume=list(resume) or None)
                with anyio.fail_after(60):
                    return [event async for event in agent.run(given)]

            async with anyio.create_task_group() as group:
                group.start_soon(run, "Begin")
                await gate.wait_reached()
                group.cancel_scope.cancel()
            gate.open()
            session = await only_session(sessions)
            stream = session.follow()
            with anyio.fail_after(60):
                async for _, event in stream:
                    if json.loads(event.data)["type"] == "question":
                        break
            await stream.aclose()
            (asked,) = (await run("Go on"))[-1].outcome.interrupts
            entry = core.ResumeEntry(interrupt_id=asked.id, status="resolved", payload={"approved": True})
            events = await run("Yes", entry)
            check_order(events)
            assert events[-1].outcome.type == "success"
            assert "One." in say(events)


@pytest.mark.anyio
async def test_two_first_runs_of_a_thread_at_once_are_both_answered(tmp_path: Path) -> None:
    answers: list[str] = []
    program = FakeCLI(steps.turn("Yes."), steps.turn("Yes.")).install(tmp_path / "cli")
    async with Sessions(ClientOptions(cli_path=program, cwd=tmp_path)) as sessions:
        agent = Agent(sessions)

        async def run(text: str) -> None:
            message = core.UserMessage(id=text, content=text)
            given = core.RunAgentInput(thread_id="t", run_id=text, messages=[message])
            answers.append(say([event async for event in agent.run(given)]))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(run, "One")
                group.start_soon(run, "Two")
    assert answers == ["Yes.", "Yes."]


def test_threads_are_of_their_user_and_bad_requests_get_a_status(tmp_path: Path) -> None:
    fake = FakeCLI(steps.turn("One."), steps.turn("Two."))  # each process is a conversation
    options = ClientOptions(cli_path=fake.install(tmp_path / "cli"), cwd=tmp_path)
    site = "https://chat.example.com"
    limits = {"authenticate": find_user, "prompts_per_minute": 4, "origins": [site]}
    with served(Sessions(options), make_agui_app, **limits) as url:
        ann, bob = Page(url, user="ann"), Page(url, user="bob")
        assert say(ann.run("Hi")) == "One."
        assert say(bob.run("Hi")) == "One."
        assert ann.post(b"{")[0] == 400
        assert ann.post({"threadId": "x"})[0] == 400
        assert ann.post({}, host="evil.example")[0] == 403
        assert ann.post({}, origin="https://evil.example")[0] == 403
        assert ann.run(messages=[])[-1].type == "RUN_ERROR"
        uuid = "7d0f9c1e-1a55-4f1e-9d57-0a4f7b7c3c11"
        assert say(Page(url, uuid, user="ann").run("Hi")) == "One."
        assert bob.get("/")[0] == 400
        assert bob.get(f"/?threadId={uuid}")[0] == 404
        assert ann.get(f"/?threadId={uuid}", **{"x-user": ""})[0] == 401
        assert Page(url, uuid, user="bob").run("Hi")[-1].code == "SessionNotFoundError"
        name = str(uuid5(NAMESPACE_URL, "main"))
        assert Page(url, name, user="bob").run("Hi")[-1].code == "SessionNotFoundError"
        assert ann.run(messages=[])[-1].type == "RUN_ERROR"
        given = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": []}
        assert ann.post(given, origin=site)[0] == 429
        assert ann.headers["access-control-expose-headers"] == "retry-after"


def test_a_prompt_of_several_texts_is_one_and_a_picture_is_refused(tmp_path: Path) -> None:
    fake = FakeCLI(steps.turn("Hello."))
    options = ClientOptions(cli_path=fake.install(tmp_path / "cli"), cwd=tmp_path)
    texts = [{"type": "text", "text": text} for text in ("Look", "here")]
    picture = {"type": "image", "source": {"type": "url", "value": "https://example.com/a.png"}}
    with served(Sessions(options), make_agui_app, authenticate=find_user) as url:
        page = Page(url)
        assert say(page.run(messages=[{"id": "u1", "role": "user", "content": texts}])) == "Hello."
        refused = page.run(messages=[{"id": "u2", "role": "user", "content": [*texts, picture]}])[-1]
        assert (refused.type, "may contain text only" in refused.message) == ("RUN_ERROR", True)
    [sent] = fake.received_like({"type": "user"})
    assert sent["message"]["content"] == "Look\nhere"


def test_the_to_do_list_is_state_and_a_subagent_that_fails_is_an_error(tmp_path: Path) -> None:
    todo = {"subject": "Build it", "description": "All of it", "activeForm": "Building it"}
    listed = frames.tool_use_block("TaskCreate", todo, id="t1")
    launched = frames.tool_use_block("Agent", {"description": "auth", "prompt": "Look"}, id="a1")
    task = {"id": "1", "subject": "Build it"}
    fake = FakeCLI(
        steps.turn(
            [
                frames.assistant([listed]),
                frames.tool_result("t1", "Task #1 created successfully: Build it", tool_use_result={"task": task}),
                frames.assistant([launched]),
                frames.task_started("sub", "auth", tool_use_id="a1", is_backgrounded=False),
                frames.task_updated("sub", "failed", error="no auth here"),
                frames.task_notification("sub", "failed", tool_use_id="a1"),
                frames.tool_result("a1", "no auth here", is_error=True),
                frames.of_prompt(frames.assistant("Sorry.")),
            ],
            text="Sorry.",
        )
    )
    options = ClientOptions(cli_path=fake.install(tmp_path / "cli"), cwd=tmp_path)
    with served(Sessions(options), make_agui_app, authenticate=find_user) as url:
        events = Page(url).run("Go")
    assert say(events) == "Sorry."
    [state] = [event.snapshot for event in events if event.type == "STATE_SNAPSHOT"]
    assert [item["text"] for item in state["todo"]] == ["Build it"]
    [failed] = [event for event in events if event.type == "SUBAGENT_ERROR"]
    assert failed.message == "no auth here"

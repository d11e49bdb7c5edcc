"""`EditorAgent` in the process of the tests, with a scripted CLI: what the real one does not do on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from cancelling import cancel_in_a_row
from editors import DEADLINE, Editor, full_capabilities
from later import Later

from claude_agent_py import Allow, ClientOptions, HookMatcher, LocalProtocolError
from claude_agent_py.hooks import PostToolUseOutput, PreToolUseOutput
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

if TYPE_CHECKING:
    import acp

    from claude_agent_py import acp as agents
else:
    acp, agents = Later("acp"), Later("claude_agent_py.acp")

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class Opened:
    """An agent that an editor is connected to, whose sessions are with a scripted CLI."""

    def __init__(self, folder: Path, editor: Editor) -> None:
        self.folder = folder
        self.editor = editor
        self.agent: Any = None
        self.fake = FakeCLI()
        self.session_id = ""

    def options(self, **given: Any) -> ClientOptions:
        env = {"CLAUDE_CONFIG_DIR": str(self.folder / "config")}
        return ClientOptions(cli_path=self.folder / "claude", env=env, **given)

    async def begin(self) -> Any:
        """Start a session."""
        session = await self.agent.new_session(cwd=str(self.folder))
        self.session_id = session.session_id
        return session

    async def prompt(self, words: str = "hi", **meta: Any) -> Any:
        """Send a prompt, and return its end."""
        return await self.agent.prompt(session_id=self.session_id, prompt=[acp.text_block(words)], **meta)

    def store(self, *messages: Any, uuid: str = "") -> None:
        """Write the transcript of the session, whose first message has this uuid."""
        path = self.folder / "config" / "projects" / "-work" / f"{self.session_id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines, last = [], None
        for message in messages:
            name = uuid if uuid and last is None else str(uuid4())
            about = {"type": message["role"], "uuid": name, "parentUuid": last, "sessionId": self.session_id}
            lines.append(json.dumps({**about, "timestamp": "2026-01-01T00:00:00Z", "message": message}) + "\n")
            last = about["uuid"]
        path.write_text("".join(lines))


ABORTED = frames.result("", subtype="error_during_execution", terminal_reason="aborted_streaming")


@pytest.fixture
async def open_agent(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Return a function that connects an agent with a script to an editor."""
    async with AsyncExitStack() as stack:

        async def open_it(
            *script: Any,
            editor: Editor | None = None,
            capabilities: Any = None,
            given: Any = None,
            tools: bool = False,
            fake: Mapping[str, Any] | None = None,
            **options: Any,
        ) -> Opened:
            opened = Opened(tmp_path, editor or Editor())
            opened.fake = FakeCLI(*script, **(fake or {}))
            opened.fake.install(tmp_path)
            opened.agent = agents.EditorAgent(given or opened.options(**options), editor_tools=tools)
            stack.push_async_callback(opened.agent.close)
            opened.agent.on_connect(opened.editor)
            await opened.agent.initialize(acp.PROTOCOL_VERSION, capabilities)
            return opened

        yield open_it


async def test_an_agent_without_an_editor_says_so() -> None:
    agent = agents.EditorAgent()
    assert repr(agent) == "<EditorAgent 0 sessions>"
    with pytest.raises(LocalProtocolError, match="connect the agent to an editor first"):
        await agent.new_session(cwd="/")


async def test_a_resumed_session_is_opened_once_and_shows_no_history(open_agent: Any) -> None:
    opened = await open_agent(steps.turn("on"))
    for _ in range(2):
        resumed = await opened.agent.resume_session(session_id="s1", cwd=str(opened.folder))
        assert resumed.modes.current_mode_id == "default"
    assert repr(opened.agent) == "<EditorAgent 1 sessions>"
    [start] = opened.fake.starts
    assert "--resume=s1" in start.argv or "s1" in start.argv
    assert opened.editor.list_updates(acp.schema.AgentMessageChunk) == []


@pytest.mark.parametrize("stored", ["nothing of it", "all of it"])
async def test_a_session_that_is_loaded_within_an_answer_shows_all_of_it_once(stored: str, open_agent: Any) -> None:
    """The transcript may be behind what the editor was shown, or ahead of it."""
    gate = Gate()
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="t1")])
    answer = frames.assistant("Hello friend.")
    deltas = [{**event, "api_message_id": answer["message"]["id"]} for event in frames.text_stream("Hello ", "friend.")]
    opened = await open_agent(
        *[steps.wait_for_prompt(), frames.init(), call, *deltas[:2], steps.wait_gate(gate), *deltas[2:], answer],
        frames.result("Hello friend."),
    )
    await opened.begin()
    running = asyncio.create_task(opened.prompt())
    await opened.editor.says("Hello ")
    if stored == "all of it":
        [prompt] = opened.fake.received_like({"type": "user"})
        opened.store(prompt["message"], call["message"], answer["message"], uuid=prompt["uuid"])
    opened.editor.updates.clear()
    await opened.agent.load_session(session_id=opened.session_id, cwd=str(opened.folder))
    assert opened.editor.text == ("Hello friend." if stored == "all of it" else "Hello ")
    assert [chunk.content.text for chunk in opened.editor.list_updates(acp.schema.UserMessageChunk)] == ["hi"]
    shown = opened.editor.list_updates(acp.schema.ToolCallStart)[-1]
    assert (shown.tool_call_id, shown.status) == ("t1", "in_progress")
    gate.open()
    await running
    assert opened.editor.text == "Hello friend."


@pytest.mark.parametrize("is_over", [False, True], ids=["within the turn", "after it"])
async def test_what_has_ended_is_loaded_as_ended_while_the_transcript_is_behind(is_over: bool, open_agent: Any) -> None:
    gate = Gate()
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="t1")])
    task = frames.task_started("b1", task_type="local_bash", description="Tests", is_backgrounded=True)
    opened = await open_agent(
        *[steps.wait_for_prompt(), frames.init(), call, task, frames.tool_result("t1", "none")],
        *[*frames.task_end("b1"), frames.assistant("Soon."), steps.wait_gate(gate), frames.result("Soon.")],
    )
    await opened.begin()
    running = asyncio.create_task(opened.prompt())
    await opened.editor.says("Soon.")
    if is_over:
        gate.open()
        await running
    [prompt] = opened.fake.received_like({"type": "user"})
    opened.store(prompt["message"], call["message"], uuid=prompt["uuid"])
    opened.editor.updates.clear()
    await opened.agent.load_session(session_id=opened.session_id, cwd=str(opened.folder))
    statuses = {update.tool_call_id: update.status for update in opened.editor.updates if "tool_call" in str(update)}
    assert statuses == {"t1": "completed", "task:b1": "completed"}
    gate.open()
    await running


async def test_a_session_that_is_loaded_before_its_first_prompt_has_no_history(open_agent: Any) -> None:
    opened = await open_agent()
    await opened.begin()
    loaded = await opened.agent.load_session(session_id=opened.session_id, cwd=str(opened.folder))
    assert loaded.modes.current_mode_id == "default"
    opened.store({"role": "user", "content": "hi"})
    fork = await opened.agent.fork_session(session_id=opened.session_id, cwd=str(opened.folder))
    await opened.agent.load_session(session_id=fork.session_id, cwd=str(opened.folder))
    [prompt] = opened.editor.list_updates(acp.schema.UserMessageChunk)
    assert prompt.content.text == "hi"


async def test_a_session_that_could_not_be_resumed_is_loaded_again(open_agent: Any) -> None:
    opened = await open_agent(steps.wait_for_prompt(), steps.die(9))
    await opened.begin()
    program, codes = opened.folder / "claude", []
    for _ in range(3):
        with pytest.raises(acp.RequestError) as refused:
            await opened.prompt()
        codes.append(refused.value.code)
        program.unlink(missing_ok=True)
    assert codes == [-32603, -32603, -32002]
    program.symlink_to(FakeCLI(steps.turn("Back.")).install(opened.folder / "again"))
    await opened.agent.load_session(session_id=opened.session_id, cwd=str(opened.folder))
    assert (await opened.prompt()).stop_reason == "end_turn"


async def test_a_session_that_two_requests_open_at_once_is_open_once(open_agent: Any) -> None:
    opened = await open_agent()
    resume = [opened.agent.resume_session(session_id="s1", cwd=str(opened.folder)) for _ in range(2)]
    await asyncio.gather(*resume)
    assert repr(opened.agent) == "<EditorAgent 1 sessions>"
    assert len(opened.fake.starts) == 2


async def test_unknown_methods_are_refused_and_unknown_notifications_and_sessions_ignored(open_agent: Any) -> None:
    opened = await open_agent()
    with pytest.raises(acp.RequestError) as refused:
        await opened.agent.ext_method("vendor/thing", {})
    assert refused.value.code == -32601
    await opened.agent.ext_notification("vendor/thing", {})
    await opened.agent.ext_notification("$/cancel_request", {"requestId": 7})
    await opened.agent.cancel(session_id="none")
    await opened.agent.close_session(session_id="none")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (lambda cwd: 1 / 0, "the function that makes the options failed: ZeroDivisionError"),
        (lambda cwd: {"model": "m"}, "must return ClientOptions, not dict"),
        (ClientOptions(mcp_servers="servers.json"), "give the servers by name"),
    ],
)
async def test_options_that_are_none_are_refused_with_the_reason(given: Any, reason: str, open_agent: Any) -> None:
    opened = await open_agent(given=given)
    with pytest.raises(acp.RequestError, match=reason):
        await opened.begin()


async def test_the_servers_of_the_editor_are_those_of_the_session(open_agent: Any) -> None:
    opened = await open_agent(fake={"initialize": frames.initialize_response(mcp_servers_applied=True)})
    variable = acp.schema.EnvVariable(name="A", value="b")
    header = acp.schema.HttpHeader(name="X", value="y")
    servers = [
        acp.schema.McpServerStdio(name="one", command="run", args=["-x"], env=[variable]),
        acp.schema.HttpMcpServer(type="http", name="two", url="https://two", headers=[header]),
        acp.schema.SseMcpServer(type="sse", name="three", url="https://three", headers=[]),
    ]
    await opened.agent.new_session(cwd=str(opened.folder), mcp_servers=servers)
    [begun] = opened.fake.requests("initialize")
    assert begun["mcpServers"] == {
        "one": {"type": "stdio", "command": "run", "args": ["-x"], "env": {"A": "b"}},
        "two": {"type": "http", "url": "https://two", "headers": {"X": "y"}},
        "three": {"type": "sse", "url": "https://three"},
    }

    class OtherServer:
        name = "four"

    with pytest.raises(acp.RequestError, match="'four' has a transport that this agent does not offer"):
        await opened.agent.new_session(cwd=str(opened.folder), mcp_servers=[OtherServer()])


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (frames.result("No.", stop_reason="refusal"), "refusal"),
        (frames.result("I say", stop_reason="max_tokens"), "max_tokens"),
        (frames.result(subtype="error_max_turns", is_error=True), "max_turn_requests"),
    ],
)
async def test_the_editor_hears_why_a_turn_stopped(end: Any, reason: str, open_agent: Any) -> None:
    opened = await open_agent(steps.wait_for_prompt(), frames.init(), end)
    await opened.begin()
    assert (await opened.prompt()).stop_reason == reason


@pytest.mark.parametrize(
    ("kind", "status", "code"), [("authentication_failed", 401, -32000), ("server_error", 500, -32603)]
)
async def test_a_turn_that_fails_is_an_error_with_its_code(kind: str, status: int, code: int, open_agent: Any) -> None:
    opened = await open_agent(steps.wait_for_prompt(), frames.init(), *frames.api_error("It failed.", kind, status))
    await opened.begin()
    with pytest.raises(acp.RequestError, match=r"It failed\.") as refused:
        await opened.prompt()
    assert refused.value.code == code


async def test_a_cli_that_dies_in_a_turn_is_an_error(open_agent: Any) -> None:
    opened = await open_agent(steps.wait_for_prompt(), frames.assistant("I begin."), steps.exit(7))
    await opened.begin()
    with pytest.raises(acp.RequestError, match="7") as refused:
        await opened.prompt()
    assert refused.value.code == -32603


async def test_a_cli_that_does_not_start_is_an_error(open_agent: Any) -> None:
    opened = await open_agent(steps.exit(7))
    with pytest.raises(acp.RequestError, match="7") as refused:
        await opened.begin()
    assert refused.value.code == -32603


async def test_a_prompt_is_cancelled_by_the_id_of_its_request(open_agent: Any) -> None:
    gate = Gate()
    opened = await open_agent(steps.wait_for_prompt(), frames.init(), steps.wait_gate(gate), ABORTED)
    await opened.begin()
    running = asyncio.create_task(opened.prompt(claudeAgentPyRequest=5))
    await opened.fake.wait_received({"type": "user"})
    await opened.agent.ext_notification("$/cancel_request", {"requestId": 6})
    await opened.agent.ext_notification("$/cancel_request", {"requestId": 5})
    gate.open()
    assert (await running).stop_reason == "cancelled"
    await opened.fake.wait_received({"request": {"subtype": "interrupt"}})


async def test_closing_a_session_cancels_its_prompt(open_agent: Any) -> None:
    opened = await open_agent(steps.wait_for_prompt(), frames.init(), steps.wait_gate(Gate()))
    await opened.begin()
    running = asyncio.create_task(opened.prompt())
    await opened.fake.wait_received({"type": "user"})
    await opened.agent.close_session(session_id=opened.session_id)
    assert (await running).stop_reason == "cancelled"


async def test_a_block_that_the_cli_does_not_take_is_refused(open_agent: Any) -> None:
    opened = await open_agent()
    await opened.begin()
    blob = acp.schema.BlobResourceContents(blob="AAAA", mime_type="application/zip", uri="file:///a.zip")
    zipped = acp.schema.EmbeddedResourceContentBlock(type="resource", resource=blob)
    with pytest.raises(acp.RequestError, match="a resource of 'application/zip'"):
        await opened.agent.prompt(session_id=opened.session_id, prompt=[zipped])


async def test_sessions_are_listed_in_pages(open_agent: Any) -> None:
    opened = await open_agent()
    folder = opened.folder / "config" / "projects" / "-work"
    folder.mkdir(parents=True)
    for number in range(60):
        name = f"00000000-0000-4000-8000-{number:012}"
        message = {"role": "user", "content": f"prompt {number}"}
        line = {"type": "user", "uuid": name, "sessionId": name, "cwd": "/work", "message": message}
        (folder / f"{name}.jsonl").write_text(json.dumps({**line, "timestamp": "2026-01-01T00:00:00Z"}) + "\n")
    first = await opened.agent.list_sessions()
    second = await opened.agent.list_sessions(cursor=first.next_cursor)
    assert (len(first.sessions), len(second.sessions), second.next_cursor) == (50, 10, None)
    assert len({each.session_id for each in [*first.sessions, *second.sessions]}) == 60


async def test_an_update_that_the_editor_refuses_is_dropped_and_the_turn_goes_on(open_agent: Any) -> None:
    class Picky(Editor):
        async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
            if getattr(getattr(update, "content", None), "text", "") == "first":
                raise acp.RequestError.invalid_params({"no": "first"})
            await super().session_update(session_id, update, **more)

    turn = [frames.init(), frames.assistant("first"), frames.assistant("second"), frames.result("second")]
    opened = await open_agent(steps.wait_for_prompt(), *turn, editor=Picky())
    await opened.begin()
    assert (await opened.prompt()).stop_reason == "end_turn"
    assert opened.editor.text == "second"


async def test_a_question_that_the_editor_fails_to_show_is_refused(open_agent: Any) -> None:
    class Broken(Editor):
        async def request_permission(self, *args: Any, **more: Any) -> Any:
            raise RuntimeError("no window")

    asked = frames.can_use_tool("q1", "Bash", input={"command": "ls"}, tool_use_id="t1")
    opened = await open_agent(
        steps.wait_for_prompt(), frames.init(), asked, steps.wait_for_reply("q1"), frames.result(), editor=Broken()
    )
    await opened.begin()
    await opened.prompt()
    reply = reply_to(opened, "q1")
    assert (reply["behavior"], reply["message"]) == ("deny", "The editor could not answer: no window")


def reply_to(opened: Opened, request_id: str) -> Any:
    """Return what the CLI got as the answer to its request."""
    [reply] = opened.fake.received_like({"type": "control_response", "response": {"request_id": request_id}})
    return reply["response"]["response"]


async def test_thoughts_commands_and_their_output_are_shown(open_agent: Any) -> None:
    delta = {"type": "thinking_delta", "thinking": "Let me see."}
    started = {"type": "message_start", "message": {**frames.assistant("x")["message"], "content": []}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
    opened = await open_agent(
        steps.wait_for_prompt(),
        frames.init(),
        frames.stream_event(started),
        frames.stream_event(block),
        frames.stream_event({"type": "content_block_delta", "index": 0, "delta": delta}),
        frames.system("commands_changed", commands=[{"name": "deploy", "description": "Deploy it"}]),
        frames.system("local_command_output", content="the output"),
        frames.result("Done."),
    )
    await opened.begin()
    await opened.prompt()
    [thought] = opened.editor.list_updates(acp.schema.AgentThoughtChunk)
    assert thought.content.text == "Let me see."
    assert "the output" in opened.editor.text
    lists = opened.editor.list_updates(acp.schema.AvailableCommandsUpdate)
    assert [command.name for command in lists[-1].available_commands] == ["deploy"]


async def ask_elicitation(open_agent: Any, capabilities: Any, form: Any = None, **request: Any) -> Any:
    """Have a server ask something, and return the answer and what the editor showed."""
    editor = Editor(form=form)
    asked = frames.control_request("q1", "elicitation", mcp_server_name="shop", message="Well?", **request)
    opened = await open_agent(
        steps.wait_for_prompt(), frames.init(), asked, steps.wait_for_reply("q1"), frames.result(),
        editor=editor, capabilities=capabilities,
    )  # fmt: skip
    await opened.begin()
    await opened.prompt()
    return reply_to(opened, "q1"), editor.forms


async def test_a_page_is_opened_by_an_editor_that_can(open_agent: Any) -> None:
    pages = acp.schema.ElicitationCapabilities(url=acp.schema.ElicitationUrlCapabilities())
    capabilities = acp.schema.ClientCapabilities(elicitation=pages)
    page = {"mode": "url", "url": "https://example.com/pay", "elicitation_id": "e1"}
    answer, shown = await ask_elicitation(open_agent, capabilities, {}, **page)
    assert answer["action"] == "accept"
    assert (str(shown[0].url), shown[0].elicitation_id) == ("https://example.com/pay", "e1")


async def test_a_form_that_the_editor_cannot_show_is_cancelled(open_agent: Any) -> None:
    answer, shown = await ask_elicitation(open_agent, None, mode="form")
    assert (answer["action"], shown) == ("cancel", [])


async def test_a_dialog_gets_the_default_of_the_cli(open_agent: Any) -> None:
    asked = frames.control_request("q1", "request_user_dialog", dialog_kind="refusal_fallback_prompt", payload={})
    script = [steps.wait_for_prompt(), frames.init(), asked, steps.wait_for_reply("q1"), frames.result()]
    opened = await open_agent(*script)
    await opened.begin()
    await opened.prompt()
    assert reply_to(opened, "q1")["behavior"] == "cancelled"


async def ask_questions(open_agent: Any, form: Any, **question: Any) -> Any:
    options = [{"label": label, "description": ""} for label in ("A", "B")]
    asked = {"question": "Which?", "header": "Pick", "options": options, "multiSelect": False, **question}
    request = frames.can_use_tool("q1", "AskUserQuestion", input={"questions": [asked]}, tool_use_id="t1")
    opened = await open_agent(
        steps.wait_for_prompt(), frames.init(), request, steps.wait_for_reply("q1"), frames.result(),
        editor=Editor(form=form), capabilities=full_capabilities(),
    )  # fmt: skip
    await opened.begin()
    await opened.prompt()
    return reply_to(opened, "q1"), opened.editor.forms


async def test_several_options_may_be_chosen_in_a_form(open_agent: Any) -> None:
    form = {"answer_0": ["A", "B"], "other_0": "C"}
    answer, [shown] = await ask_questions(open_agent, form, multiSelect=True)
    assert answer["updatedInput"]["answers"] == {"Which?": "A, B, C"}
    assert shown.requested_schema.properties["answer_0"].type == "array"


@pytest.mark.parametrize("form", [None, {}])
async def test_a_form_that_is_closed_or_empty_is_no_answer(form: Any, open_agent: Any) -> None:
    answer, _ = await ask_questions(open_agent, form)
    assert (answer["behavior"], answer["message"]) == ("deny", "The editor closed the question.")


# The tools of the editor

CHANGED = PreToolUseOutput(permission_decision="allow", updated_input={"command": "ls"})
TOOLS = ["Read", "Write", "Bash"]
CALLS = {
    "Read": ("read_open_file", {"path": "/work/notes"}),
    "Write": ("write_open_file", {"path": "/work/new", "content": "by the agent"}),
    "Bash": ("run_in_terminal", {"command": "make", "args": ["all"]}),
}


async def call_tool(
    open_agent: Any,
    name: str = "Bash",
    *,
    settings: Any = None,
    rules: Any = (),
    init: Any = None,
    choose: str = "allow_once",
    before: Any = (),
    given: Any = None,
    **options: Any,
) -> str:
    """Have the model call a tool of the editor in place of `name`, and return the answer, if nothing was done."""
    tool, arguments = CALLS[name]
    if given:
        arguments = given
    listed = [{"behavior": behavior, "rule": rule, "source": "session"} for behavior, rule in rules]
    answers = {
        "get_settings": {"response": {"effective": settings or {}, "sources": []}},
        "list_permission_rules": {"response": {"state": {"rules": listed}}},
    }
    about = {"claudecode/toolUseId": "t1"}
    call = frames.mcp_message("c1", "editor", "tools/call", name=tool, arguments=arguments, _meta=about)
    begun = frames.init(**{"permissionMode": "default", "tools": TOOLS, **(init or {})})
    opened = await open_agent(
        *[steps.wait_for_prompt(), begun, *before, call, steps.wait_for_reply("c1"), frames.result()],
        capabilities=full_capabilities(),
        tools=True,
        editor=Editor(choose),
        fake={"answers": answers},
        **options,
    )
    opened.editor.files["/work/notes"] = "not saved yet"
    await opened.begin()
    await opened.prompt()
    result = reply_to(opened, "c1")["mcp_response"]["result"]
    text = str(result["content"][0]["text"])
    if result.get("isError"):
        assert opened.editor.files == {"/work/notes": "not saved yet"}
        assert opened.editor.commands == []
    return text


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("Read", "not saved yet"),
        ("Write", "/work/new was written."),
        ("Bash", "two tests failed\n(exit code 3)"),
    ],
)
async def test_a_tool_of_the_editor_does_its_work(name: str, answer: str, open_agent: Any) -> None:
    assert await call_tool(open_agent, name) == answer


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"init": {"tools": ["Read"]}}, "the session has no tool Bash"),
        ({"rules": [("ask", "Read(x)"), ("ask", "Bash(make *)")]}, "the rule Bash(make *) concerns the tool"),
        ({"rules": [("allow", "Bash(ls)"), ("deny", "*")]}, "the rule * concerns the tool Bash"),
        ({"settings": {"hooks": {"PreToolUse": []}}}, "the settings have hooks for tools"),
        ({"settings": {"sandbox": {"enabled": True}}}, "commands run in a sandbox"),
        ({"init": {"permissionMode": "plan"}}, "not allowed in plan mode"),
        ({"init": {"permissionMode": "dontAsk"}}, "the session does not ask"),
        (
            {"can_use_tool": lambda request, context: Allow(updated_input={"command": "ls"})},
            "the answer changes the input",
        ),
        (
            {"hooks": {"PostToolUse": [HookMatcher("Bash", lambda input, context: PostToolUseOutput())]}},
            "a hook reads the output of the tool Bash",
        ),
        (
            {"hooks": {"PreToolUse": [HookMatcher("Bash", lambda input, context: CHANGED)]}},
            "a hook changes the input of the tool Bash",
        ),
    ],
)
async def test_a_tool_of_the_editor_does_not_do_what_the_built_in_one_may_not(
    given: Any, reason: str, open_agent: Any
) -> None:
    assert reason in await call_tool(open_agent, **given)


@pytest.mark.parametrize(("choose", "answer"), [("allow_once", "two tests failed"), ("reject_once", "denied")])
async def test_a_hook_may_have_a_call_asked_that_the_mode_allows(choose: str, answer: str, open_agent: Any) -> None:
    asking = PreToolUseOutput(permission_decision="ask")
    hooks = {"PreToolUse": [HookMatcher("Bash", lambda input, context: asking)]}
    init = {"permissionMode": "bypassPermissions"}
    assert answer in await call_tool(open_agent, init=init, hooks=hooks, choose=choose)


@pytest.mark.parametrize(
    ("path", "is_asked"),
    [
        ("new", False),
        ("a/b.c", False),
        ("../new", True),
        (".git/hooks/pre-commit", True),
        ("a/.CLAUDE/settings.json", True),
        (".envrc", True),
        ("GIT~1/config", True),
        (".git./config", True),
        ("git\n~1", True),
        ("end.", True),
        ("a/Bunfig.toml", True),
        ("bunfig.toml.md", False),
        ("lefthook.yml", True),
        ("lefthook.yaml", True),
        ("gradle/wrapper/gradle-wrapper.properties", True),
        (".mvn/wrapper/maven-wrapper.properties", True),
        ("pyrightconfig.json", True),
        ("link/hooks/pre-commit", True),
    ],
)
async def test_what_the_cli_asks_about_in_the_mode_of_edits_is_asked(
    path: str, is_asked: bool, open_agent: Any, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to(".git")
    init, given = {"permissionMode": "acceptEdits"}, {"path": str(tmp_path / path), "content": "x"}
    answer = await call_tool(open_agent, "Write", init=init, given=given, choose="reject_once")
    assert ("denied" if is_asked else "was written") in answer


class SlowEditor(Editor):
    """An editor that takes its time to make a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer, self.released = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def create_terminal(self, session_id: str, command: str, **more: Any) -> acp.schema.CreateTerminalResponse:
        self.is_asked.set()
        await self.may_answer.wait()
        return await super().create_terminal(session_id, command, **more)

    async def release_terminal(self, session_id: str, terminal_id: str, **more: Any) -> None:
        self.released.set()


async def test_a_call_that_is_cancelled_while_the_editor_makes_its_terminal_leaves_none(open_agent: Any) -> None:
    editor, gate = SlowEditor(), Gate()
    name, arguments = CALLS["Bash"]
    about = {"claudecode/toolUseId": "t1"}
    call = frames.mcp_message("c1", "editor", "tools/call", name=name, arguments=arguments, _meta=about)
    begun = frames.init(permissionMode="bypassPermissions", tools=TOOLS)
    opened = await open_agent(
        *[steps.wait_for_prompt(), begun, call, steps.wait_gate(gate), frames.control_cancel("c1"), frames.result()],
        capabilities=full_capabilities(),
        tools=True,
        editor=editor,
        fake={
            "answers": {
                "get_settings": {"response": {"effective": {}, "sources": []}},
                "list_permission_rules": {"response": {"state": {"rules": []}}},
            }
        },
    )
    await opened.begin()
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        group.create_task(opened.prompt())
        await editor.is_asked.wait()
        gate.open()
    editor.may_answer.set()
    async with asyncio.timeout(DEADLINE):
        await editor.released.wait()


async def test_a_close_that_is_cancelled_closes_all_sessions(open_agent: Any) -> None:
    opened = await open_agent()
    for _ in range(3):
        await opened.begin()
    closing = asyncio.create_task(opened.agent.close())
    await asyncio.sleep(0)
    await cancel_in_a_row(closing)
    await asyncio.wait([closing])
    assert closing.cancelled()
    assert repr(opened.agent) == "<EditorAgent 0 sessions>"


async def test_a_subagent_has_no_tools_of_the_editor(open_agent: Any) -> None:
    used = frames.tool_use_block("mcp__editor__run_in_terminal", {"command": "make"}, id="t1")
    agents_call = frames.tool_use_block("Agent", {"description": "a", "prompt": "p"}, id="a1")
    before = [
        frames.assistant([agents_call]),
        frames.task_started("sub", tool_use_id="a1", is_backgrounded=False),
        frames.assistant([used], agent_id="sub", parent_tool_use_id="a1"),
    ]
    assert "Only the main agent may use the tools of the editor" in await call_tool(open_agent, before=before)

"""An editor drives the program `claude-agent-py acp` over the Agent Client Protocol, with the real CLI."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from editors import PACKAGE, Editor, RawEditor, full_capabilities, list_clis, open_editor, open_raw_editor
from later import Later
from leftovers import kill
from questions import asking

from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

if TYPE_CHECKING:
    import acp
else:
    acp = Later("acp")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.real_cli,
]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = base64.b64encode(
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
).decode()
OWN_TOOLS = """
from typing import Literal
from pydantic import BaseModel, Field
from claude_agent_py import ClientOptions, Hooks, ToolContext, tool
from claude_agent_py.hooks import PreToolUseOutput

print("this must not reach the editor")
hooks = Hooks()

@tool
def weather(city: str, context: ToolContext) -> str:
    "Return the weather."
    print("nor this")
    context.report_progress(1, 2, "looking out")
    return f"rain in {city}"

class Order(BaseModel):
    size: Literal["s", "l"] = Field(json_schema_extra={"enumNames": ["Small", "Large"]})

@tool
async def order(context: ToolContext) -> str:
    "Order a shirt."
    asked = await context.elicit_url("Pay", "javascript:alert(1)")
    chosen = await context.elicit("Which size?", Order)
    return f"paid: {asked}, size: {chosen and chosen.size}"

@hooks.pre_tool_use("Bash")
def guard(input, context):
    return PreToolUseOutput(permission_decision="deny", permission_decision_reason="no shell here")

def options(cwd):
    return ClientOptions(custom_tools=[weather, order], hooks=hooks, allowed_tools=["mcp__tools"])
"""


def text(content: str) -> list[acp.schema.TextContentBlock]:
    return [acp.text_block(content)]


async def test_an_answer_streams_into_the_editor_before_the_prompt_ends(tmp_path: Path) -> None:
    editor = Editor()
    async with (
        ScriptedModel([Reply("Hello there, editor.", chunk_chars=6)]) as model,
        open_editor(editor, model, is_forked=False) as connection,
    ):
        session = await connection.new_session(cwd=str(tmp_path))
        reply = await connection.prompt(session_id=session.session_id, prompt=text("Hi"))
        assert reply.stop_reason == "end_turn"
        await editor.says("Hello there, editor.")
        assert len(editor.list_updates(acp.schema.AgentMessageChunk)) > 1
        assert reply.usage.output_tokens > 0
        assert {mode.id for mode in session.modes.available_modes} >= {"default", "acceptEdits", "plan"}
        assert (await editor.wait_for(lambda u: isinstance(u, acp.schema.AvailableCommandsUpdate))).available_commands
        assert (await editor.wait_for(lambda u: isinstance(u, acp.schema.UsageUpdate))).size > 0


class Talk:
    """A session of one program for many checks: each sets the answers of the model, and sees only its own requests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.editor = Editor()
        self.model = ScriptedModel(lambda request: self._answers.pop(0) if self._answers else "Done.")
        self.connection: Any = None
        self.session_id = ""
        self._answers: list[Any] = []
        self._before = 0

    @property
    def requests(self) -> list[Any]:
        """The requests of this check."""
        return self.model.requests[self._before :]

    def begin(self, *answers: Any, choose: str | None = "allow_once", form: Mapping[str, Any] | None = None) -> None:
        """Begin a check."""
        self._answers[:] = answers
        self._before = len(self.model.requests)
        self.editor.begin(choose, form)

    async def prompt(self, *blocks: Any) -> Any:
        """Send a prompt, and return its end."""
        return await self.connection.prompt(session_id=self.session_id, prompt=list(blocks))

    async def until_ended(self, call: str) -> Any:
        """Wait until the editor knows that a call or a task has ended, and return its status."""
        ended = await self.editor.wait_for(
            lambda u: (
                isinstance(u, acp.schema.ToolCallProgress) and u.tool_call_id == call and u.status != "in_progress"
            )
        )
        return ended.status


async def the_editor_has_no_tools_unless_they_are_asked_for_and_the_session_gets_a_title(talk: Talk) -> None:
    talk.begin("Hi.")
    await talk.prompt(*text("Plan and build"))
    assert "mcp__editor__" not in str(talk.requests[0].body)
    info = await talk.editor.wait_for(lambda update: isinstance(update, acp.schema.SessionInfoUpdate))
    assert info.title == "Plan and build"


async def the_to_do_list_is_the_plan(talk: Talk) -> None:
    todo = {"subject": "Build it", "description": "All of it", "activeForm": "Building it"}
    begun = tool_use("TaskUpdate", {"taskId": "1", "status": "in_progress"})
    talk.begin(Reply(tool_use("TaskCreate", todo)), Reply(begun), Reply("Begun."))
    await talk.prompt(*text("Build"))
    await talk.editor.wait_for(lambda update: talk.editor.text.endswith("Begun."))
    plans = [
        [(entry.content, entry.status) for entry in plan.entries]
        for plan in talk.editor.list_updates(acp.schema.AgentPlanUpdate)
    ]
    assert plans == [[("Build it", "pending")], [("Building it", "in_progress")]]


async def an_edit_is_asked_in_the_editor_with_its_diff(talk: Talk) -> None:
    for kind in ("allow_once", "reject_once", None):
        path = talk.folder / f"notes-{kind}.txt"
        talk.begin(Reply([tool_use("Write", {"file_path": str(path), "content": "one\n"})]), choose=kind)
        await talk.prompt(*text("Write it"))
        ((call, options),) = talk.editor.asked
        assert (call.kind, call.content[0].path, call.content[0].new_text) == ("edit", str(path), "one\n")
        assert {option.kind for option in options} == {"allow_once", "allow_always", "reject_once"}
        assert await talk.until_ended(call.tool_call_id) == ("completed" if kind == "allow_once" else "failed")
        assert path.exists() == (kind == "allow_once")
        started = [start.tool_call_id for start in talk.editor.list_updates(acp.schema.ToolCallStart)]
        assert started.count(call.tool_call_id) == 1


async def a_question_of_the_model_is_answered_in_a_form(talk: Talk) -> None:
    for form, answer in (({"answer_0": "blue"}, "blue"), ({"answer_0": "blue", "other_0": " green "}, "green")):
        talk.begin(Reply([tool_use("AskUserQuestion", asking("Which?", "red", "blue"))]), form=form)
        await talk.prompt(*text("Ask me"))
        assert f'="{answer}"' in str(talk.requests[-1].body["messages"][-2:])  # a reminder of the CLI may come last
        assert (len(talk.editor.forms), len(talk.editor.asked)) == (1, 0)


async def a_permission_shows_the_whole_call(talk: Talk) -> None:
    command = "echo " + "a" * 300 + "; touch made"
    talk.begin(Reply([tool_use("Bash", {"command": command, "description": "List files"})]), choose="reject_once")
    mentioned = acp.resource_link_block("notes", f"file://{talk.folder}/my%20notes.md")
    await talk.prompt(mentioned, *text("Go"))
    assert f"[notes]({talk.folder}/my notes.md)" in str(talk.requests[0].body["messages"])
    ((call, _),) = talk.editor.asked
    assert call.title.startswith("Bash echo")
    assert "touch made" in call.content[0].content.text


async def a_cancelled_turn_ends_its_prompt(talk: Talk) -> None:
    gate = Gate()
    talk.begin(Reply("First", after=gate), Reply("Second."))
    running = asyncio.create_task(talk.prompt(*text("Go")))
    await gate.wait_reached()
    await talk.connection.cancel(session_id=talk.session_id)
    assert (await running).stop_reason == "cancelled"
    gate.open()
    assert (await talk.prompt(*text("Again"))).stop_reason == "end_turn"


async def a_background_task_is_shown_until_it_ends(talk: Talk) -> None:
    shell = {"command": "sleep 0.5; echo built", "run_in_background": True, "description": "Build it"}
    talk.begin(Reply([tool_use("Bash", shell)]), Reply("Started."), Reply("It is built."))
    await talk.prompt(*text("Build"))
    started = await talk.editor.wait_for(
        lambda u: isinstance(u, acp.schema.ToolCallStart) and u.tool_call_id.startswith("task:")
    )
    assert started.title == "Build it"
    assert await talk.until_ended(started.tool_call_id) == "completed"
    await talk.editor.wait_for(lambda u: "It is built." in talk.editor.text)


async def a_plan_is_approved_in_the_editor_and_the_mode_changes(talk: Talk) -> None:
    talk.begin(Reply([tool_use("ExitPlanMode", {"plan": "1. Build"})]), Reply("Built."), choose="allow_always")
    await talk.connection.set_session_mode(session_id=talk.session_id, mode_id="plan")
    await talk.prompt(*text("Plan it"))
    assert await talk.editor.wait_for(
        lambda u: isinstance(u, acp.schema.CurrentModeUpdate) and u.current_mode_id == "acceptEdits"
    )
    assert talk.editor.asked[0][0].kind == "switch_mode"


async def loading_an_open_session_joins_it(talk: Talk) -> None:
    gate = Gate()
    talk.begin("First.", Reply("Second.", after=gate))
    await talk.prompt(*text("One"))
    await talk.editor.wait_for(lambda _: talk.editor.text == "First.")
    running = asyncio.create_task(talk.prompt(*text("Two")))
    await gate.wait_reached()
    await talk.connection.load_session(cwd=str(talk.folder), session_id=talk.session_id)
    gate.open()
    assert (await running).stop_reason == "end_turn"
    await talk.editor.wait_for(lambda _: talk.editor.text.endswith("Second."))
    assert talk.editor.text.startswith("First.Hi.")
    assert talk.editor.text.endswith("First.Second.")


async def test_one_session_in_an_editor(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    async with (
        talk.model,
        open_editor(talk.editor, talk.model, capabilities=full_capabilities()) as talk.connection,
    ):
        talk.session_id = (await talk.connection.new_session(cwd=str(tmp_path))).session_id
        for check in (
            the_editor_has_no_tools_unless_they_are_asked_for_and_the_session_gets_a_title,
            an_edit_is_asked_in_the_editor_with_its_diff,
            a_question_of_the_model_is_answered_in_a_form,
            a_permission_shows_the_whole_call,
            a_cancelled_turn_ends_its_prompt,
            a_background_task_is_shown_until_it_ends,
            the_cli_expands_what_the_user_typed_and_nothing_attached,
            a_plan_is_approved_in_the_editor_and_the_mode_changes,  # so that edits are not asked any more
            the_to_do_list_is_the_plan,  # which the CLI reminds the model of
            loading_an_open_session_joins_it,
        ):
            await check(talk)


@pytest.mark.long
async def test_a_question_of_the_model_is_answered_in_an_editor_without_forms(tmp_path: Path) -> None:
    editor = Editor("allow_once")
    script = [Reply([tool_use("AskUserQuestion", asking("Which?", "red", "blue"))]), Reply("Good.")]
    capabilities = acp.schema.ClientCapabilities()
    async with ScriptedModel(script) as model, open_editor(editor, model, capabilities=capabilities) as connection:
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=text("Ask me"))
        assert '="red"' in str(model.requests[-1].body["messages"][-1])
    assert (len(editor.forms), len(editor.asked)) == (0, 1)


async def test_own_tools_and_hooks_work_ask_in_forms_and_prints_stay_out_of_the_protocol(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A form shows the names of choices, and only pages of the web are opened."""
    editor = Editor(form={"size": "l"})
    capabilities = acp.schema.ClientCapabilities(
        elicitation=acp.schema.ElicitationCapabilities(
            form=acp.schema.ElicitationFormCapabilities(), url=acp.schema.ElicitationUrlCapabilities()
        )
    )
    calls = [tool_use("mcp__tools__weather", {"city": "Bonn"}), tool_use("Bash", {"command": "touch made"})]
    script = [Reply(calls), Reply("Wet."), Reply(tool_use("mcp__tools__order", {})), Reply("Ordered.")]
    async with ScriptedModel(script) as model:
        (model.sandbox.cwd / "agent_options.py").write_text(OWN_TOOLS)
        async with open_editor(editor, model, "agent_options:options", capabilities=capabilities) as connection:
            session = await connection.new_session(cwd=str(tmp_path))
            await connection.prompt(session_id=session.session_id, prompt=text("Weather?"))
            await editor.says("Wet.")
            await connection.prompt(session_id=session.session_id, prompt=text("Order"))
            assert "paid: False, size: l" in str(model.requests[-1].body["messages"][-1])
    assert not caplog.records  # the package logs lines that are no JSON
    assert not (tmp_path / "made").exists()
    shown = {update.tool_call_id: update for update in editor.list_updates(acp.schema.ToolCallProgress)}
    texts = [update.content[0].content.text for update in shown.values()]
    assert any("rain in Bonn" in shown for shown in texts)
    assert any("no shell here" in shown for shown in texts)
    titles = [update.title for update in editor.list_updates(acp.schema.ToolCallProgress)]
    assert titles.index("weather Bonn: 1/2 looking out") < titles.index("weather Bonn")
    (form,) = editor.forms
    assert [(choice.const, choice.title) for choice in form.requested_schema.properties["size"].one_of] == [
        ("s", "Small"),
        ("l", "Large"),
    ]


async def the_cli_expands_what_the_user_typed_and_nothing_attached(talk: Talk) -> None:
    secret = talk.folder / "secret.txt"
    secret.write_text("OUTSIDE-SECRET")
    resource = acp.schema.TextResourceContents(uri="file:///r/README.md", text=f"see @{secret} for details")
    embedded = acp.schema.EmbeddedResourceContentBlock(type="resource", resource=resource)
    link = acp.resource_link_block(f"x @{secret}", "file:///r/x")
    command = acp.resource_link_block("x](/", "/compact")
    talk.begin()
    attached: list[list[Any]] = [[embedded], [link], [command], [*text("explain"), embedded], [*text("explain"), link]]
    for blocks in [*attached, [embedded, *text("explain")], [*text("a"), link, *text("b"), embedded]]:
        await talk.prompt(*blocks)
    assert len(talk.requests) == 7
    assert "OUTSIDE-SECRET" not in str([request.body for request in talk.requests])
    sent = str(talk.requests[-1].body["messages"][-1])
    assert f"see @{secret} for details" in sent
    assert sent.index(f"x @{secret}") < sent.index("'b'")
    await talk.prompt(*text(f"look at @{secret}"), embedded)
    assert "OUTSIDE-SECRET" in str(talk.requests[-1].body)


def use_editor(tmp_path: Path) -> list[Reply]:
    return [
        Reply(tool_use("mcp__editor__read_open_file", {"path": f"{tmp_path}/notes"})),
        Reply(tool_use("mcp__editor__write_open_file", {"path": f"{tmp_path}/new", "content": "by the agent"})),
        Reply(tool_use("mcp__editor__run_in_terminal", {"command": "make", "args": ["all"]})),
        Reply("Done."),
    ]


RESTRICTED = """
from claude_agent_py import ClientOptions, Deny, HookMatcher, guard, within
from claude_agent_py.hooks import PostToolUseOutput
from claude_agent_py.permissions import deny_tools

options = ClientOptions({})
"""


@pytest.mark.parametrize(
    "given",
    [
        pytest.param('tools=["Glob"]', marks=pytest.mark.long),
        pytest.param('disallowed_tools=["Read", "Write", "Bash"]', marks=pytest.mark.long),
        pytest.param(
            'disallowed_tools=["Read(//x/**)", "Edit(//x/**)", "Bash(rm *)"]',
            marks=pytest.mark.long,
        ),
        pytest.param(
            'settings={"permissions": {"deny": ["Read(./.env)", "Write(./.env)"], "ask": ["Bash(make *)"]}}',
            marks=pytest.mark.long,
        ),
        'hooks={"PreToolUse": [guard(deny_tools("Read", "Write", "Bash"))]}',
        pytest.param(
            'hooks={"PostToolUse": [HookMatcher("Read|Write|Bash", lambda input, context: PostToolUseOutput())]}',
            marks=pytest.mark.long,
        ),
        pytest.param(
            'hooks={"PermissionRequest": [HookMatcher("Read|Write|Bash", lambda input, context: None)]}',
            marks=pytest.mark.long,
        ),
        pytest.param(
            'permission_mode="bypassPermissions", hooks={"PreToolUse": [guard(deny_tools("Read", "Write", "Bash"))]}',
            marks=pytest.mark.long,
        ),
    ],
)
async def test_the_tools_of_the_editor_undo_no_restriction(given: str, tmp_path: Path) -> None:
    editor = Editor("allow_once")
    editor.files[f"{tmp_path}/notes"] = "not saved yet"
    async with ScriptedModel(use_editor(tmp_path)) as model:
        (model.sandbox.cwd / "agent_options.py").write_text(RESTRICTED.format(given))
        arguments = ("--editor-tools", "agent_options:options")
        async with open_editor(editor, model, *arguments, capabilities=full_capabilities()) as connection:
            session = await connection.new_session(cwd=str(tmp_path))
            await connection.prompt(session_id=session.session_id, prompt=text("Use them"))
            sent = str(model.requests[-1].body["messages"])
    assert "not saved yet" not in sent
    assert list(editor.files) == [f"{tmp_path}/notes"]
    assert editor.commands == []
    assert editor.asked == []


ASKING = """
from claude_agent_py import Allow, ClientOptions, Deny

def can_use_tool(request, context):
    print(request.tool_name)
    if request.tool_name == "Bash":
        return Deny("no shell") if "all" in request.raw_input["command"] else Allow()
    return Allow() if request.raw_input["file_path"].endswith("notes") else Deny("not this file")

options = ClientOptions(can_use_tool=can_use_tool)
"""


async def test_a_permission_handler_decides_about_the_tools_of_the_editor(tmp_path: Path) -> None:
    editor = Editor("allow_once")
    editor.files[f"{tmp_path}/notes"] = "not saved yet"
    async with ScriptedModel(use_editor(tmp_path)) as model:
        (model.sandbox.cwd / "agent_options.py").write_text(ASKING)
        arguments = ("--editor-tools", "agent_options:options")
        async with open_editor(editor, model, *arguments, capabilities=full_capabilities()) as connection:
            session = await connection.new_session(cwd=str(tmp_path))
            await connection.prompt(session_id=session.session_id, prompt=text("Use them"))
            sent = str(model.requests[-1].body["messages"])
    assert "not saved yet" in sent
    assert "not this file" in sent
    assert "no shell" in sent
    assert editor.commands == []


async def test_files_and_terminals_of_the_editor_are_tools_always_allows_one_command_and_plan_mode_none(
    tmp_path: Path,
) -> None:
    editor = Editor("allow_once")
    editor.files["/notes"] = "not saved yet"
    use = [
        tool_use("mcp__editor__read_open_file", {"path": "/notes"}),
        tool_use("mcp__editor__write_open_file", {"path": "/new", "content": "by the agent"}),
        tool_use("mcp__editor__run_in_terminal", {"command": "make"}),
    ]
    run = "mcp__editor__run_in_terminal"
    calls = [Reply(tool_use(run, {"command": command})) for command in ("make", "make", "make clean")]
    more = [*calls, Reply("Done."), Reply(tool_use(run, {"command": "make"})), Reply("Planned.")]
    script = [Reply(use), Reply("Done."), *more]
    async with (
        ScriptedModel(script) as model,
        open_editor(editor, model, "--editor-tools", capabilities=full_capabilities()) as connection,
    ):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=text("Use them"))
        sent = str(model.requests[-1].body["messages"][-1])
        assert "not saved yet" in sent
        assert "two tests failed" in sent
        assert "exit code 3" in sent
        assert editor.files["/new"] == "by the agent"
        assert editor.commands == ["make", "released"]

        editor.begin("allow_always", None)
        editor.commands.clear()
        await connection.prompt(session_id=session.session_id, prompt=text("Use them again"))
        await connection.set_session_mode(session_id=session.session_id, mode_id="plan")
        await connection.prompt(session_id=session.session_id, prompt=text("Plan"))
        sent = str(model.requests[-1].body["messages"][-1])
    assert [call.raw_input["command"] for call, _ in editor.asked][:2] == ["make", "make clean"]
    assert editor.commands == ["make", "released", "make", "released", "make clean", "released"]
    assert "'is_error': True" in sent


async def test_the_options_are_the_mode_the_model_and_its_effort_and_bad_requests_end_nothing(tmp_path: Path) -> None:
    editor = Editor("allow_once")
    script = [Reply([tool_use("ExitPlanMode", {"plan": "1. Build"})]), Reply("Built."), Reply("Hi.")]
    async with ScriptedModel(script) as model, open_editor(editor, model) as connection:
        session = await connection.new_session(cwd=str(tmp_path))
        offered = {option.id: option for option in session.config_options or ()}
        assert [(each.id, each.category) for each in offered.values()][:2] == [("mode", "mode"), ("model", "model")]
        assert offered["mode"].current_value == "default"
        with_effort = await choose_model_with_effort(connection, session)
        assert with_effort["effort"].current_value == "default"
        level = with_effort["effort"].options[-1].value
        for config_id, value in (("effort", level), ("mode", "plan")):
            reply = await connection.set_config_option(config_id=config_id, session_id=session.session_id, value=value)
            assert {option.id: option.current_value for option in reply.config_options}[config_id] == value
        await connection.prompt(session_id=session.session_id, prompt=text("Plan it"))
        assert (model.requests[0].body.get("output_config") or {}).get("effort") == level
        await editor.wait_for(
            lambda update: (
                isinstance(update, acp.schema.ConfigOptionUpdate)
                and {option.id: option.current_value for option in update.config_options}["mode"] != "plan"
            )
        )
        for config_id, value in (("colour", "red"), ("effort", "boundless"), ("mode", "yolo")):
            with pytest.raises(acp.RequestError, match=f"{config_id}|{value}"):
                await connection.set_config_option(config_id=config_id, session_id=session.session_id, value=value)
        await bad_requests_get_an_error_that_says_what_is_wrong(connection, session, str(tmp_path))


async def bad_requests_get_an_error_that_says_what_is_wrong(connection: Any, session: Any, cwd: str) -> None:
    for call, reason in (
        (connection.new_session(cwd="/nowhere/at/all"), "cwd"),
        (connection.set_session_mode(session_id=session.session_id, mode_id="yolo"), "unknown mode 'yolo'"),
        (connection.prompt(session_id=session.session_id, prompt=[]), "must have content"),
        (connection.list_sessions(cursor="9" * 30), "cursor"),
        (connection.list_sessions(cwd="\0"), "cwd"),
        (connection.prompt(session_id=session.session_id, prompt=text("/clear")), "another conversation"),
        (connection.prompt(session_id=session.session_id, prompt=text("/new thoughts")), "another conversation"),
        (connection.prompt(session_id=session.session_id, prompt=[acp.audio_block("", "audio/wav")]), "audio"),
        (connection.authenticate(method_id="none"), "log in"),
    ):
        with pytest.raises(acp.RequestError) as refused:
            await call
        assert reason in str(refused.value)
    reply = await connection.prompt(session_id=session.session_id, prompt=text("Hi"))
    assert reply.stop_reason == "end_turn"


@pytest.mark.long
async def test_a_session_that_is_not_there_is_not_loaded(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model, open_editor(Editor(), model) as connection:
        with pytest.raises(acp.RequestError, match="0" * 8):
            await connection.load_session(cwd=str(tmp_path), session_id="0" * 8)


async def choose_model_with_effort(connection: Any, session: Any) -> dict[str, Any]:
    """Choose the first model with levels of effort, and return the options then."""
    models = next(option for option in session.config_options if option.id == "model")
    for each in models.options:
        reply = await connection.set_config_option(config_id="model", session_id=session.session_id, value=each.value)
        options = {option.id: option for option in reply.config_options}
        if "effort" in options:
            return options
    raise AssertionError("no model has levels of effort")


async def test_prompts_after_the_cli_was_killed_resume_the_session_once(tmp_path: Path) -> None:
    editor = Editor()
    editor.answers.clear()
    script = [Reply("One."), Reply([tool_use("Bash", {"command": "touch made"})]), *[Reply("On.")] * 4]
    async with ScriptedModel(script) as model, open_editor(editor, model) as connection:
        session = await connection.new_session(cwd=str(tmp_path))
        prompt = partial(connection.prompt, session_id=session.session_id)
        await prompt(prompt=text("Remember 7"))
        for command in ("/model sonnet", "/effort low", "/model"):
            await prompt(prompt=text(command))
        shown = editor.list_updates(acp.schema.ConfigOptionUpdate)[-1].config_options
        chosen = {"model": "sonnet", "effort": "low"}
        assert {option.id: option.current_value for option in shown if option.id != "mode"} == chosen
        killed = asyncio.create_task(prompt(prompt=text("Work")))
        await editor.is_asked.wait()
        kill(*list_clis(model))
        with pytest.raises(acp.RequestError):
            await killed
        await editor.wait_for(lambda u: isinstance(u, acp.schema.ToolCallProgress) and u.status == "failed")
        editor.answers.set()
        replies = await asyncio.gather(prompt(prompt=text("First")), prompt(prompt=text("Second")))
        assert [reply.stop_reason for reply in replies] == ["end_turn", "end_turn"]
        assert "Remember 7" in str(model.requests[-1].body["messages"])
        assert "sonnet" in str(model.requests[-1].model)
        assert model.requests[-1].body["output_config"]["effort"] == "low"
        assert len(list_clis(model)) == 1
        loaded = [connection.load_session(cwd=str(tmp_path), session_id=session.session_id) for _ in range(3)]
        await asyncio.gather(*loaded)
        assert len(list_clis(model)) == 1
        # One that dies before it has read the prompt: the prompt is sent again, unless it is cancelled meanwhile.
        for words, reason in (("Third", "end_turn"), ("Fourth", "cancelled")):
            (idle,) = list_clis(model)
            os.kill(idle, signal.SIGSTOP)
            unread = asyncio.create_task(prompt(prompt=text(words)))
            await connection.list_sessions(cwd=str(tmp_path))
            kill(idle)
            if reason == "cancelled":
                await connection.cancel(session_id=session.session_id)
            assert (await unread).stop_reason == reason
            assert words in str(model.requests[-1].body["messages"]) or reason == "cancelled"
        assert (await prompt(prompt=text("Fifth"))).stop_reason == "end_turn"


@pytest.mark.parametrize(
    "end", ["SIGINT", *(pytest.param(each, marks=pytest.mark.long) for each in ("end of input", "SIGTERM"))]
)
async def test_the_program_ends_with_its_editor_and_leaves_no_cli(end: str, tmp_path: Path) -> None:
    editor = Editor()
    editor.answers.clear()
    shell = {"command": "sleep 600", "run_in_background": True}
    script = [Reply([tool_use("Bash", shell)]), Reply("Started."), Reply([tool_use("Bash", {"command": "touch made"})])]
    async with ScriptedModel(script) as model, open_editor(editor, model, is_forked=end != "SIGINT") as connection:
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=text("Build"))
        waiting = asyncio.create_task(connection.prompt(session_id=session.session_id, prompt=text("Work")))
        await editor.is_asked.wait()
        if end == "end of input":
            editor.process.stdin.close()
        else:
            editor.process.send_signal(getattr(signal, end))
        assert await editor.process.wait() == 0
        assert list_clis(model) == []
        waiting.cancel()


async def test_an_editor_that_ends_without_reading_ends_the_program(tmp_path: Path) -> None:
    async with ScriptedModel([Reply("w" * 3_000_000, chunk_chars=20_000)]) as model:
        editor = Editor()
        async with open_editor(editor, model) as connection:
            session = await connection.new_session(cwd=str(tmp_path))
            reading = editor.process._transport.get_pipe_transport(1)
            prompt = asyncio.create_task(connection.prompt(session_id=session.session_id, prompt=text("Go")))
            await editor.wait_for(lambda u: isinstance(u, acp.schema.AgentMessageChunk))
            reading.pause_reading()
            reading.close()
            editor.process.stdin.close()
            assert await editor.process.wait() == 0
            assert list_clis(model) == []
            prompt.cancel()


async def lines_that_are_no_message_get_an_error_and_end_nothing(editor: RawEditor) -> None:
    deep = b'{"jsonrpc": "2.0", "id": 5, "method": "session/list", "params": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    for line, code in ((b"[]", -32600), (b"{", -32700), (b"7", -32600), (deep, -32600), (b"\xff", -32700)):
        editor.send(line)
        assert await editor.refusals.get() == code
    assert (await editor.ask(1, "session/list"))["sessions"] == []


async def test_lines_that_are_no_message_cancelled_requests_and_a_session_that_is_deleted() -> None:
    gate, later = Gate(), Gate()
    script = [Reply("First", after=gate), Reply("Second.", after=later)]
    async with ScriptedModel(script) as model, open_raw_editor(model) as editor:
        await lines_that_are_no_message_get_an_error_and_end_nothing(editor)
        session = await editor.ask(2, "session/new", cwd=str(model.sandbox.cwd), mcpServers=[])
        sound = {"type": "audio", "data": "a" * 60_000_000, "mimeType": "audio/wav"}
        refused = await editor.ask(3, "session/prompt", sessionId=session["sessionId"], prompt=[sound])
        assert "audio" in refused["message"]
        assert (await editor.ask(4, "session/list"))["sessions"] == []

        def prompt(number: int) -> asyncio.Future[Any]:
            block = {"type": "text", "text": f"Prompt {number}"}
            return editor.ask(number, "session/prompt", sessionId=session["sessionId"], prompt=[block])

        # Cancelling the request of a prompt cancels that prompt.
        first = prompt(12)
        await gate.wait_reached()
        editor.send({"method": "$/cancel_request", "params": {"requestId": 12}})
        assert (await first)["stopReason"] == "cancelled"
        second = prompt(13)
        await later.wait_reached()
        behind = prompt(14)
        editor.send({"method": "$/cancel_request", "params": {"requestId": 14}})
        assert (await behind)["stopReason"] == "cancelled"
        later.open()
        assert (await second)["stopReason"] == "end_turn"
        assert "Prompt 14" not in str([request.body for request in model.requests])

        # A session that is deleted is closed and gone.
        assert len((await editor.ask(21, "session/list"))["sessions"]) == 1
        assert await editor.ask(22, "session/delete", sessionId=session["sessionId"]) == {}
        assert (await editor.ask(23, "session/list"))["sessions"] == []
        assert (await editor.ask(24, "session/delete", sessionId=session["sessionId"]))["code"] == -32002


async def test_a_session_is_listed_shows_what_the_live_one_showed_and_is_forked_and_closed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("seven")
    commands = tmp_path / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "fix.md").write_text("Fix $ARGUMENTS")
    shell = {"command": "echo built", "run_in_background": True, "description": "Build it"}
    agent = {"description": "Look", "prompt": "Look", "subagent_type": "general-purpose", "run_in_background": False}
    script = [
        Reply([tool_use("Read", {"file_path": "notes.txt"}), tool_use("Bash", shell)]),
        Reply(tool_use("Agent", agent)),
        Reply(tool_use("Bash", {"command": "echo inside"})),
        Reply("Seen."),
        Reply("Done."),
    ]
    live, loaded = Editor(), Editor()
    pdf = acp.schema.EmbeddedResourceContentBlock(
        type="resource",
        resource=acp.schema.BlobResourceContents(blob=PDF, mime_type="application/pdf", uri="file:///a.pdf"),
    )
    async with ScriptedModel(script, on_exhausted="It is built.") as model:
        async with open_editor(live, model) as connection:
            session_id = (await connection.new_session(cwd=str(tmp_path))).session_id
            attached = acp.resource_block(acp.embedded_text_resource("file:///work/a.py", "print(7)"))
            for prompt in (
                [acp.image_block(PIXEL, "image/png"), pdf, *text("Remember 7"), attached],
                text("<div> is not centred"),
                text("/fix it now"),
                text("/model opus"),
            ):
                await connection.prompt(session_id=session_id, prompt=prompt)
            await live.wait_for(
                lambda u: getattr(u, "tool_call_id", "").startswith("task:") and u.status == "completed"
            )
            assert "application/pdf" in str(model.requests[0].body["messages"])
        async with open_editor(loaded, model) as connection:
            (listed,) = (await connection.list_sessions(cwd=str(tmp_path))).sessions
            assert (listed.session_id, listed.cwd) == (session_id, str(tmp_path))
            await connection.load_session(cwd=str(tmp_path), session_id=session_id)
            await loaded.wait_for(lambda u: getattr(u, "tool_call_id", "").startswith("task:"))
            shown = [*loaded.updates]
            await a_loaded_session_goes_on_and_is_forked(connection, model, session_id, str(tmp_path))
        loaded.updates[:] = shown

    def calls(editor: Editor) -> set[Any]:
        return {
            (call.tool_call_id, call.title, call.kind, (call.field_meta or {}).get("parentToolCallId"))
            for call in editor.list_updates(acp.schema.ToolCallStart)
        }

    assert calls(loaded) == calls(live)
    assert len(calls(live)) == 5
    (read,) = [call for call in live.list_updates(acp.schema.ToolCallStart) if call.kind == "read"]
    assert read.locations[0].path == str(tmp_path / "notes.txt")
    image, file, *words = [chunk.content for chunk in loaded.list_updates(acp.schema.UserMessageChunk)]
    assert (image.type, file.resource.uri, file.resource.text) == ("image", "file:///work/a.py", "print(7)")
    assert [block.text for block in words] == ["Remember 7", "<div> is not centred", "/fix it now", "/model opus"]
    ends = {update.tool_call_id: update.status for update in loaded.list_updates(acp.schema.ToolCallProgress)}
    assert set(ends.values()) == {"completed"}
    assert "Set model to" in live.text
    assert "Set model to" in loaded.text
    live_ids, loaded_ids = (
        {
            chunk.message_id
            for chunk in each.list_updates(acp.schema.AgentMessageChunk)
            if "Set" not in chunk.content.text
        }
        for each in (live, loaded)
    )
    assert None not in live_ids
    assert live_ids == loaded_ids


async def a_loaded_session_goes_on_and_is_forked(
    connection: Any, model: ScriptedModel, session_id: str, cwd: str
) -> None:
    await connection.prompt(session_id=session_id, prompt=text("And?"))
    assert "Remember 7" in str(model.requests[-1].body["messages"])
    fork = await connection.fork_session(cwd=cwd, session_id=session_id)
    assert fork.session_id != session_id
    await connection.prompt(session_id=fork.session_id, prompt=text("Fork?"))
    assert "Remember 7" in str(model.requests[-1].body["messages"])
    await connection.close_session(session_id=fork.session_id)
    with pytest.raises(acp.RequestError, match="no open session") as refused:
        await connection.prompt(session_id=fork.session_id, prompt=text("Closed?"))
    assert refused.value.code == -32002


async def test_a_module_that_cannot_be_loaded_is_named_in_one_line() -> None:
    async with ScriptedModel([]) as model:
        (model.sandbox.cwd / "broken.py").write_text("raise RuntimeError('no database')")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "claude_agent_py", "acp", "broken", cwd=model.sandbox.cwd,
            env={**model.environment(), "PYTHONPATH": str(PACKAGE)}, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, errors = await process.communicate()
        assert process.returncode == 1
        (line,) = errors.decode().splitlines()
        assert line.endswith("broken cannot be loaded: RuntimeError: no database")

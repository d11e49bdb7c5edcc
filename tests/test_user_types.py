"""Users' programs pass mypy and pyright in strict mode, without plugins, and the code of the docs passes mypy.

`make types` runs all of this, `make test` only the programs themselves.

Invalid code is marked `# type: ignore`; an unused ignore is an error.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import blocks_of, program_of

OPTIONS = """
from claude_agent_py import AgentDefinition, ClientOptions, MCPHTTPServer, MCPStdioServer

near = MCPStdioServer("npx", ["-y", "x"], {"A": "b"}, timeout=3)
far = MCPHTTPServer("https://x", {"A": "b"}, always_load=True)
reviewer = AgentDefinition(description="d", prompt="p")
definitions = {"a": reviewer}
dicts = {"b": {"description": "d", "prompt": "p", "tools": ["Read"]}}
ClientOptions(
    agents={"a": {"description": "d", "prompt": "p"}, "b": reviewer},
    system_prompt={"type": "preset", "append": "x"},
    thinking={"type": "enabled", "budget_tokens": 5},
    plugins=["a", {"type": "local", "path": "b"}],
    tools={"type": "preset", "preset": "claude_code"},
)
ClientOptions(agents=definitions, system_prompt=["a", "b"], thinking="adaptive", tools=["Read"])

env = {"A": "b"}
unset = {"A": None}
flags = {"some-flag": "1"}
aliases = {"Bash": "mcp__tools__shell"}
names = ["Read"]
servers = {"a": {"command": "x", "args": ["y"]}}
settings = {"env": {"A": "b"}}
shape = {"type": "json_schema", "schema": {"type": "object"}}
thinking = {"type": "enabled", "budget_tokens": 5}
options = ClientOptions(
    env=env, extra_args=flags, agents=dicts, tools=names, allowed_tools=names, mcp_servers=servers, settings=settings,
    output_format=shape, plugins=names, tool_aliases=aliases, betas=names, thinking=thinking, skills=names,
    additional_directories=names, fallback_model=names,
)
env["A"] = "changed"
assert options.env == {"A": "b"}
ClientOptions(env=unset, extra_args=unset)
"""

SCRIPTS = """
from claude_agent_py.testing import (
    Answer, Failure, FakeCLI, RecordedRequest, Reply, Script, ScriptedModel, frames, steps, text, thinking, tool_use,
)

blocks = [thinking("hm"), "yes"]
script = [tool_use("Bash", {"command": "ls"}), "There are no files.", Reply(blocks), Failure(429)]
agents = {"auth": "fine", "billing": [tool_use("Bash", {"command": "ls"}), "fine"], "docs": ["fine"]}
sessions = {"hi": "fine"}
ScriptedModel(script, agents=agents, sessions=sessions)


def by_request(request: RecordedRequest) -> Answer:
    return Reply(text(request.prompt))


def explores(request: RecordedRequest) -> bool:
    return request.agent_type == "Explore"


ScriptedModel("hi", agents={explores: "looked"})


def test_script() -> Script:
    return ["a", tool_use("Bash"), [text("b"), "c"]]


checked: Script = ["a", Failure(500)]
wrong: Script = ["a", 5]  # type: ignore[list-item]
ScriptedModel(by_request, agents={"x": by_request})
ScriptedModel(checked, side=test_script())

played = [steps.turn("hello"), frames.assistant("one mom"), b"x"]
answers = {"set_model": {"error": "no"}, "get_plan": {"response": {"a": 1}}, "interrupt": None}
FakeCLI(played, answers=answers, initialize={"pid": 1})
FakeCLI(steps.turn("hello"), played, b"x")
"""

SIGNATURES = """
from claude_agent_py import AssistantMessage, Client, MalformedFrame, Message, query
from claude_agent_py.hooks import HookRun
from claude_agent_py.messages import (
    ContentBlock, HandlerFailed, InitMessage, RunMessage, SessionMessage, StreamEventMessage, TextBlock, TextDelta,
)
from claude_agent_py.wire import Frame, decode
from typing_extensions import assert_type


def show_run(message: RunMessage) -> None: ...


def show_session(message: SessionMessage) -> None: ...


def show_frame(frame: Frame) -> None: ...


def show_message(message: Message) -> None: ...


def show_block(block: ContentBlock) -> None: ...


async def main(client: Client) -> None:
    run = client.query("hi")
    async for message in run:
        show_run(message)
        if not isinstance(message, MalformedFrame):
            show_message(message)
    async for message in query("hi"):
        show_run(message)
    seen: list[RunMessage] = list((await run).messages)
    print(seen)
    async for heard in client.messages():
        show_session(heard)
        if isinstance(heard, AssistantMessage):
            for block in heard.content:
                show_block(block)
        if not isinstance(heard, HandlerFailed | HookRun):
            show_run(heard)
    show_frame(decode(b"{}"))


def narrow(message: RunMessage, heard: SessionMessage) -> None:
    if message.type == "assistant":
        assert_type(message, AssistantMessage)
        for block in message.content:
            if block.type == "text":
                assert_type(block, TextBlock)
    elif message.type == "system" and message.subtype == "init":
        assert_type(message, InitMessage)
    elif message.type == "stream_event":
        assert_type(message, StreamEventMessage)
        if message.event.type == "content_block_delta" and message.event.delta.type == "text_delta":
            assert_type(message.event.delta, TextDelta)
    elif message.type == "malformed":
        assert_type(message, MalformedFrame)
    if heard.type == "assistant":
        assert_type(heard, AssistantMessage)
"""

CALLBACKS = """
from collections.abc import Sequence

from claude_agent_py import (
    Allow, ClientOptions, Deny, EffortLevel, HookContext, HookEvent, HookMatcher, Hooks, PermissionContext,
    PermissionMode, PermissionRequest, SettingSource, SubagentStopInput, SubagentStopOutput, Task, TaskEvent,
    TaskNotificationMessage,
)
from claude_agent_py.control import UserDialogRequest
from claude_agent_py.hooks import HookInput, HooksByEvent, PreToolUseInput, PreToolUseOutput
from claude_agent_py.permissions import (
    Accept, Answers, Completed, Decline, Dismissed, ElicitationRequest, PendingInteractions, Plan, Question,
)
from claude_agent_py.tasks import TaskFinished, TaskManager
from claude_agent_py.tools import SamplingRequest, ToolContext
from typing_extensions import assert_type


async def before(input: PreToolUseInput, context: HookContext) -> PreToolUseOutput | None:
    assert_type(context.task, Task | None)
    return None


def stopped(input: SubagentStopInput, context: HookContext) -> SubagentStopOutput | None:
    return None


async def any_event(input: HookInput, context: HookContext) -> None: ...


def wrong_answer(input: PreToolUseInput, context: HookContext) -> int:
    return 1


ClientOptions(
    hooks={
        "PreToolUse": [before, HookMatcher("Bash", before, timeout=30, on_failure="block"), any_event],
        "SubagentStop": [stopped, HookMatcher(None, [stopped, any_event])],
        "Stop": [any_event, lambda input, context: None, {"matcher": None, "hooks": [stopped]}],
    }
)
by_event: HooksByEvent = {"SubagentStop": [stopped]}
ClientOptions(hooks=by_event)
ClientOptions(hooks=Hooks(by_event))
assert_type(HookMatcher("Bash", before), HookMatcher[PreToolUseInput])


async def ask(request: PermissionRequest, context: PermissionContext) -> Allow | Deny:
    assert_type(request.task, Task | None)
    return Allow()


def answer(questions: Sequence[Question], context: PermissionContext) -> Answers:
    return Answers({})


async def approve(plan: Plan, context: PermissionContext) -> Deny:
    return Deny("no")


async def elicit(request: ElicitationRequest, context: PermissionContext) -> Accept | Decline:
    return Decline()


def show(request: UserDialogRequest, context: PermissionContext) -> Completed | Dismissed:
    return Dismissed()


async def sampled(request: SamplingRequest, context: ToolContext) -> str:
    return str(request.messages[0]["content"])


def notified(notification: TaskNotificationMessage) -> None: ...
async def event(event: TaskEvent) -> None: ...


ClientOptions(
    can_use_tool=ask, on_question=answer, on_plan=approve, on_elicitation=elicit, on_user_dialog=show,
    on_sampling=sampled,
    on_task_notification=notified, on_task_event=event, on_stderr=print, interactions=PendingInteractions(),
)
ClientOptions(
    can_use_tool=lambda request, context: Deny(request.tool_name),
    on_task_notification=lambda told: print(told.task_id),
    on_stderr=lambda line: print(line.strip()),
    interactions=True,
)


async def finished(event: TaskFinished) -> None: ...


def listen(tasks: TaskManager) -> None:
    tasks.on(event)
    tasks.on(TaskFinished, finished)
    tasks.on("finished", finished)
    tasks.on("notification", notified)

    @tasks.on("finished")
    def told(event: TaskFinished) -> None: ...

    @tasks.on(TaskFinished)
    async def also(event: TaskFinished) -> None: ...

    @tasks.on()
    def all_of_them(event: TaskEvent) -> None: ...

    tasks.on(notified)  # type: ignore[arg-type]
    tasks.on("finished", notified)  # type: ignore[call-overload]
    tasks.on(TaskFinished, notified)  # type: ignore[arg-type]


def refused() -> None:
    ClientOptions(hooks={"PreToolUse": [stopped]})  # type: ignore[arg-type]
    ClientOptions(hooks={"SubagentStop": [HookMatcher(None, before)]})  # type: ignore[arg-type]
    ClientOptions(hooks={"PreToolUse": [wrong_answer]})  # type: ignore[arg-type]
    ClientOptions(hooks={"PreBreakfast": [any_event]})  # type: ignore[arg-type]
    ClientOptions(can_use_tool=answer)  # type: ignore[arg-type]
    ClientOptions(on_question=ask)  # type: ignore[arg-type]
    ClientOptions(on_plan=elicit)  # type: ignore[arg-type]
    ClientOptions(on_elicitation=approve)  # type: ignore[arg-type]
    ClientOptions(on_sampling=elicit)  # type: ignore[arg-type]
    ClientOptions(on_user_dialog=ask)  # type: ignore[arg-type]
    ClientOptions(on_task_notification=event)  # type: ignore[arg-type]
    ClientOptions(on_task_event=notified)  # type: ignore[arg-type]
    ClientOptions(on_stderr=notified)  # type: ignore[arg-type]
    ClientOptions(interactions=ask)  # type: ignore[arg-type]


mode: PermissionMode = "plan"
effort: EffortLevel = "high"
sources: list[SettingSource] = ["user"]
event_name: HookEvent = "PreToolUse"
"""

OUTPUT = """
from typing import Any

from pydantic import BaseModel
from typing_extensions import assert_type

from claude_agent_py import Client, ClientOptions, Run, RunResult, query, run, run_sync


class Report(BaseModel):
    title: str


options = ClientOptions(output_type=Report)
assert_type(options, ClientOptions[Report])
assert_type(ClientOptions().replace(output_type=Report), ClientOptions[Report])
assert_type(ClientOptions().replace(output_type=list[int], model="opus"), ClientOptions[list[int]])
assert_type(options.replace(output_type=None), ClientOptions[Any])
assert_type(options.replace(model="opus"), ClientOptions[Report])


def show(report: Report) -> None: ...


async def main() -> None:
    assert_type(query("hi", options), Run[Report])
    assert_type(await query("hi", options), RunResult[Report])
    assert_type((await run("hi", options)).output, Report)
    async with Client(options) as client:
        assert_type(client.query("hi"), Run[Report])
        assert_type((await client.query("hi")).output, Report)
        assert_type(await client.query("hi").result(), RunResult[Report])
    async with Client() as plain:
        show((await plain.query("hi")).output)
    assert_type(await run("hi"), RunResult[Any])
    assert_type((await run("hi", ClientOptions(output_type=list[int]))).output, list[int])
    wrong: int = (await run("hi", options)).output  # type: ignore[assignment]


def sync() -> None:
    assert_type(run_sync("hi", options).output, Report)
"""

MESSAGES = """
from typing import Literal

from typing_extensions import assert_type

from claude_agent_py import AssistantMessage, ResultMessage, TextBlock, ToolUseBlock, UserMessage
from claude_agent_py.messages import (
    ContentBlock,
    ImageBlock,
    InitMessage,
    Message,
    MediaSource,
    StatusMessage,
    UnknownBlock,
    UnknownMessage,
    UserContent,
)


def told(message: Message) -> str:
    if isinstance(message, UnknownMessage):
        return message.type
    if message.type == "result":
        assert_type(message, ResultMessage)
        return message.error_text
    if isinstance(message, AssistantMessage):
        return " ".join(said(block) for block in message.content)
    if isinstance(message, StatusMessage | InitMessage):
        assert_type(message.type, Literal["system"])
    return message.uuid + message.session_id + str(message.raw)


def said(block: ContentBlock) -> str:
    match block:
        case TextBlock(text=text):
            return text
        case ToolUseBlock(name="Bash", input={"command": str(command)}):
            return command
        case UnknownBlock(raw=raw):
            return str(raw)
        case _:
            return block.type


content: list[ContentBlock] = [TextBlock(text="hi"), ImageBlock(source=MediaSource(type="a new word"))]
message = UserMessage(message=UserContent(role="user", content=content)).replace(uuid="u")
assert_type(message, UserMessage)
assert told(message).startswith("u{")
assert [said(block) for block in content] == ["hi", "image"]


def neither_changed_nor_made_in_other_ways() -> None:
    block = TextBlock(text="hi")
    block.text = "other"  # type: ignore[misc]
    TextBlock("hi")  # type: ignore[call-arg, arg-type]
    TextBlock(words="hi")  # type: ignore[call-arg]
"""

PROGRAMS = {
    "messages": MESSAGES,
    "options": OPTIONS,
    "scripts": SCRIPTS,
    "signatures": SIGNATURES,
    "callbacks": CALLBACKS,
    "output": OUTPUT,
}


EXTRAS = (
    "boto3",
    "botocore",
    "celery",
    "claude_agent_sdk",
    "dbos",
    "fastapi",
    "httpx2",
    "langchain_core",
    "mcp",
    "opentelemetry",
    "psycopg",
    "redis",
    "rich",
    "pydantic_ai",
    "pydantic_evals",
    "temporalio",
    "yaml",
)
"""What a plain install has not. Half of the time would go into these packages."""


def write_programs(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in PROGRAMS.items():
        (folder / f"{name}.py").write_text(program)


CONFIG = f"""
[mypy]
warn_unreachable = True
[mypy-{",".join(f"{name}.*" for name in EXTRAS)}]
follow_imports = skip
ignore_missing_imports = True
[mypy-page_mcp_servers,page_durable_turns,page_fleet_on_temporal,page_recipes]
disallow_subclassing_any = False
disallow_untyped_decorators = False
warn_return_any = False
"""
"""What is skipped has no types: it decorates functions in the docs, or has base classes."""

PAGES = sorted([*Path(__file__).parent.parent.glob("docs/*.md"), Path(__file__).parent.parent / "README.md"])


@pytest.mark.long
def test_mypy_takes_them_and_the_code_of_the_docs(pytestconfig: pytest.Config) -> None:
    pytest.importorskip("mypy")
    cache = pytestconfig.rootpath / ".mypy_cache" / "user_types"  # what has not changed is not checked again
    folder = cache / "programs"
    write_programs(folder)
    for page in folder.glob("page_*.py"):
        page.unlink()
    for page in PAGES:
        name = f"page_{page.stem.lower().replace('-', '_')}.py"
        (folder / name).write_text(program_of(list(blocks_of(page))))
    config = cache / "mypy.ini"
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "mypy", "--strict", f"--config-file={config}", f"--cache-dir={cache}", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_pyright_takes_them(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    write_programs(tmp_path)
    config = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": True}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_run(name: str) -> None:
    exec(compile(PROGRAMS[name], f"{name}.py", "exec"), {})

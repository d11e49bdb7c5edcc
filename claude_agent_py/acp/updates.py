"""`Updates`: what an editor shows of a session, from its messages and facts.

A tool call of a session is a tool call of the editor, with the same id. A background task is one too, `task:<id>`,
because the call that launched it returns at once.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final, TypeAlias

from acp import schema
from acp.helpers import (
    ContentBlock,
    embedded_text_resource,
    image_block,
    plan_entry,
    resource_block,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_available_commands,
    update_current_mode,
    update_plan,
)

from claude_agent_py._base.display import one_line
from claude_agent_py._base.log import Drops
from claude_agent_py.control import SlashCommand
from claude_agent_py.journal import (
    MAIN,
    CallEnded,
    CallProgressed,
    CallStarted,
    PromptSent,
    TaskBackgrounded,
    TaskFinished,
    TaskProgressed,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.messages import (
    AssistantMessage,
    CommandsChangedMessage,
    ContentBlockDeltaEvent,
    ImageBlock,
    InitMessage,
    LocalCommandOutputMessage,
    ResultMessage,
    StatusMessage,
    StreamEventMessage,
    TextBlock,
    TextFold,
    ThinkingBlock,
    ThinkingDelta,
    ToolResultBlock,
    UserMessage,
)
from claude_agent_py.tasks import TaskEvent, TaskStatus
from claude_agent_py.todo import TaskList
from claude_agent_py.wire import JSONObject

Update: TypeAlias = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.AvailableCommandsUpdate
    | schema.CurrentModeUpdate
    | schema.ConfigOptionUpdate
    | schema.SessionInfoUpdate
    | schema.UsageUpdate
)
Said: TypeAlias = tuple[Callable[[str], Update], str | None]
"""A text of the main agent: what makes the update for a part of it, and the API message that it is from."""

TITLE_CHARS: Final = 200
RESULT_CHARS: Final = 100_000
"""The text of a result is cut to this length; the model gets all of it."""
KINDS: Final[Mapping[str, schema.ToolKind]] = {
    "Read": "read",
    "Edit": "edit",
    "Write": "edit",
    "NotebookEdit": "edit",
    "Bash": "execute",
    "PowerShell": "execute",
    "Glob": "search",
    "Grep": "search",
    "ToolSearch": "search",
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "Agent": "think",
    "Task": "think",
    "ExitPlanMode": "switch_mode",
    "EnterPlanMode": "switch_mode",
}
COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
ARGUMENTS: Final = re.compile(r"<command-args>(.*)</command-args>", re.DOTALL)
CONTEXT: Final = re.compile(r'<context ref="(?P<name>[^"\n]*)">\n(?P<text>.*)\n</context>', re.DOTALL)
"""A file that was attached to a prompt, as `write_context` writes it."""
_STATUSES: Final[Mapping[str, schema.PlanEntryStatus]] = {"in_progress": "in_progress", "completed": "completed"}


class Updates:
    """Turns the items of `Client.events(facts=True)`, or of a stored session, into updates for an editor.

    Args:
        folder: The working directory of the session: editors need absolute paths.

    Attributes:
        task_list: The to-do list of the session. A live one is kept by the client.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = Path(folder or "")
        self.task_list: TaskList = TaskList()
        self._text = TextFold()
        self._drops = Drops("an editor's view of a session")
        self._thought: set[str] = set()
        """The API messages of this turn whose thinking came as deltas."""
        self._prompts: set[str] = set()
        """The uuids of the prompts of a stored session."""
        self._said: dict[Said, StringIO] = {}
        """The texts of this turn, or of a stored session."""
        self._replayed: dict[Said, int] = {}
        """How many characters of each text a replay has shown."""
        self._plan: list[schema.PlanEntry] = []
        """The plan that the editor shows."""
        self._mode: str | None = None
        self._calls: dict[str, schema.ToolCallStart] = {}
        """The calls that the editor shows, by id: those without a result, and those of this turn and the last."""
        self._tasks: dict[str, schema.ToolCallStart] = {}
        """The background tasks that the editor shows, by id."""
        self._ends: dict[str, schema.ToolCallProgress] = {}
        """The ends of these calls and tasks, by id."""
        self._last_calls: list[str] = []
        """The calls that had a result when the last turn ended."""
        self._foreground: dict[str, TaskStarted | TaskReopened] = {}
        """The tasks whose call still waits for them, and which the editor shows as that call."""

    def feed(self, event: object) -> Iterator[Update]:
        """Yield the updates for an event. An editor does not show tasks that are not in the journal."""
        if isinstance(event, TaskEvent) and not event.number:
            return
        handle = _HANDLERS.get(type(event))
        yield from self._keep_going(self._on_message(event) if handle is None else handle(self, event), event)

    def _keep_going(self, updates: Iterator[Update], item: object) -> Iterator[Update]:
        """Yield the updates for an item. If one cannot be made, the item is logged and dropped."""
        try:
            yield from updates
        except Exception:
            self._drops.note(item)

    def _on_message(self, event: object) -> Iterator[Update]:
        """Yield the updates for the texts of a message, and for changes of the session: its mode and commands."""
        for text in self._text.feed(event):
            yield from self._say((update_agent_message_text, _find_message(event)), text)
        for text in self._list_thoughts(event):
            yield from self._say((update_agent_thought_text, _find_message(event)), text)
        if isinstance(event, ResultMessage):
            self._said.clear()
            self._replayed.clear()
            self._forget_calls()
        elif isinstance(event, InitMessage):
            yield from self._list_plan()  # a new conversation has a new list
        mode = event.permission_mode if isinstance(event, InitMessage | StatusMessage) else None
        if mode is not None and mode != self._mode:
            self._mode = mode
            yield update_current_mode(str(mode))
        if isinstance(event, CommandsChangedMessage):
            yield list_commands(event.commands)
        elif isinstance(event, LocalCommandOutputMessage):
            yield update_agent_message_text(event.content)

    def replay(self, session: Iterable[object]) -> Iterator[Update]:
        """Yield the updates for a stored session, with the user's prompts."""
        for message in session:
            if isinstance(message, CallEnded | InitMessage):
                self.task_list.track(message)
            if isinstance(message, PromptSent):
                self._prompts.add(message.id)
                yield from _list_prompt(message.id, message.content)
            yield from self.feed(message)

    def catch_up(self, replay: "Updates", prompts: Iterable[UserMessage]) -> Iterator[Update]:
        """Yield what the replay of the stored session lacks of these prompts, and of what the editor has been told.

        It may also have what is yet to come, which is then not told again.
        """
        for prompt in prompts:
            if prompt.uuid not in replay._prompts:
                yield from _list_prompt(prompt.uuid, prompt.content)
        self._replayed = {said: text.tell() for said, text in replay._said.items()}
        for said, text in self._said.items():
            yield from _tell(said, text.getvalue()[self._replayed.get(said, 0) :])
        for mine, its in ((self._calls, replay._calls), (self._tasks, replay._tasks)):
            yield from (started for name, started in mine.items() if name not in its)
        for name, ended in self._ends.items():
            if name not in replay._ends or replay._ends[name].status != ended.status:
                yield ended
        self._plan = replay._plan
        yield from self._list_plan()

    def _say(self, said: "Said", text: str) -> Iterator[Update]:
        """Yield the next part of a text, without what a replay has shown."""
        before = self._said.setdefault(said, StringIO())
        shown = max(0, self._replayed.get(said, 0) - before.tell())
        before.write(text)
        yield from _tell(said, text[shown:])

    def _list_thoughts(self, event: object) -> Iterator[str]:
        """Yield the thinking of the main agent, each piece once."""
        if isinstance(event, StreamEventMessage) and event.parent_tool_use_id is None:
            delta = event.event.delta if isinstance(event.event, ContentBlockDeltaEvent) else None
            if isinstance(delta, ThinkingDelta) and delta.thinking:
                self._thought.add(event.api_message_id or "")
                yield delta.thinking
        elif isinstance(event, AssistantMessage) and not event.is_subagent:
            was_streamed = not self._thought.isdisjoint((event.message.id, ""))  # old deltas name no message
            blocks = () if was_streamed else event.content
            yield from (block.thinking for block in blocks if isinstance(block, ThinkingBlock))
        elif isinstance(event, ResultMessage):
            self._thought.clear()

    # Tool calls

    def _forget_calls(self) -> None:
        """Forget the calls of the turn before this one, which ends: the CLI has written them by now."""
        for name in self._last_calls:
            self._calls.pop(name, None)
            self._ends.pop(name, None)
        self._last_calls = [name for name in self._calls if name in self._ends]

    def _on_call(self, fact: CallStarted) -> Iterator[Update]:
        shown = describe(fact.call.name, fact.call.input, self._folder)
        meta: JSONObject = {"claudeCode": {"toolName": fact.call.name}}  # as the vendor's agent names it
        if fact.agent != MAIN:
            meta |= {"agent": fact.agent, "parentToolCallId": fact.parent_call}
        self._calls[fact.id] = schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=fact.call.id,
            status="in_progress",
            raw_input=fact.call.input,
            field_meta=meta,
            **shown,
        )
        yield self._calls[fact.id]

    def _on_call_progress(self, fact: CallProgressed) -> Iterator[Update]:
        started = self._calls.get(fact.id)
        if started is not None:
            done = f"{fact.progress}/{fact.total}" if fact.total else str(fact.progress)
            yield schema.ToolCallProgress(
                session_update="tool_call_update",
                tool_call_id=fact.id,
                title=one_line(f"{started.title}: {done} {fact.text}", TITLE_CHARS),
            )

    def _on_call_end(self, fact: CallEnded) -> Iterator[Update]:
        given = describe(fact.call.name, fact.call.input, self._folder)
        # The editor keeps showing a diff that was applied.
        is_shown = bool(given["content"]) and not fact.result.is_error
        self._ends[fact.id] = schema.ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=fact.call.id,
            title=given["title"],
            status="failed" if fact.result.is_error else "completed",
            content=None if is_shown else [tool_content(block) for block in _list_content(fact.result)],
            raw_output=fact.structured if len(str(fact.structured)) <= RESULT_CHARS else None,
        )
        yield self._ends[fact.id]
        yield from self._list_plan()

    # Background tasks

    def _on_task(self, fact: TaskStarted | TaskReopened) -> Iterator[Update]:
        if not fact.is_backgrounded:
            self._foreground[fact.task_id] = fact
            return
        self._ends.pop(fact.task_id, None)
        self._tasks[fact.task_id] = schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=_task_id(fact.task_id),
            title=one_line(fact.description or fact.name or fact.task_id, TITLE_CHARS),
            kind="execute" if fact.type == "local_bash" else "think",
            status="in_progress",
            field_meta={"task": fact.task_id, "type": fact.type, "toolCallId": fact.call},
        )
        yield self._tasks[fact.task_id]

    def _on_backgrounded(self, fact: TaskBackgrounded) -> Iterator[Update]:
        started = self._foreground.pop(fact.task_id, None)
        if started is not None:
            yield from self._on_task(started.replace(is_backgrounded=True))

    def _on_progress(self, fact: TaskProgressed) -> Iterator[Update]:
        started = self._tasks.get(fact.task_id)
        doing = fact.summary or fact.activity
        if started is not None and doing and doing != started.title:
            yield schema.ToolCallProgress(
                session_update="tool_call_update",
                tool_call_id=_task_id(fact.task_id),
                title=one_line(f"{started.title}: {doing}", TITLE_CHARS),
            )

    def _on_status(self, fact: TaskStatusChanged) -> Iterator[Update]:
        if fact.new.is_terminal:
            yield from self._end_task(fact.task_id, fact.new, fact.failure_reason)

    def _on_task_end(self, fact: TaskFinished | TaskRevised) -> Iterator[Update]:
        outcome = fact.outcome
        yield from self._end_task(fact.task_id, outcome.status, outcome.summary or outcome.failure_reason)

    def _end_task(self, task_id: str, status: TaskStatus, text: str | None) -> Iterator[Update]:
        self._foreground.pop(task_id, None)
        started = self._tasks.get(task_id)
        if started is None:
            return
        self._ends[task_id] = schema.ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=_task_id(task_id),
            title=started.title,
            status="completed" if status is TaskStatus.COMPLETED else "failed",
            content=[tool_content(text_block(_cut(text)))] if text else None,
        )
        yield self._ends[task_id]

    # The to-do list

    def _list_plan(self) -> Iterator[Update]:
        """Yield the plan if it differs from the one that the editor shows."""
        entries = [(item.subject, item.active_form, item.status) for item in self.task_list]
        entries = entries or [(item.content, item.active_form, item.status) for item in self.task_list.todos]
        plan = [
            plan_entry((active or text) if status == "in_progress" else text, status=_STATUSES.get(status, "pending"))
            for text, active, status in entries
        ]
        if plan != self._plan:
            self._plan = plan
            yield update_plan(plan)


_HANDLERS: Final[Mapping[type, Callable[[Updates, Any], Iterator[Update]]]] = {
    CallStarted: Updates._on_call,
    CallProgressed: Updates._on_call_progress,
    CallEnded: Updates._on_call_end,
    TaskStarted: Updates._on_task,
    TaskBackgrounded: Updates._on_backgrounded,
    TaskProgressed: Updates._on_progress,
    TaskReopened: Updates._on_task,
    TaskStatusChanged: Updates._on_status,
    TaskFinished: Updates._on_task_end,
    TaskRevised: Updates._on_task_end,
}


def describe(name: str, given: JSONObject, folder: Path) -> JSONObject:
    """Return how an editor shows a call: its title, kind, locations, and the change of a file as a diff.

    A path that is relative to the working directory becomes absolute.
    """
    named = given.get("file_path") or given.get("notebook_path") or given.get("path")
    named = named if isinstance(named, str) else None
    path = str(folder / named) if named else None
    line = given.get("offset")
    words = [value for value in given.values() if isinstance(value, str)]
    title = given.get("command") or given.get("description") or named or " ".join(words)
    return {
        "title": one_line(f"{_name_tool(name)} {title}", TITLE_CHARS),
        "kind": KINDS.get(name, "other"),
        "locations": [schema.ToolCallLocation(path=path, line=line if isinstance(line, int) else None)] if path else [],
        "content": list(_diff(name, path, given)),
    }


def _name_tool(name: str) -> str:
    """Return the name of a tool without that of its MCP server."""
    return name.rpartition("__")[2] if name.startswith("mcp__") else name


def _diff(name: str, path: str | None, given: JSONObject) -> Iterator[schema.FileEditToolCallContent]:
    old = given.get("old_string") if name == "Edit" else None
    new = given.get({"Edit": "new_string", "Write": "content"}.get(name, ""))
    if path is not None and Path(path).is_absolute() and isinstance(new, str):
        yield tool_diff_content(path, new, old if isinstance(old, str) else None)


def list_commands(commands: Iterable[SlashCommand]) -> schema.AvailableCommandsUpdate:
    """Return the slash commands of a session."""
    return update_available_commands(
        schema.AvailableCommand(
            name=command.name,
            description=command.description,
            input=schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=command.argument_hint))
            if command.argument_hint
            else None,
        )
        for command in commands
    )


def _list_content(result: ToolResultBlock) -> Iterator[ContentBlock]:
    blocks = result.content if isinstance(result.content, list) else ()
    text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock)) if blocks else result.text
    if text:
        yield text_block(_cut(text))
    for block in blocks:
        if (image := _read_image(block)) is not None:
            yield image


def _list_prompt(uuid: str | None, content: str | Sequence[object]) -> Iterator[schema.UserMessageChunk]:
    """Yield what the user sent in a prompt."""
    blocks = [TextBlock(text=_read_command(content))] if isinstance(content, str) else content
    for block in blocks:
        shown = _read_text(block.text) if isinstance(block, TextBlock) else _read_image(block)
        if shown is not None:
            yield schema.UserMessageChunk(session_update="user_message_chunk", content=shown, message_id=uuid)


def _read_command(text: str) -> str:
    """Return a prompt as the user typed it: the CLI stores a command in tags."""
    command = COMMAND.search(text) if text.startswith("<command-") else None
    arguments = ARGUMENTS.search(text)
    return text if command is None else f"{command[1]} {arguments[1] if arguments else ''}".strip()


def _read_text(text: str) -> ContentBlock | None:
    """Return a text of a prompt: the file that it attaches, if `write_context` wrote it."""
    attached = CONTEXT.fullmatch(text)
    if attached is None:
        return text_block(text) if text.strip() else None
    name = attached["name"]
    uri = Path(name).as_uri() if Path(name).is_absolute() else name
    return resource_block(embedded_text_resource(uri, attached["text"]))


def write_context(name: str, text: str) -> str:
    """Return a file that is attached to a prompt, as the model sees it."""
    return f'<context ref="{name}">\n{text}\n</context>'


def _tell(said: Said, text: str) -> Iterator[Update]:
    make, message = said
    if text:
        yield make(text).model_copy(update={"message_id": message})


def _find_message(event: object) -> str | None:
    """Return the id of the API message that a text is from."""
    if isinstance(event, StreamEventMessage):
        return event.api_message_id
    return event.message_id or None if isinstance(event, AssistantMessage) else None


def _read_image(block: object) -> ContentBlock | None:
    source = block.source if isinstance(block, ImageBlock) else None
    data, kind = getattr(source, "data", None), getattr(source, "media_type", None)
    return image_block(data, kind) if data and kind else None


def _task_id(task: str) -> str:
    return f"task:{task}"


def _cut(text: str) -> str:
    return text if len(text) <= RESULT_CHARS else f"{text[: RESULT_CHARS - 1]}…"

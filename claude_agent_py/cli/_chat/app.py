"""`ChatApp`: the chat screen. It shows a `Conversation` and sends the user's input. textual requires asyncio."""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import TextArea

from claude_agent_py._base.errors import ClaudeAgentError
from claude_agent_py._connection.runs.run import Run
from claude_agent_py.cli._chat.answers import AnswerView
from claude_agent_py.cli._chat.conversation import Conversation, Entry
from claude_agent_py.cli._chat.question_panel import QuestionPanel
from claude_agent_py.cli._chat.widgets import Plain, PromptBox, PromptHistory, render_entry
from claude_agent_py.cli.live_tree import build_task_tree
from claude_agent_py.client import Client
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.catalog import SlashCommand

DOUBLE_PRESS_SECONDS: Final = 2.0
"""The longest time between two presses of a key that count as a double press."""
REFRESH: Final = 0.25
MOST_ENTRIES: Final = 400
SHOWN_COMMANDS: Final = 6
MODES: Final = ("default", "acceptEdits", "plan")
INTERRUPTED: Final = 130
KEYS: Final = "^C interrupt ^B background ^D end"


class ChatApp(App[None]):
    """A chat in a terminal.

    Args:
        client: A connected client, with an inbox and partial messages.
        history: Earlier prompts.
        first: The first prompt.
        earlier: Messages of the resumed session.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #conversation { height: 1fr; padding: 0 1; }
    #conversation > * { height: auto; margin: 1 0; }
    #conversation > .line { margin: 0; }
    #tasks { height: auto; max-height: 30%; padding: 0 1; }
    #tasks, #hints { display: none; }
    #hints { height: auto; padding: 0 1; }
    #question { height: auto; max-height: 60%; border: round $warning; padding: 0 1; }
    #question > * { height: auto; }
    #asked-plan { padding: 0; }
    #asked-words { border: none; height: 1; padding: 0; }
    #prompt { height: auto; min-height: 3; max-height: 10; }
    #status { height: 1; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "interrupt", priority=True),
        Binding("ctrl+d", "end", "end", priority=True),
        Binding("ctrl+b", "background", "move to the background", priority=True),
        Binding("shift+tab", "next_mode", "permission mode", priority=True),
        Binding("pageup", "scroll(-1)", "scroll up", priority=True),
        Binding("pagedown", "scroll(1)", "scroll down", priority=True),
    ]

    def __init__(
        self,
        client: Client,
        *,
        history: PromptHistory | None = None,
        first: str | None = None,
        earlier: Sequence[object] = (),
    ) -> None:
        super().__init__()
        self.conversation = Conversation(
            model=client.info.current_model or client.options.model or "",
            permission_mode=client.info.current_permission_mode or "",
        )
        self._client = client
        self._first = first
        self._earlier = earlier
        self._widgets: dict[Entry, Widget] = {}
        self._pane = VerticalScroll(id="conversation", can_focus=False)
        self._tasks = Plain(id="tasks")
        self._panel = QuestionPanel()
        self._hints = Plain(id="hints")
        self._box = PromptBox(history or PromptHistory(), self._complete)
        self._status = Plain(id="status")
        self._pressed: dict[str, float] = {}
        self._hint = ""
        self._is_lost = False
        """Whether the CLI exited unexpectedly."""

    def compose(self) -> ComposeResult:
        yield from (self._pane, self._tasks, self._panel, self._hints, self._box, self._status)

    async def on_mount(self) -> None:
        """Show the messages of the resumed session, and follow the session."""
        self._pane.anchor()
        self._box.focus()
        self.conversation.replay(self._earlier)
        for entry in self.conversation.entries:
            await self._show(entry)
        self.set_interval(REFRESH, self._refresh_status)
        self._refresh_status()
        self.run_worker(self._follow())
        if self._first:
            await self._send(self._first)

    # Events of the session --------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        try:
            async for event in self._client.events():
                was_asking = bool(self.conversation.pending)
                for entry in self.conversation.apply(event):
                    await self._show(entry)
                if was_asking or self.conversation.pending:
                    self._show_question()
        except ClaudeAgentError as error:
            self._is_lost = True
            self.conversation.end_process()
            await self._show_error(error, "The next prompt continues in a new process.")
            self._show_question()

    async def _show(self, entry: Entry) -> None:
        """Show a new or changed entry."""
        widget = self._widgets.get(entry)
        if entry.kind == "answer":
            await self._show_answer(entry, widget)
        elif isinstance(widget, Plain):
            widget.update(render_entry(entry))
        else:
            classes: str = entry.kind
            if entry.kind in ("tool", "task") and not entry.changes:
                classes += " line"
            await self._mount_entry(entry, Plain(render_entry(entry), classes=classes))

    async def _show_answer(self, entry: Entry, view: Widget | None) -> None:
        if not isinstance(view, AnswerView):
            view = AnswerView(is_plain=entry.is_plain)
            await self._mount_entry(entry, view)
        view.feed("".join(entry.parts[view.shown_parts :]))
        view.shown_parts = len(entry.parts)

    async def _mount_entry(self, entry: Entry, widget: Widget) -> None:
        self._widgets[entry] = widget
        await self._pane.mount(widget)
        if len(self._widgets) > MOST_ENTRIES:
            oldest = next(iter(self._widgets))
            await self._widgets.pop(oldest).remove()

    def _show_question(self) -> None:
        pending = self.conversation.pending
        had_focus = self._panel.has_focus_within
        question = pending[0] if pending else None
        self._panel.show(question, len(pending) - 1, take_focus=had_focus or not self._box.text.strip())
        if question is None and had_focus:
            self._box.focus()

    def on_question_panel_answered(self, message: QuestionPanel.Answered) -> None:
        """Show the next question without waiting for the session to report that this one is answered."""
        self.conversation.answered(message.question)
        self._show_question()

    def _refresh_status(self) -> None:
        chat = self.conversation
        state = chat.activity
        if chat.pending:
            state = "waits for you"
        elif chat.is_working and not chat.activity:
            state = "working"
        facts = [self._hint or state, chat.model or "default model", chat.permission_mode]
        facts += [f"{chat.spent.tokens:,} tokens", f"{chat.spent.cost_usd:.4f} USD"]
        facts += ["" if self._hint or chat.pending else KEYS]
        self._status.update(Text(" · ".join(filter(None, facts)), style="dim", no_wrap=True))
        roots = [task for task in self._client.tasks.roots if _is_running(task)]
        self._tasks.display = bool(roots)
        if roots:
            self._tasks.update(build_task_tree(roots, time.time()))

    async def _show_error(self, error: Exception, more: str = "") -> None:
        text = f"{type(error).__name__}: {displayable(str(error))} {more}".strip()
        await self._show(self.conversation.notice(text, is_error=True))

    def _show_hint(self, hint: str) -> None:
        """Show a text in the status line for a moment."""

        def clear() -> None:
            if self._hint == hint:
                self._hint = ""
                self._refresh_status()

        self._hint = hint
        self._refresh_status()
        self.set_timer(DOUBLE_PRESS_SECONDS, clear)

    async def on_event(self, event: events.Event) -> None:
        """Strip control characters from pasted text, because textual would send them to the terminal."""
        if isinstance(event, events.Paste):
            event.text = displayable("\n".join(event.text.splitlines()), len(event.text))
        await super().on_event(event)

    # Typing -----------------------------------------------------------------------------------------------------

    async def on_prompt_box_sent(self, message: PromptBox.Sent) -> None:
        await self._send(message.text)

    async def _send(self, text: str) -> None:
        self._pane.anchor()
        await self._show(self.conversation.prompt(text))
        self.run_worker(self._run_prompt(text))

    async def _run_prompt(self, text: str) -> None:
        try:
            if self._is_lost:
                await self._client.reopen()
                self._is_lost = False
                self.run_worker(self._follow())
            run: Run = self._client.query(text)
        except ClaudeAgentError as error:
            await self._show_error(error)
        else:
            # `_follow` shows how the run ends.
            with suppress(ClaudeAgentError):
                await run.result()
        finally:
            self.conversation.finish_prompt()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Show the slash commands that begin with the typed text."""
        found = self._find_commands(event.text_area.text)
        self._hints.display = bool(found)
        self._hints.update(Text("\n", no_wrap=True).join(map(_describe_command, found[:SHOWN_COMMANDS])))

    def _find_commands(self, typed: str) -> list[SlashCommand]:
        """Return the CLI's slash commands that begin with the typed text."""
        if not typed.startswith("/") or any(char.isspace() for char in typed):
            return []
        commands = self._client.info.commands
        matching = [command for command in commands if command.name.startswith(typed[1:])]
        return [command for command in matching if not command.name.startswith("_")]

    def _complete(self, typed: str) -> str | None:
        """Return the first slash command that begins with the typed text. Without one, focus a pending question."""
        found = self._find_commands(typed)
        if not found and self.conversation.pending:
            self._panel.take_focus()
        return f"/{found[0].name} " if found else None

    # Keys -------------------------------------------------------------------------------------------------------

    def _press_again(self, key: str) -> bool:
        last = self._pressed.get(key, 0.0)
        self._pressed[key] = time.monotonic()
        return self._pressed[key] - last < DOUBLE_PRESS_SECONDS

    def action_interrupt(self) -> None:
        """Interrupt the turn; if pressed twice, exit. If text is selected, copy it instead."""
        selected = self.screen.get_selected_text() or self._box.selected_text
        if selected:
            self.copy_to_clipboard(selected)
        elif self._press_again("ctrl+c"):
            self.exit(return_code=INTERRUPTED)
        elif self.conversation.is_working:
            self._show_hint("interrupting; press Ctrl-C again to exit")
            self._request(self._client.interrupt)
        else:
            self._box.put("")
            self._show_hint("press Ctrl-C again to exit")

    def action_end(self) -> None:
        """Exit; while something runs, only if pressed twice. If the prompt has text, delete a character instead."""
        box = self._box
        running = [task for task in self._client.tasks.running if not task.is_ambient]
        if box.has_focus and box.text:
            box.action_delete_right()
        elif (running or self.conversation.is_working) and not self._press_again("ctrl+d"):
            active = f"{len(running)} running" if running else "a turn is running"
            self._show_hint(f"{active}; press Ctrl-D again to stop and exit")
        else:
            self.exit(return_code=0)

    def action_background(self) -> None:
        """Move the task that the turn waits for to the background."""
        self._request(self._client.tasks.move_all_to_background)

    def action_next_mode(self) -> None:
        mode = self.conversation.permission_mode
        following = MODES[(MODES.index(mode) + 1) % len(MODES)] if mode in MODES else MODES[0]
        self._request(lambda: self._client.set_permission_mode(following))

    def action_scroll(self, pages: int) -> None:
        if pages < 0:
            self._pane.scroll_page_up(animate=False)
        else:
            self._pane.scroll_page_down(animate=False)

    def _request(self, send: Callable[[], Awaitable[object]]) -> None:
        """Send a request to the CLI, and show the error if it fails."""

        async def attempt() -> None:
            try:
                await send()
            except ClaudeAgentError as error:
                await self._show_error(error)

        self.run_worker(attempt())


def _describe_command(command: SlashCommand) -> Text:
    """Return a slash command in one line."""
    description = " ".join(f"{command.argument_hint} {command.description}".split())
    return Text.assemble((f"/{displayable(command.name)} ", "bold"), (displayable(description, 200), "dim"))


def _is_running(task: Task) -> bool:
    """Return whether a task or one of its descendants is running."""
    return not task.is_ambient and (not task.done or any(map(_is_running, task.children)))

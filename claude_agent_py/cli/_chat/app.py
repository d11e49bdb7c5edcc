"""`ChatApp`: the screen of a chat. It shows a `Conversation` and sends what the user types; textual needs asyncio."""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import TextArea

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py._runtime.runs.run import Run
from claude_agent_py.cli._chat.answers import AnswerView
from claude_agent_py.cli._chat.conversation import Conversation, Entry
from claude_agent_py.cli._chat.panels import Plain, PromptBox, entry_text
from claude_agent_py.cli._chat.prompt_history import PromptHistory
from claude_agent_py.cli._chat.question_panel import QuestionPanel
from claude_agent_py.cli.live_tree import Descriptions, tree_of
from claude_agent_py.client import Client
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.catalog import SlashCommand

AGAIN: Final = 2.0
"""Seconds within which a key counts as pressed twice."""
REFRESH: Final = 0.25
DRAW_EVERY: Final = 0.08
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
        earlier: Messages of the session that goes on.
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
        client: Client[Any],
        *,
        history: PromptHistory | None = None,
        first: str | None = None,
        earlier: Sequence[Any] = (),
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
        self._growing: set[AnswerView] = set()
        """The answers that have grown since they were drawn."""
        self._descriptions = Descriptions()
        self._pressed: dict[str, float] = {}
        self._hint = ""
        self._is_lost = False
        """Whether the CLI ended unexpectedly."""

    def compose(self) -> ComposeResult:
        """Make the panes."""
        yield from (self._pane, self._tasks, self._panel, self._hints, self._box, self._status)

    async def on_mount(self) -> None:
        """Show what was said earlier, and follow the session."""
        self._pane.anchor()
        self._box.focus()
        self.conversation.recall(self._earlier)
        for entry in self.conversation.entries:
            await self._show(entry)
        self.set_interval(REFRESH, self._refresh_status)
        self.set_interval(DRAW_EVERY, self._draw_answers)
        self._refresh_status()
        self.run_worker(self._follow())
        if self._first:
            await self._send(self._first)

    # What the session says --------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        try:
            async for event in self._client.events():
                pending = self.conversation.pending[:1]
                for entry in self.conversation.take(event):
                    await self._show(entry)
                if self.conversation.pending[:1] != pending or self.conversation.pending:
                    self._show_question()
        except ClaudeAgentError as error:
            self._is_lost = True
            self.conversation.ended()
            await self._tell(error, "The next prompt goes on in a new process.")
            self._show_question()

    async def _show(self, entry: Entry) -> None:
        """Show an entry, or what has changed of it."""
        widget = self._widgets.get(entry)
        if entry.kind == "answer":
            await self._show_answer(entry, widget)
        elif isinstance(widget, Plain):
            widget.update(entry_text(entry))
        else:
            is_line = entry.kind in ("tool", "task") and not entry.changes
            await self._mount_entry(
                entry, Plain(entry_text(entry), classes=f"{entry.kind} {'line' if is_line else ''}")
            )

    async def _show_answer(self, entry: Entry, view: Widget | None) -> None:
        if not isinstance(view, AnswerView):
            view = AnswerView(is_plain=entry.is_plain)
            await self._mount_entry(entry, view)
        view.feed("".join(entry.parts[view.shown_parts :]))
        view.shown_parts = len(entry.parts)
        self._growing.add(view)

    def _draw_answers(self) -> None:
        growing, self._growing = self._growing, set()
        for view in growing:
            view.draw()

    async def _mount_entry(self, entry: Entry, widget: Widget) -> None:
        self._widgets[entry] = widget
        await self._pane.mount(widget)
        if len(self._widgets) > MOST_ENTRIES:
            oldest = next(iter(self._widgets))
            await self._widgets.pop(oldest).remove()

    def _show_question(self) -> None:
        pending = self.conversation.pending
        had_focus = self._panel.has_focus_within
        now = pending[0] if pending else None
        self._panel.show(now, len(pending) - 1, take_focus=had_focus or not self._box.text.strip())
        if now is None and had_focus:
            self._box.focus()

    def on_question_panel_answered(self, message: QuestionPanel.Answered) -> None:
        """Go on to the next question, before the session tells that this one is settled."""
        self.conversation.pending = [one for one in self.conversation.pending if one is not message.interaction]
        self._show_question()

    def _refresh_status(self) -> None:
        chat = self.conversation
        state = "waits for you" if chat.pending else chat.activity or ("working" if chat.is_working else "")
        now = self._hint or state
        facts = [now, chat.model or "default model", chat.permission_mode, f"{chat.tokens:,} tokens"]
        facts += [f"{chat.cost_usd:.4f} USD", "" if self._hint or chat.pending else KEYS]
        self._status.update(Text(" · ".join(filter(None, facts)), style="dim", no_wrap=True))
        roots = [task for task in self._client.tasks.roots if _runs(task)]
        self._tasks.display = bool(roots)
        if roots:
            self._tasks.update(tree_of(roots, self._descriptions))

    async def _tell(self, error: Exception, more: str = "") -> None:
        told = f"{type(error).__name__}: {displayable(str(error))} {more}".strip()
        await self._show(self.conversation.notice(told, is_error=True))

    def _tell_shortly(self, hint: str) -> None:
        """Show a text in the last line for a moment."""

        def forget() -> None:
            if self._hint == hint:
                self._hint = ""
                self._refresh_status()

        self._hint = hint
        self._refresh_status()
        self.set_timer(AGAIN, forget)

    async def on_event(self, event: events.Event) -> None:
        """Let what is pasted have no control characters, which textual would send to the terminal."""
        if isinstance(event, events.Paste):
            event.text = displayable("\n".join(event.text.splitlines()), len(event.text))
        await super().on_event(event)

    # Typing -----------------------------------------------------------------------------------------------------

    async def on_prompt_box_sent(self, message: PromptBox.Sent) -> None:
        """Send the prompt."""
        await self._send(message.text)

    async def _send(self, text: str) -> None:
        self._pane.anchor()
        await self._show(self.conversation.prompt(text))
        self.run_worker(self._answer_to(text))

    async def _answer_to(self, text: str) -> None:
        try:
            if self._is_lost:
                await self._client.reopen()
                self._is_lost = False
                self.run_worker(self._follow())
            run: Run[Any] = self._client.query(text)
        except ClaudeAgentError as error:
            await self._tell(error)
        else:
            with suppress(ClaudeAgentError):  # `_follow` shows how it ends
                await run.result()
        finally:
            self.conversation.answered()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Show the commands that begin like what is typed."""
        found = self._commands(event.text_area.text)
        self._hints.display = bool(found)
        self._hints.update(Text("\n", no_wrap=True).join(map(_described, found[:SHOWN_COMMANDS])))

    def _commands(self, typed: str) -> list[SlashCommand]:
        """Return the commands of the CLI that begin so."""
        if not typed.startswith("/") or any(char.isspace() for char in typed):
            return []
        commands = self._client.info.commands
        return [one for one in commands if one.name.startswith(typed[1:]) and not one.name.startswith("_")]

    def _complete(self, typed: str) -> str | None:
        """Return the command that begins so. Without one, go to the question, if there is one."""
        found = self._commands(typed)
        if not found and self.conversation.pending:
            self._panel.take_focus()
        return f"/{found[0].name} " if found else None

    # Keys -------------------------------------------------------------------------------------------------------

    def _is_pressed_again(self, key: str) -> bool:
        before, self._pressed[key] = self._pressed.get(key, 0.0), time.monotonic()
        return self._pressed[key] - before < AGAIN

    def action_interrupt(self) -> None:
        """Interrupt the turn; if pressed twice, end. A selected text is copied instead."""
        selected = self.screen.get_selected_text() or self._box.selected_text
        if selected:
            self.copy_to_clipboard(selected)
        elif self._is_pressed_again("ctrl+c"):
            self.exit(return_code=INTERRUPTED)
        elif self.conversation.is_working:
            self._tell_shortly("interrupting; Ctrl-C again ends")
            self._request(self._client.interrupt)
        else:
            self._box.put("")
            self._tell_shortly("Ctrl-C again ends")

    def action_end(self) -> None:
        """End. While something runs it takes a second press; while something is typed, delete a character."""
        box = self._box
        running = [task for task in self._client.tasks.running if not task.is_ambient]
        if box.has_focus and box.text:
            box.action_delete_right()
        elif (running or self.conversation.is_working) and not self._is_pressed_again("ctrl+d"):
            what = f"{len(running)} running" if running else "a turn goes on"
            self._tell_shortly(f"{what}; Ctrl-D again stops and ends")
        else:
            self.exit(return_code=0)

    def action_background(self) -> None:
        """Move what the turn waits for to the background."""
        self._request(self._client.tasks.move_all_to_background)

    def action_next_mode(self) -> None:
        """Change the permission mode."""
        now = self.conversation.permission_mode
        following = MODES[(MODES.index(now) + 1) % len(MODES)] if now in MODES else MODES[0]
        self._request(lambda: self._client.set_permission_mode(following))

    def action_scroll(self, pages: int) -> None:
        """Scroll the conversation."""
        (self._pane.scroll_page_up if pages < 0 else self._pane.scroll_page_down)(animate=False)

    def _request(self, send: Callable[[], Awaitable[Any]]) -> None:
        """Send a request to the CLI, and tell if it fails."""

        async def attempt() -> None:
            try:
                await send()
            except ClaudeAgentError as error:
                await self._tell(error)

        self.run_worker(attempt())


def _described(command: SlashCommand) -> Text:
    """Return a command in one line."""
    told = " ".join(f"{command.argument_hint} {command.description}".split())
    return Text.assemble((f"/{displayable(command.name)} ", "bold"), (displayable(told, 200), "dim"))


def _runs(task: Task) -> bool:
    """Return whether a task or one of its children is not over."""
    return not task.is_ambient and (not task.done or any(map(_runs, task.children)))

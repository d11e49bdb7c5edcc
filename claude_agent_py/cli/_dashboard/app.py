"""`Dashboard`: the terminal application with its dialogs. It draws and handles keys; threads do all blocking work."""

import shlex
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Footer, Input, Label, SelectionList, Static, Tree
from textual.widgets.selection_list import Selection

from claude_agent_py.cli._dashboard.model import DashboardModel, SourceState
from claude_agent_py.cli._dashboard.rows import Row, count_sessions
from claude_agent_py.cli._dashboard.session_content import ConversationView, open_in_browser, write_timeline
from claude_agent_py.cli._dashboard.termination import terminate_tree
from claude_agent_py.cli._dashboard.tree import RowTree, render_heading
from claude_agent_py.cli.questions import DECISIONS, list_details
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.cli.typed_answers import HELP, read_typed
from claude_agent_py.permissions.decisions import Allow, Deny
from claude_agent_py.permissions.interactions import Interaction


class AnswerScreen(ModalScreen[Any]):
    """Shows a question in full. The result is the answer in the form that handlers return, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]

    def __init__(self, question: Interaction) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        """Yield the question and the widgets for the answer."""
        kind = self.question.kind
        with Vertical(id="dialog"):
            yield Label(Text(f"{kind} {self.question.id}"), id="title")
            with VerticalScroll(id="asked"):
                yield Static(Text("\n".join(list_details(self.question, full=True))))
            if kind == "question":
                yield from _build_choices(self.question.subject)
            placeholder = "the reason, for the agent" if kind in DECISIONS else HELP[kind]
            yield Input(placeholder=placeholder, id="words")
            yield Label("", id="wrong")
            with Horizontal(id="buttons"):
                if kind in DECISIONS:
                    yield Button("Allow", id="allow", variant="success")
                    yield Button("Deny", id="deny", variant="error")
                else:
                    yield Button("Answer", id="answer", variant="success")
                yield Button("Back", id="back")

    def on_mount(self) -> None:
        """Focus a widget in which a stray key does no harm."""
        lists = self.query(SelectionList)
        if lists:
            lists.first().focus()
        else:
            self.query_one("#words").focus()

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        words = self.query_one("#words", Input).value.strip()
        if event.button.id == "allow":
            self.dismiss(Allow())
        elif event.button.id == "deny":
            self.dismiss(Deny(words))
        elif event.button.id == "answer":
            self._answer(words)
        else:
            self.dismiss(None)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        if self.question.kind in DECISIONS:
            # Enter only moves to the button, so that a second key confirms the decision.
            self.query_one("#deny" if event.value.strip() else "#allow").focus()
        else:
            self._answer(event.value.strip())

    def _answer(self, words: str) -> None:
        lists = list(self.query(SelectionList))
        chosen = [selection.selected for selection in lists]
        try:
            if lists and not words and all(chosen):
                self.dismiss([labels[0] if len(labels) == 1 else labels for labels in chosen])
            else:
                self.dismiss(read_typed(self.question, shlex.split(words)))
        except ValueError as error:
            self.query_one("#wrong", Label).update(Text(one_line(str(error), 200)))

    @on(SelectionList.SelectionToggled)
    def _choose_one(self, event: SelectionList.SelectionToggled[str]) -> None:
        """Replace the previous choice if a question takes only one."""
        chosen = event.selection.value
        if "one" in event.selection_list.classes and chosen in event.selection_list.selected:
            for other in event.selection_list.selected:
                if other != chosen:
                    event.selection_list.deselect(other)


def _build_choices(questions: Any) -> ComposeResult:
    for question in questions:
        if question.options:
            labels = {
                option.label: one_line(f"{option.label}: {option.description}", 200) for option in question.options
            }
            yield SelectionList(
                *(Selection(Text(shown), label) for label, shown in labels.items()),
                classes="" if question.multi_select else "one",
            )


class ConfirmScreen(ModalScreen[bool]):
    """Asks to confirm an action."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,n", "dismiss(False)", "No"), Binding("y", "dismiss(True)")]

    def __init__(self, text: str, verb: str) -> None:
        super().__init__()
        self._text = text
        self._verb = verb

    def compose(self) -> ComposeResult:
        """Yield the question and two buttons. The harmless one comes first, so it has the focus."""
        with Vertical(id="dialog"):
            yield Static(Text(self._text))
            with Horizontal(id="buttons"):
                yield Button("No (n)", id="no")
                yield Button(f"{self._verb} (y)", id="yes", variant="error")

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


STYLE: Final = """
#heading { height: 1; background: $panel; color: $text-muted; }
#rows { height: 1fr; background: $background; }
#conversation { height: 1fr; display: none; border-top: solid $primary; padding: 0 1; }
#filter { display: none; height: 1; border: none; }
#details { height: 1; color: $text-muted; }
#problems { height: auto; color: $text-error; }
AnswerScreen, ConfirmScreen { align: center middle; }
#dialog { width: 90%; max-width: 100; height: auto; max-height: 90%; border: round $primary; padding: 0 1;
          background: $surface; }
#asked { height: auto; max-height: 50%; margin: 1 0; }
#title { text-style: bold; }
#wrong { color: $text-error; }
#buttons { height: auto; margin-top: 1; }
#buttons Button { margin-right: 2; }
SelectionList { height: auto; max-height: 8; }
"""
NO_QUESTION: Final = "no question here is in an inbox or a fleet; a program answers its own questions"
NO_TASK: Final = "only the program that runs a session can stop a single task; press s on the session to end it"


class Dashboard(App[None]):
    """The dashboard. A thread per source reads it, so that no source delays the others or the keys."""

    CSS = STYLE
    TITLE = "claude-agent-py watch"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "answer", "Answer"),
        Binding("s", "stop", "Stop"),
        Binding("o", "open", "Open timeline"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "leave", "Back", show=False),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, model: DashboardModel, *, every: float = 1.0) -> None:
        super().__init__()
        self.model = model
        self._every = every
        self._heading = Static(id="heading")
        self._tree = RowTree(id="rows")
        self._conversation = ConversationView(self._work)
        self._details = Static(id="details")
        self._problems = Static(id="problems")
        self._field = Input(placeholder="filter", id="filter")
        self._reading: set[str] = set()
        """The sources that threads read now."""
        self._filter = ""

    def compose(self) -> ComposeResult:
        yield from (self._heading, self._tree, self._conversation, self._details, self._problems, self._field, Footer())

    def on_mount(self) -> None:
        """Read the sources, now and regularly."""
        self._poll()
        self.set_interval(self._every, self._poll)
        self.set_interval(1.0, self._tree.refresh_times)
        self._tree.focus()

    # Sources ---------------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        """Read each source in a thread, except for those that are being read."""
        for name in self.model.sources.keys() - self._reading:
            self._reading.add(name)
            self._work(partial(self.model.read_source, name), partial(self._apply_state, name))

    def _apply_state(self, name: str, state: SourceState) -> None:
        self._reading.discard(name)
        self.model.states[name] = state
        self._draw()

    def _draw(self) -> None:
        if not self._tree.is_attached:
            # The application is closing.
            return
        all_rows = self.model.rows()
        rows = filter_rows(all_rows, self._filter.lower())
        self._tree.show(rows)
        self._heading.update(render_heading(self._tree.size.width or self.size.width, count_sessions(rows)))
        self._problems.update(Text("\n".join(self.model.problems)))
        self._describe()
        self._conversation.update_from(all_rows)

    def on_resize(self) -> None:
        """Fit the columns to the new width."""
        self.call_after_refresh(self._draw)

    # Threads ---------------------------------------------------------------------------------------------------------

    def _work(self, work: Callable[[], object], then: Callable[[Any], None]) -> None:
        """Call `work` in a thread, then `then` in the application with the result. Report an error of `work`."""

        def run() -> None:
            try:
                result = work()
            except Exception as error:
                text = one_line(str(error), 300) or type(error).__name__
                self.call_later(self._say, text, "error")
            else:
                self.call_later(then, result)

        threading.Thread(target=run, daemon=True).start()

    def _say(self, text: str, severity: Any = "information") -> None:
        self.notify(text, severity=severity, markup=False)

    def _get_row(self) -> Row | None:
        """Return the selected row. Without one, report that and return None."""
        row = self._tree.row
        if row is None:
            self._say("no row is selected")
        return row

    # Keys ------------------------------------------------------------------------------------------------------------

    def action_answer(self) -> None:
        """Answer the oldest question of the row and the rows below it."""
        row = self._get_row()
        if row is None:
            return
        question = row.question
        if question is None:
            self._say(NO_QUESTION)
            return
        self.push_screen(AnswerScreen(question), lambda value: self._answer(question, value))

    def _answer(self, question: Interaction, value: object) -> None:
        if value is None:
            return

        def report(was_first: bool) -> None:
            self._say("answered" if was_first else "too late: already answered or withdrawn")
            self._poll()

        self._work(lambda: question.resolve(value), report)

    def action_stop(self) -> None:
        """Cancel a session of a fleet, or end the process of a session, after a confirmation."""
        row = self._get_row()
        if row is None:
            return
        process = row.process
        if row.kind == "task":
            self._say(NO_TASK, "warning")
        elif row.cancel is not None:
            text = f"Cancel {row.title} permanently, with all its prompts?"
            self._confirm(text, "Cancel it", row.cancel, "cancelled")
        elif process is not None:
            text = (
                f"End {row.title}?\n\nThis ends process {process.pid} and everything it started. "
                "The program that runs it gets an error."
            )
            self._confirm(text, "End it", lambda: terminate_tree(process), f"process {process.pid} has ended")
        elif row.kind == "session":
            self._say("the process of this session cannot be identified reliably, so it is not ended", "warning")
        else:
            self._say("select a session")

    def _confirm(self, text: str, verb: str, stop: Callable[[], bool], done: str) -> None:
        """Ask whether to stop a session, stop it in a thread, and report it."""

        def act(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self._work(stop, report)

        def report(did: bool) -> None:
            self._say(done if did else "it has already ended")
            self._poll()

        self.push_screen(ConfirmScreen(text, verb), act)

    def action_open(self) -> None:
        """Write the timeline of the session, and open it."""
        row = self._get_row()
        if row is None or row.kind in ("host", "fleet", "inbox"):
            return
        self._say("writing the timeline")
        self._work(lambda: self._write_timeline(row), self._report_timeline)

    def _write_timeline(self, row: Row) -> tuple[str, bool]:
        path = write_timeline(row, self.model.config_dir)
        return path, open_in_browser(path)

    def _report_timeline(self, result: tuple[str, bool]) -> None:
        path, is_open = result
        self.notify(f"{'opened' if is_open else 'open'} {path}", timeout=30, markup=False)

    @on(Tree.NodeSelected)
    def _select(self) -> None:
        """Show or hide the conversation of the row."""
        self._conversation.toggle(self._get_row())
        self._conversation.update_from(self.model.rows())

    @on(Tree.NodeHighlighted)
    def _describe(self) -> None:
        row = self._tree.row
        self._details.update(Text("" if row is None else row.line(), no_wrap=True, overflow="ellipsis"))

    def action_filter(self) -> None:
        """Ask for a text to filter the rows by."""
        self._field.display = True
        self._field.focus()

    @on(Input.Changed, "#filter")
    def _apply_filter(self, event: Input.Changed) -> None:
        self._filter = event.value.strip()
        self._draw()

    @on(Input.Submitted, "#filter")
    def _close_filter(self) -> None:
        self._field.display = bool(self._filter)
        self._tree.focus()

    def action_leave(self) -> None:
        """Clear the filter. Without one, hide the conversation."""
        if self._field.display:
            self._field.value = ""
            self._field.display = False
            self._tree.focus()
        else:
            self._conversation.toggle(None)


def filter_rows(rows: Sequence[Row], text: str) -> list[Row]:
    """Return the rows that contain a text, with their parents and children."""
    found = []
    for row in rows:
        children = filter_rows(row.children, text)
        if not text or row.matches(text):
            found.append(row)
        elif children:
            found.append(replace(row, children=tuple(children)))
    return found

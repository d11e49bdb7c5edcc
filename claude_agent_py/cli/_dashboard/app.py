"""`Dashboard`: the application in a terminal. It draws and takes keys; threads read, answer and stop."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Footer, Input, Static, Tree

from claude_agent_py.cli._dashboard.board import Board, Seen
from claude_agent_py.cli._dashboard.opening import open_in_browser, write_page
from claude_agent_py.cli._dashboard.pane import ConversationPane
from claude_agent_py.cli._dashboard.rows import Row, count_sessions
from claude_agent_py.cli._dashboard.screens import AnswerScreen, ConfirmScreen
from claude_agent_py.cli._dashboard.stopping import end_tree
from claude_agent_py.cli._dashboard.tree import RowTree, heading
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.interactions import Interaction

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
NOT_HERE: Final = "nothing here waits in an inbox or a fleet; what a program answers itself is answered there"
NO_TASK: Final = "only the program that runs a session can stop one of its tasks; s on the session ends all of it"


@dataclass
class Looked(Message):
    """A part was looked at."""

    name: str
    seen: Seen


@dataclass
class Worked(Message):
    """A thread has finished."""

    then: Callable[[Any], None]
    result: Any


class Dashboard(App[None]):
    """The dashboard. Every part is read by a thread of its own, so that none keeps the others or the keys waiting."""

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

    def __init__(self, board: Board, *, every: float = 1.0) -> None:
        super().__init__()
        self.board = board
        self._every = every
        self._heading = Static(id="heading")
        self._tree = RowTree(id="rows")
        self._pane = ConversationPane(board.fleet, self._work)
        self._details = Static(id="details")
        self._problems = Static(id="problems")
        self._field = Input(placeholder="filter", id="filter")
        self._is_over = threading.Event()
        self._pokes = {name: threading.Event() for name in board.looks}
        self._filter = ""

    def compose(self) -> ComposeResult:
        """Yield the parts of the screen."""
        yield from (self._heading, self._tree, self._pane, self._details, self._problems, self._field, Footer())

    def on_mount(self) -> None:
        """Begin to look."""
        for name in self.board.looks:
            threading.Thread(target=self._keep_looking, args=(name,), daemon=True, name=f"watch {name}").start()
        self.set_interval(1.0, self._tree.refresh_times)
        self._tree.focus()

    def on_unmount(self) -> None:
        """End the threads. One that waits for a database ends with the program."""
        self._is_over.set()
        for poke in self._pokes.values():
            poke.set()

    # Looking ---------------------------------------------------------------------------------------------------------

    def _keep_looking(self, name: str) -> None:
        poke = self._pokes[name]
        while not self._is_over.is_set():
            poke.clear()
            self.post_message(Looked(name, self.board.look_at(name)))
            poke.wait(self._every)

    def _look_now(self) -> None:
        for poke in self._pokes.values():
            poke.set()

    @on(Looked)
    def _take(self, event: Looked) -> None:
        self.board.seen[event.name] = event.seen
        self._draw()

    def _draw(self) -> None:
        if not self._tree.is_attached:
            return  # the application ends
        every = self.board.rows()
        rows = kept(every, self._filter.lower())
        self._tree.show(rows)
        self._heading.update(heading(self._tree.size.width or self.size.width, count_sessions(rows)))
        self._problems.update(Text("\n".join(self.board.problems)))
        self._describe()
        self._pane.look(every)

    def on_resize(self) -> None:
        """Fit the columns."""
        self.call_after_refresh(self._draw)

    # Working in threads ----------------------------------------------------------------------------------------------

    def _work(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Call `work` in a thread, and `then` here with what it returns; if it fails, say why."""

        def run() -> None:
            try:
                result = work()
            except Exception as error:
                text = one_line(str(error), 300) or type(error).__name__
                self.post_message(Worked(lambda text: self._say(text, "error"), text))
            else:
                self.post_message(Worked(then, result))

        threading.Thread(target=run, daemon=True).start()

    @on(Worked)
    def _finish(self, event: Worked) -> None:
        event.then(event.result)

    def _say(self, text: str, severity: Any = "information") -> None:
        self.notify(text, severity=severity, markup=False)

    def _row(self) -> Row | None:
        row = self._tree.row
        if row is None:
            self._say("there is no row to do this with")
        return row

    # Keys ------------------------------------------------------------------------------------------------------------

    def action_answer(self) -> None:
        """Answer the oldest question of the row, or of those below it."""
        row = self._row()
        if row is None:
            return
        question = row.question
        if question is None:
            self._say(NOT_HERE)
            return
        self.push_screen(AnswerScreen(question), lambda value: self._answer(question, value))

    def _answer(self, question: Interaction, value: Any) -> None:
        if value is None:
            return

        def told(was_first: bool) -> None:
            self._say("answered" if was_first else "too late: already answered or withdrawn")
            self._look_now()

        self._work(lambda: question.resolve(value), told)

    def action_stop(self) -> None:
        """Cancel a session of a fleet, or end the process of a session, after a confirmation."""
        row = self._row()
        if row is None:
            return
        if row.kind == "task":
            self._say(NO_TASK, "warning")
        elif row.fleet_id and self.board.fleet is not None:
            text = f"Cancel {row.title} for good, with all its prompts?"
            self._confirm(text, "Cancel it", lambda: self._cancel(row.fleet_id))
        elif row.process is not None:
            text = f"End {row.title}?\n\nProcess {row.process.pid} and all that it started are ended"
            self._confirm(f"{text}; the program that runs it gets an error.", "End it", lambda: self._end(row))
        elif row.kind == "session":
            self._say("its process cannot be told from others here, so it is not ended", "warning")
        else:
            self._say("choose a session")

    def _confirm(self, text: str, verb: str, then: Callable[[], None]) -> None:
        self.push_screen(ConfirmScreen(text, verb), lambda is_sure: then() if is_sure else None)

    def _cancel(self, session_id: str) -> None:
        fleet = self.board.fleet
        assert fleet is not None  # noqa: S101 - the row is of it
        self._work(lambda: fleet.cancel(session_id), lambda did: self._stopped(did, "cancelled"))

    def _end(self, row: Row) -> None:
        process = row.process
        assert process is not None  # noqa: S101 - checked before asking
        self._work(lambda: end_tree(process), lambda did: self._stopped(did, f"process {process.pid} has ended"))

    def _stopped(self, did: bool, text: str) -> None:
        self._say(text if did else "it was over already")
        self._look_now()

    def action_open(self) -> None:
        """Write the session's timeline, and open it."""
        row = self._row()
        if row is None or row.kind in ("host", "fleet", "inbox"):
            return
        self._say("writing the timeline")
        self._work(lambda: self._written(row), self._opened)

    def _written(self, row: Row) -> tuple[str, bool]:
        path = write_page(row, self.board.fleet, self.board.config_dir)
        return path, open_in_browser(path)

    def _opened(self, result: tuple[str, bool]) -> None:
        path, is_open = result
        self.notify(f"{'opened' if is_open else 'open'} {path}", timeout=30, markup=False)

    @on(Tree.NodeSelected)
    def _select(self) -> None:
        """Show the conversation of the row, or hide it."""
        self._pane.turn_to(self._row())
        self._pane.look(self.board.rows())

    @on(Tree.NodeHighlighted)
    def _describe(self) -> None:
        row = self._tree.row
        self._details.update(Text("" if row is None else row.line(), no_wrap=True, overflow="ellipsis"))

    def action_filter(self) -> None:
        """Ask for a text that rows have to contain."""
        self._field.display = True
        self._field.focus()

    @on(Input.Changed, "#filter")
    def _narrow(self, event: Input.Changed) -> None:
        self._filter = event.value.strip()
        self._draw()

    @on(Input.Submitted, "#filter")
    def _narrowed(self) -> None:
        self._field.display = bool(self._filter)
        self._tree.focus()

    def action_leave(self) -> None:
        """Leave the filter, otherwise hide the conversation."""
        if self._field.display:
            self._field.value = ""
            self._field.display = False
            self._tree.focus()
        else:
            self._pane.turn_to(None)


def kept(rows: Sequence[Row], text: str) -> list[Row]:
    """Return the rows that contain a text, with those above and below them."""
    found = []
    for row in rows:
        below = kept(row.children, text)
        if not text or row.matches(text):
            found.append(row)
        elif below:
            found.append(replace(row, children=tuple(below)))
    return found

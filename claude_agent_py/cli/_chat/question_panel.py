"""`QuestionPanel`: shows a question, and takes the answer as a key or a typed text."""

from typing import Any, ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Input

from claude_agent_py.cli._chat.answers import MarkdownText
from claude_agent_py.cli._chat.widgets import Plain, render_diff
from claude_agent_py.cli.questions import OpenQuestion
from claude_agent_py.permissions.requests import displayable

ARMED_AFTER: Final = 0.5
"""Seconds for which a new question ignores keys, because keys typed at that moment were meant for the prompt."""


class QuestionPanel(VerticalScroll, can_focus=True):
    """Shows a question. Decisions are answered with a key, other questions with typed text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "allow", "allow once"),
        Binding("a", "always", "allow always"),
        Binding("n", "deny", "deny"),
        Binding("escape", "back", "back"),
    ]

    class Answered(Message):
        def __init__(self, question: OpenQuestion) -> None:
            super().__init__()
            self.question = question

    def __init__(self) -> None:
        super().__init__(id="question")
        self.question: OpenQuestion | None = None
        self._is_armed = False
        self.display = False

    def compose(self) -> ComposeResult:
        """Yield the parts. Empty parts are hidden."""
        yield Plain(id="asked-title")
        yield Plain(id="asked-lines")
        yield MarkdownText(id="asked-plan")
        yield Plain(id="asked-diff")
        yield Plain(id="asked-keys")
        yield Input(id="asked-words", disabled=True)

    def show(self, question: OpenQuestion | None, more: int, *, take_focus: bool) -> None:
        """Show a question and the number of further ones. None hides the panel."""
        is_new = question is not self.question
        self.question = question
        self.display = question is not None
        if question is None:
            self._words.disabled = True
            return
        if is_new:
            self._is_armed = False
            self.query_one(MarkdownText).show(question.markdown)
            self.query_one(MarkdownText).display = bool(question.markdown)
            self._fill("#asked-diff", render_diff(question.diff) if question.diff else "")
            self._fill("#asked-lines", Text("\n").join(Text(f"  {line}") for line in question.lines))
            self.scroll_home(animate=False)
            self.set_timer(ARMED_AFTER, lambda: self._arm(question))
            self._ask_words()
            if take_focus:
                self.take_focus()
        waiting = f"  ({more} more)" if more else ""
        self._fill("#asked-title", Text(question.title + waiting, style="bold yellow"))
        self._show_keys()

    def take_focus(self) -> None:
        """Focus the part that takes the answer."""
        if self._words.disabled:
            self.focus()
        else:
            self._words.focus()

    def action_allow(self) -> None:
        if (question := self._decidable) is not None:
            question.allow()
            self._finish(question)

    def action_always(self) -> None:
        """Allow this call and similar ones."""
        if (question := self._decidable) is not None and question.always:
            question.allow(always=True)
            self._finish(question)

    def action_deny(self) -> None:
        """Ask for a reason; Enter then denies."""
        if self._decidable is not None:
            self._open_words("why not? (Enter alone gives no reason, Escape goes back)")
            self._words.focus()

    def action_back(self) -> None:
        """Leave the reason field, or leave a question unanswered."""
        question = self.question
        if question is None:
            return
        if question.step is None:
            self._ask_words()
            self.focus()
        else:
            question.deny()
            self._finish(question)

    def on_key(self, event: events.Key) -> None:
        """Handle keys typed so fast that they arrive before the reason field has the focus."""
        if self._words.has_focus:
            return
        if event.key == "n" and self._decidable is not None:
            self.action_deny()
        elif not self._words.disabled and event.is_printable and event.character is not None:
            self._words.insert_text_at_cursor(event.character)
        elif not self._words.disabled and event.key == "enter":
            self._submit(self._words.value)
        else:
            return
        event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Deny with the reason, or answer."""
        event.stop()
        self._submit(event.value)

    def _submit(self, value: str) -> None:
        question, text = self.question, value.strip()
        if question is None:
            return
        if question.step is None:
            question.deny(text)
            self._finish(question)
        elif text:
            try:
                is_answered = question.type(text)
            except ValueError as error:
                self._ask_words()
                self._fill("#asked-keys", Text(displayable(str(error)), style="red"))
                return
            if is_answered:
                self._finish(question)
            else:
                self._ask_words()

    @property
    def takes_keys(self) -> bool:
        """Whether the panel takes keys now."""
        return self._is_armed or not self._words.disabled

    @property
    def _decidable(self) -> OpenQuestion | None:
        """The shown question, if keys decide it now."""
        question = self.question
        can_decide = self._is_armed and self._words.disabled and question is not None and question.step is None
        return question if can_decide else None

    @property
    def _words(self) -> Input:
        return self.query_one("#asked-words", Input)

    def _finish(self, question: OpenQuestion) -> None:
        self.post_message(self.Answered(question))

    def _arm(self, question: OpenQuestion) -> None:
        if question is self.question:
            self._is_armed = True
            self._show_keys()

    def _show_keys(self) -> None:
        keys = ""
        if (question := self._decidable) is not None:
            always = f"a: always, {question.always}\n" if question.always else ""
            first = "" if self.screen.focused is self else "   (Tab first)"
            keys = f"y: once{first}\n{always}n: no, with a reason"
        self._fill("#asked-keys", Text(keys, style="bold"))

    def on_focus(self) -> None:
        self._show_keys()

    def on_blur(self) -> None:
        self._show_keys()

    def _ask_words(self) -> None:
        """Ask for the next typed answer. A decision needs none."""
        step = self.question.step if self.question is not None else None
        if step is None:
            self._words.disabled = True
            self._words.display = False
            self._show_keys()
            return
        if step.text:
            text = Text(step.text, style="bold")
            for line in step.lines:
                text.append(f"\n  {line}", style="not bold")
            self._fill("#asked-lines", text)
        self._open_words(f"{step.help} (Escape: no answer)")

    def _open_words(self, hint: str) -> None:
        self._words.disabled = False
        self._words.display = True
        self._words.value = ""
        self._words.placeholder = hint
        self._show_keys()

    def _fill(self, selector: str, text: Any) -> None:
        widget = self.query_one(selector, Plain)
        widget.update(text)
        widget.display = bool(text)

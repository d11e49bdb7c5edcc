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
from claude_agent_py.cli._chat.approvals import QuestionText, allow, answer, deny, describe_question
from claude_agent_py.cli._chat.widgets import Plain, render_diff
from claude_agent_py.permissions.interactions import Interaction
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
        def __init__(self, interaction: Interaction) -> None:
            super().__init__()
            self.interaction = interaction

    def __init__(self) -> None:
        super().__init__(id="question")
        self.interaction: Interaction | None = None
        self._question = QuestionText("")
        self._texts: list[str] = []
        """The answers so far, if the model asks several questions."""
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

    def show(self, interaction: Interaction | None, more: int, *, take_focus: bool) -> None:
        """Show a question and the number of further ones. None hides the panel."""
        if interaction is not self.interaction:
            self.interaction = interaction
            self._texts = []
            self._is_armed = False
            self.display = interaction is not None
            if interaction is None:
                self._words.disabled = True
                return
            self._question = describe_question(interaction)
            self.query_one(MarkdownText).show(self._question.markdown)
            self._fill("#asked-diff", render_diff(self._question.diff) if self._question.diff else "")
            self._fill("#asked-lines", Text("\n").join(Text(f"  {line}") for line in self._question.lines))
            self.query_one(MarkdownText).display = bool(self._question.markdown)
            self.scroll_home(animate=False)
            self.set_timer(ARMED_AFTER, lambda: self._arm(interaction))
            if self._question.is_decision:
                self._close_words()
            else:
                self._ask_words()
            if take_focus:
                self.take_focus()
        if interaction is not None:
            waiting = f"  ({more} more)" if more else ""
            self._fill("#asked-title", Text(self._question.title + waiting, style="bold yellow"))
            self._show_keys()

    def take_focus(self) -> None:
        """Focus the part that takes the answer."""
        if self._words.disabled:
            self.focus()
        else:
            self._words.focus()

    def action_allow(self) -> None:
        if self._can_decide and self.interaction is not None:
            allow(self.interaction)
            self._finish()

    def action_always(self) -> None:
        """Allow this call and similar ones."""
        if self._can_decide and self.interaction is not None and self._question.always:
            allow(self.interaction, always=True)
            self._finish()

    def action_deny(self) -> None:
        """Ask for a reason; Enter then denies."""
        if self._can_decide:
            self._open_words("why not? (Enter alone gives no reason, Escape goes back)")
            self._words.focus()

    def action_back(self) -> None:
        """Leave the reason field, or leave a question unanswered."""
        if self.interaction is None:
            return
        if self._question.is_decision:
            self._close_words()
            self.focus()
        else:
            deny(self.interaction)
            self._finish()

    def on_key(self, event: events.Key) -> None:
        """Handle keys typed so fast that they arrive before the reason field has the focus."""
        if self._words.has_focus:
            return
        if event.key == "n" and self._can_decide:
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
        if self.interaction is None:
            return
        text = value.strip()
        if self._question.is_decision:
            deny(self.interaction, text)
            self._finish()
        elif text:
            self._answer(self.interaction, text)

    def _answer(self, interaction: Interaction, text: str) -> None:
        self._texts.append(text)
        if len(self._texts) < len(self._question.steps):
            self._ask_words()
            return
        try:
            answer(interaction, self._texts)
        except ValueError as error:
            self._texts = []
            self._ask_words()
            self.query_one("#asked-keys", Plain).update(Text(displayable(str(error)), style="red"))
        else:
            self._finish()

    @property
    def takes_keys(self) -> bool:
        """Whether the panel takes keys now."""
        return self._is_armed or not self._words.disabled

    @property
    def _can_decide(self) -> bool:
        return self._is_armed and self._question.is_decision and self._words.disabled

    @property
    def _words(self) -> Input:
        return self.query_one("#asked-words", Input)

    def _finish(self) -> None:
        if self.interaction is not None:
            self.post_message(self.Answered(self.interaction))

    def _arm(self, interaction: Interaction) -> None:
        if interaction is self.interaction:
            self._is_armed = True
            self._show_keys()

    def _show_keys(self) -> None:
        keys = ""
        if self._question.is_decision and self._is_armed and self._words.disabled:
            always = f"a: always, {self._question.always}\n" if self._question.always else ""
            first = "" if self.screen.focused is self else "   (Tab first)"
            keys = f"y: once{first}\n{always}n: no, with a reason"
        self._fill("#asked-keys", Text(keys, style="bold"))

    def on_focus(self) -> None:
        self._show_keys()

    def on_blur(self) -> None:
        self._show_keys()

    def _ask_words(self) -> None:
        """Ask for the next typed answer."""
        step = self._question.steps[len(self._texts)]
        if step.text:
            question = Text(step.text, style="bold")
            for line in step.lines:
                question.append(f"\n  {line}", style="not bold")
            self._fill("#asked-lines", question)
        self._open_words(f"{step.help} (Escape: no answer)")

    def _open_words(self, hint: str) -> None:
        self._words.disabled = False
        self._words.display = True
        self._words.value = ""
        self._words.placeholder = hint
        self._show_keys()

    def _close_words(self) -> None:
        self._words.disabled = True
        self._words.display = False
        self._show_keys()

    def _fill(self, selector: str, text: Any) -> None:
        widget = self.query_one(selector, Plain)
        widget.update(text)
        widget.display = bool(text)

"""The dialogs of the dashboard: answer a question, and confirm an action."""

import shlex
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, SelectionList, Static
from textual.widgets.selection_list import Selection

from claude_agent_py.cli.interactions import list_details
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.decisions import Allow, Deny
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.permissions.typed_answers import HELP, read_typed

DECISIONS = frozenset({"permission", "plan"})
"""The kinds of questions whose answer is to allow or deny."""


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
        chosen = [one.selected for one in lists]
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

"""The screen of `chat`, driven by keys, with the real CLI and a scripted model. textual needs asyncio."""

import html
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from bounds import set_bound
from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input

from claude_agent_py import Client, PermissionContext
from claude_agent_py.cli._chat.app import ChatApp
from claude_agent_py.cli._chat.question_panel import QuestionPanel
from claude_agent_py.cli._chat.widgets import PromptBox, PromptHistory
from claude_agent_py.cli.questions import OpenQuestion
from claude_agent_py.permissions import ElicitationRequest, PendingInteractions
from claude_agent_py.testing import Gate, RecordedRequest, Reply, ScriptedModel, ToolCall, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

DEADLINE = 120
HOSTILE = "# Fine\n\n[red]not markup[/red] \x1b[2J\x1b]0;owned\x07 [a](javascript:x) 漢字 👩\u200d🚀 " + "x" * 3500


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Driver:
    """Presses keys, and waits for what they cause."""

    def __init__(self, app: ChatApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.panel = app.query_one(QuestionPanel)
        self.box = app.query_one(PromptBox)

    @property
    def screen(self) -> str:
        """What the terminal shows."""
        rows: dict[str, str] = {}
        for row, text in re.findall(r'<text[^>]* y="([^"]*)"[^>]*>(.*?)</text>', self.app.export_screenshot()):
            rows[row] = rows.get(row, "") + html.unescape(text).replace("\xa0", " ")
        return "\n".join(rows.values())

    async def until(self, is_true: Callable[[], object]) -> None:
        with anyio.move_on_after(DEADLINE):
            while not is_true():
                await self.pilot.pause(0.02)
        assert is_true(), self.screen

    async def shows(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.screen for text in texts))

    async def type(self, text: str) -> None:
        self.box.put(text)
        await self.pilot.press("enter")

    async def ask(self, text: str) -> None:
        """Send a prompt, and wait for the end of the turn."""
        await self.type(text)
        await self.until(lambda: not self.app.conversation.is_working)

    async def is_asked(self, *texts: str) -> None:
        """Wait until a question takes keys."""
        await self.until(lambda: self.panel.display and self.panel.takes_keys)
        await self.shows(*texts)

    @property
    def entries(self) -> list[str]:
        return [f"{entry.mark} {entry.text}".strip() for entry in self.app.conversation.entries]


@asynccontextmanager
async def chatting(client: Client, **more: object) -> AsyncIterator[Driver]:
    app = ChatApp(client, **more)  # type: ignore[arg-type]
    async with app.run_test(size=(100, 36)) as pilot:
        yield Driver(app, pilot)


async def test_a_chat_from_prompts_to_approvals() -> None:
    """Answers, commands, history, approvals with a diff, questions and plans in one session."""
    questions = [
        {"question": "Which?", "header": "W", "multiSelect": False, "options": options("A", "B")},
        {"question": "How?", "header": "H", "multiSelect": True, "options": options("X", "Y")},
    ]

    typed = Gate()
    edit = {"old_string": "one", "new_string": "two [b]\x1b[1m"}

    def script(request: RecordedRequest) -> object:
        told = request.last_user_text
        path = str(model.sandbox.cwd / "a.txt")
        answers = {
            "hostile": HOSTILE,
            "read": tool_use("Read", {"file_path": path}),
            "edit": Reply(tool_use("Edit", edit | {"file_path": path}), after=typed),
            "write": tool_use("Write", {"file_path": path, "content": "three\n"}),
            "ask": tool_use("AskUserQuestion", {"questions": questions}),
            "plan": tool_use("ExitPlanMode", {"plan": "# The plan"}),
        }
        other = told or f"It says: {request.tool_results[-1]['content']}"
        return next((answer for word, answer in answers.items() if told.endswith(word)), other)

    with ScriptedModel(script) as model:  # type: ignore[arg-type]
        (model.sandbox.cwd / "a.txt").write_text("one\n")
        options_ = model.options(permission_mode="default", interactions=True, include_partial_messages=True)
        async with Client(options_) as client, chatting(client, history=PromptHistory(), first="hello") as chat:
            await chat.until(lambda: "hello" in chat.entries[1:])
            await chat.until(lambda: not chat.app.conversation.is_working)
            await chat.shows("» hello", "claude-", "default", "110 tokens", "0.0006 USD")

            await chat.ask("hostile")
            await chat.shows("xxxx")
            await chat.pilot.press("pageup", "pageup")
            await chat.shows("Fine", "[red]not markup[/red] �[2J�]0;owned�", "漢字")
            assert "\x1b" not in chat.screen

            await chat.pilot.press(*"/usa")
            await chat.shows("/usage")
            await chat.pilot.press("tab")
            assert chat.box.text == "/usage "
            await chat.pilot.press("enter")
            # Lines and columns as they are.
            await chat.shows("Total code changes:    0 lines added, 0 lines removed\n", "Usage by model:")
            await chat.pilot.press("up", "up")
            assert chat.box.text == "hostile"
            await chat.pilot.press("down", "down")
            assert chat.box.text == ""

            chat.app.post_message(events.Paste("a paste\rof \x1b[31mmany\r\nlines"))
            await chat.until(lambda: chat.box.text == "a paste\nof �[31mmany\nlines")
            await chat.pilot.press("ctrl+j", *"end", "enter")
            await chat.until(lambda: chat.entries[-1].endswith("a paste\nof �[31mmany\nlines\nend"))

            await chat.ask("read")
            await chat.type("edit")
            chat.box.put("a draft")
            typed.open()
            await chat.is_asked("Allow Edit?", "-one", "+two [b]�[1m", "a: always, switch to the mode acceptEdits")
            await chat.shows("(Tab first)")
            await chat.pilot.press("y")
            assert chat.box.text == "a drafty"  # what is typed in the prompt answers nothing
            chat.box.put("")
            await chat.pilot.press("tab", "n", "y", "escape")
            for key in "nnot so\r":  # typed in one go
                chat.app.post_message(events.Key("enter" if key == "\r" else key, key))
            await chat.until(lambda: "It says: not so" in chat.entries)
            assert (model.sandbox.cwd / "a.txt").read_text() == "one\n"
            await chat.type("write")
            await chat.is_asked("Allow Write?", "-one", "+three")
            await chat.until(lambda: chat.screen.count("+three") == 2)  # the conversation stays at its end
            await chat.pilot.press("a")
            await chat.until(lambda: not chat.app.conversation.is_working)
            assert (model.sandbox.cwd / "a.txt").read_text() == "three\n"
            await chat.shows("acceptEdits", "✓ Write")
            assert chat.box.has_focus

            await chat.type("ask")
            await chat.is_asked("Which?", "1. A: about A")
            await chat.pilot.press("enter", *"2", "enter")
            await chat.shows("How?", "2. Y: about Y")
            await chat.pilot.press(*"1,2", "enter")
            await chat.until(lambda: any('"Which?"="B"' in one and '"How?"="X, Y"' in one for one in chat.entries))

            await chat.pilot.press("shift+tab")
            await chat.until(lambda: chat.app.conversation.permission_mode == "plan")
            await chat.pilot.resize_terminal(60, 20)
            await chat.type("plan")
            await chat.is_asked("Proceed with this plan?")
            await chat.pilot.press("y")
            await chat.until(lambda: chat.app.conversation.permission_mode != "plan")
            await chat.until(lambda: not chat.app.conversation.is_working)
            await chat.pilot.press("ctrl+d")
        assert chat.app.return_code == 0


def options(*labels: str) -> list[dict[str, str]]:
    return [{"label": label, "description": f"about {label}"} for label in labels]


def launch(name: str, **more: object) -> ToolCall:
    given = {"description": f"Review {name}", "prompt": f"Look at {name}", "subagent_type": "general-purpose"}
    return tool_use("Agent", given | more)


async def test_tasks_and_interruptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subagents that ask at once, the foreground moved away, Ctrl-C, a dead CLI, and the end with tasks running."""
    set_bound(monkeypatch, "DOUBLE_PRESS_SECONDS", 600)  # however slow this machine is
    late, never, slow = Gate(), Gate(), Gate()
    agents = {
        "Look at auth": [tool_use("Bash", {"command": "touch auth"}), "auth is \x1b[31msound"],
        "Look at billing": [tool_use("Bash", {"command": "touch billing"}), "billing, too"],
        "Look at docs": Reply("docs are fine", after=slow),
        "Look at logs": Reply("logs", after=never),
    }
    shell = tool_use("Bash", {"command": "sleep 600", "description": "a long wait", "run_in_background": True})

    def script(request: RecordedRequest) -> object:
        answers = {
            "two": Reply([launch("auth"), launch("billing")]),
            "slowly": Reply("too late", after=late),
            "touch": tool_use("Bash", {"command": "touch it"}),
            "wait": launch("docs", run_in_background=False),
            "die": Reply("never", after=never),
            "leave": shell,
        }
        told = request.last_user_text
        other = "Under way." if not told else "Well."
        return next((answer for word, answer in answers.items() if told.endswith(word)), other)

    with ScriptedModel(script, agents=agents) as model:  # type: ignore[arg-type]
        options_ = model.options(
            permission_mode="default",
            interactions=True,
            include_partial_messages=True,
            allowed_tools=["Bash(sleep:*)"],
        )
        async with Client(options_) as client, chatting(client) as chat:
            await chat.type("two")
            await chat.until(lambda: len(chat.app.conversation.pending) == 2)
            await chat.is_asked("(asked by Review", "(1 more)", "? Review auth [general-purpose]", "? Review billing")
            await chat.pilot.press("y")
            await chat.until(lambda: len(chat.app.conversation.pending) == 1)
            await chat.is_asked()
            await chat.pilot.press("n", "enter")
            await chat.until(lambda: len([one for one in chat.entries if re.match("✓ Review .* completed", one)]) == 2)
            await chat.until(lambda: not chat.app.conversation.is_working)
            await chat.until(lambda: "Review" not in chat.screen.partition("tasks")[2])
            assert len([name for name in ("auth", "billing") if (model.sandbox.cwd / name).exists()]) == 1

            await chat.type("wait")
            await chat.shows("● Review docs")
            await chat.pilot.press("ctrl+b")
            await chat.until(lambda: "↓ Review docs moved to the background" in chat.entries)
            await chat.until(lambda: not chat.app.conversation.is_working)
            slow.open()
            await chat.until(lambda: any(one.startswith("✓ Review docs completed") for one in chat.entries))

            await chat.type("slowly")
            await late.wait_reached()
            await chat.pilot.press("ctrl+c")
            await chat.until(lambda: chat.entries[-1] == "interrupted")
            late.open()
            await chat.until(lambda: not chat.app.conversation.is_working)
            set_bound(monkeypatch, "ARMED_AFTER", 3600)
            await chat.type("touch")
            await chat.shows("Allow Bash?", "command: touch it")
            await chat.pilot.press("y")  # what is typed when a question arrives answers nothing
            assert chat.app.conversation.pending
            with monkeypatch.context() as patch:
                patch.setattr(
                    "claude_agent_py.cli._chat.app.DOUBLE_PRESS_SECONDS", 0.001
                )  # this press is the first one
                await chat.pilot.press("ctrl+c")
                await chat.until(lambda: not chat.panel.display)
            await chat.until(lambda: not chat.app.conversation.is_working)
            assert chat.box.has_focus

            if sys.platform != "win32":
                await chat.type("die")
                await never.wait_reached()
                assert client.pid is not None
                os.kill(client.pid, signal.SIGKILL)
                await chat.until(lambda: "The next prompt continues in a new process." in chat.entries[-1])
                assert len([one for one in chat.entries if "CLIExitError" in one]) == 1
                assert not chat.app.conversation.is_working
                never.open()
                await chat.type("go on")
                await chat.until(lambda: "Well." in chat.entries)
                await chat.until(lambda: not chat.app.conversation.is_working)

            await chat.ask("leave")
            await chat.shows("● a long wait")
            await chat.pilot.press("ctrl+d")
            await chat.shows("1 running; press Ctrl-D again to stop and exit")
            await chat.pilot.press("ctrl+d")
        assert chat.app.return_code == 0


class Asking(App[None]):
    """A question alone."""

    def compose(self) -> ComposeResult:
        yield QuestionPanel()


async def test_an_answer_that_does_not_fit_is_told_and_the_question_stays() -> None:
    inbox = PendingInteractions()
    schema = {"properties": {"n": {"type": "string", "enum": ["a", "b"]}}}
    form = ElicitationRequest(server_name="shop", message="Which?", mode="form", requested_schema=schema)
    replies: list[object] = []

    async def ask() -> None:
        replies.append(await inbox.ask("elicitation", form, PermissionContext(request_id="r")))

    app = Asking()
    async with app.run_test(size=(80, 24)) as pilot, anyio.create_task_group() as group:
        group.start_soon(ask)
        interaction = await anext(inbox.arrivals())
        panel = app.query_one(QuestionPanel)
        panel.show(OpenQuestion(interaction), 0, take_focus=True)
        words = app.query_one("#asked-words", Input)
        words.value = "accept n=c"
        await pilot.press("enter")
        with anyio.fail_after(DEADLINE):
            while "must be one of a, b" not in app.export_screenshot().replace("&#160;", " "):
                await pilot.pause(0.02)
        assert not interaction.done
        words.value = "accept n=b"
        await pilot.press("enter")
    assert replies == [{"action": "accept", "content": {"n": "b"}}]

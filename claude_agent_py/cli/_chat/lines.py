"""`LineChat`: a chat in plain lines. Answers go to stdout, everything else to stderr."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio

from claude_agent_py import Run
from claude_agent_py._base.bounded_reading import Lines
from claude_agent_py._base.display import displayable
from claude_agent_py._base.errors import ClaudeAgentError
from claude_agent_py._base.event_loop import from_any_thread
from claude_agent_py._base.streams import RepeatingEvent, Stream
from claude_agent_py.cli._chat.conversation import Conversation, Entry
from claude_agent_py.cli.run_command import FAILED, exit_code, stop_tasks
from claude_agent_py.client import Client
from claude_agent_py.errors import RunError
from claude_agent_py.messages import ResultMessage
from claude_agent_py.permissions import OpenQuestion


class TypedLines(Stream[str]):
    """The lines of stdin, read in a daemon thread, which does not delay the exit of the program."""

    def start(self) -> None:
        """Start to read."""
        arguments = from_any_thread(self.put), from_any_thread(self.close)
        threading.Thread(target=_read_stdin, args=arguments, name="stdin of the chat", daemon=True).start()


def _read_stdin(put: Callable[[str], object], close: Callable[[], object]) -> None:
    """Read the file descriptor. `sys.stdin` would hold the lock of its buffer when the program exits."""
    lines = Lines()
    data: bytes | None = None
    # The event loop may be closed.
    with suppress(RuntimeError):
        while data != b"":
            try:
                data = os.read(0, 65536)
            except OSError:
                # The terminal was closed.
                data = b""
            for line in lines.feed(data or b"\n"):
                put(line.decode("utf-8", errors="replace"))
        close()


INTERRUPTED: Final = 130
INPUT_ENDED: Final = "The input ended before the question was answered."


async def chat_in_lines(client: Client, first: str | None) -> int:
    """Connect the client, chat until stdin ends, and return the exit code.

    Raises:
        ClaudeAgentError: The session does not start.
    """
    async with client:
        chat = LineChat(client)
        async with anyio.create_task_group() as group:
            group.start_soon(chat.follow)
            # Windows has no signal receivers: there, Ctrl-C ends the program.
            if sys.platform != "win32":
                group.start_soon(chat.handle_ctrl_c, group.cancel_scope)
            await chat.read_input(first, group)
            await stop_tasks(client, chat.say)
            # Closing ends `follow`, after it has shown the remaining events.
            await client.close()
            await chat.has_ended.wait()
            group.cancel_scope.cancel()
        return chat.code


class LineChat:
    """A chat over stdin and stdout.

    Attributes:
        code: The exit code of the last failed run, or 0.
        has_ended: Set when all events of the session are shown.
    """

    def __init__(self, client: Client) -> None:
        self.code = 0
        self.has_ended = anyio.Event()
        self._client = client
        self._conversation = Conversation()
        self._run: Run | None = None
        self._typed = TypedLines()
        self._changed = RepeatingEvent()
        self._open: Entry | None = None
        """The answer whose last line is incomplete."""
        self._shown_parts = 0
        self._shown_question: OpenQuestion | None = None
        """The question on display."""

    # Input -----------------------------------------------------------------------------------------------------

    async def read_input(self, first: str | None, group: object) -> None:
        """Send each line as a prompt, or as the answer to a pending question, until the input or the session ends."""
        self._typed.start()
        if first:
            self._send(first, group)
        while not self.has_ended.is_set():
            if self._run is not None and not self._conversation.pending:
                await self._changed.wait()
                continue
            if sys.stdin.isatty() and not self._conversation.pending:
                print("> ", end="", file=sys.stderr, flush=True)
            line = await anext(self._typed, None)
            if self.has_ended.is_set():
                return
            if self._conversation.pending:
                self._answer(self._conversation.pending[0], line)
            elif line is None:
                return
            elif line.strip():
                self._send(line.strip(), group)

    def _send(self, prompt: str, group: Any) -> None:
        # A script sends the next prompt when all tasks are done. A user wants to type while tasks run.
        self._run = self._client.query(prompt, until="result" if sys.stdin.isatty() else "idle")
        group.start_soon(self._finish, self._run)

    async def _finish(self, run: Run) -> None:
        try:
            await run
        except ClaudeAgentError as error:
            self.code = exit_code(error)
            # `follow` shows run errors.
            if not isinstance(error, RunError):
                self.say(f"{type(error).__name__}: {displayable(str(error))}")
        self._run = None
        self._changed.set()

    async def handle_ctrl_c(self, scope: anyio.CancelScope) -> None:
        """Interrupt the turn on Ctrl-C. Exit on a second Ctrl-C in the same turn, or if no turn is running."""
        interrupted: Run | None = None
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            async for _ in signals:
                if self._run is None or self._run is interrupted:
                    self.code = INTERRUPTED
                    scope.cancel()
                    return
                interrupted = self._run
                self.say("interrupting; press Ctrl-C again to exit")
                try:
                    await interrupted.interrupt()
                except ClaudeAgentError as error:
                    self.say(displayable(str(error)))

    # Answers --------------------------------------------------------------------------------------------------

    def _answer(self, question: OpenQuestion, line: str | None) -> None:
        try:
            if line is None:
                question.deny(INPUT_ENDED)
            elif not question.type(line.strip()):
                self._ask_step(question)
                return
        except ValueError as error:
            self.say(displayable(str(error)))
        else:
            self._conversation.answered(question)
            self._ask()

    def _ask(self) -> None:
        """Show the oldest question, unless it is already on display."""
        pending = self._conversation.pending
        question = pending[0] if pending else None
        is_new, self._shown_question = question is not self._shown_question, question
        if question is None or not is_new:
            return
        self.say(f"? {question.title}")
        for line in (*question.lines, *question.markdown.splitlines(), *question.diff):
            self.say(f"    {line}")
        self._ask_step(question)

    def _ask_step(self, question: OpenQuestion) -> None:
        step = question.step
        if step is None:
            always = f"; a: always, {question.always}" if question.always else ""
            self.say(f"  y: once{always}; n [why]: no")
            return
        if step.text:
            self.say(f"  {step.text}")
        for line in step.lines:
            self.say(f"    {line}")
        self.say(f"  {step.help}")

    # Output ----------------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Show the events of the session until it ends."""
        try:
            async for event in self._client.events(facts=True):
                for entry in self._conversation.apply(event):
                    self._show(entry)
                if isinstance(event, ResultMessage):
                    self._end_line()
                self._ask()
                self._changed.set()
        except ClaudeAgentError as error:
            self.code = FAILED
            self.say(f"{type(error).__name__}: {displayable(str(error))}")
        finally:
            self._end_line()
            self.has_ended.set()
            self._changed.set()
            self._typed.close()

    def say(self, text: str) -> None:
        """Print a text to stderr."""
        self._end_line()
        print(displayable(text, None), file=sys.stderr, flush=True)

    def _show(self, entry: Entry) -> None:
        if entry.kind != "answer":
            self.say(f"{entry.mark} {entry.text}".strip())
            changes = entry.changes if entry.mark == "→" else []
            for line in (*changes, *entry.output):
                self.say(f"    {line}")
            return
        if entry is not self._open:
            self._end_line()
            self._open = entry
            self._shown_parts = 0
        print("".join(entry.parts[self._shown_parts :]), end="", flush=True)
        self._shown_parts = len(entry.parts)

    def _end_line(self) -> None:
        if self._open is not None:
            if not self._open.text.endswith("\n"):
                print(flush=True)
            self._open = None

"""`LineChat`: a chat as plain lines. Answers go to stdout; what happens, and questions, go to stderr."""

import signal
import sys
from typing import Any, Final

import anyio

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py._runtime.runs.result import RunError
from claude_agent_py._runtime.runs.run import Run
from claude_agent_py.cli._chat.approvals import Asked, allow, answer, asked, deny
from claude_agent_py.cli._chat.conversation import Conversation, Entry
from claude_agent_py.cli._chat.typed_lines import TypedLines
from claude_agent_py.cli.run_command import FAILED, exit_code, stop_tasks
from claude_agent_py.client import Client
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.wire.messages.conversation import ResultMessage

INTERRUPTED: Final = 130
INPUT_ENDED: Final = "The input ended, so nobody answered."


async def chat_in_lines(client: Client[Any], first: str | None) -> int:
    """Talk until stdin ends, and return the exit code. The client is connected by this function.

    Raises:
        ClaudeAgentError: The session did not start.
    """
    async with client:
        chat = LineChat(client)
        async with anyio.create_task_group() as group:
            group.start_soon(chat.follow)
            if sys.platform != "win32":  # elsewhere Ctrl-C ends the program
                group.start_soon(chat.heed_ctrl_c, group.cancel_scope)
            await chat.talk(first, group)
            await stop_tasks(client, chat.say)
            await client.close()  # ends `follow`, once it has shown everything
            await chat.has_ended.wait()
            group.cancel_scope.cancel()
        return chat.code


class LineChat:
    """A chat over stdin and stdout.

    Attributes:
        code: The exit code: of the last run that failed, or 0.
        has_ended: Set once everything that the session says is shown.
    """

    def __init__(self, client: Client[Any]) -> None:
        self.code = 0
        self.has_ended = anyio.Event()
        self._client = client
        self._conversation = Conversation()
        self._run: Run[Any] | None = None
        self._typed = TypedLines()
        self._changed = anyio.Event()
        self._open: Entry | None = None
        """The answer whose last line is not over."""
        self._shown_parts = 0
        self._asking: Interaction | None = None
        """The question that is shown."""
        self._asked = Asked("")
        self._texts: list[str] = []
        """The answers so far, if the model asks several things at once."""

    # Typing -----------------------------------------------------------------------------------------------------

    async def talk(self, first: str | None, group: Any) -> None:
        """Send each line as a prompt, or as the answer to what is asked, until the input or the session ends."""
        if first:
            self._send(first, group)
        while not self.has_ended.is_set():
            if self._run is not None and not self._conversation.pending:
                await self._change()
                continue
            if sys.stdin.isatty() and not self._conversation.pending:
                print("> ", end="", file=sys.stderr, flush=True)
            line = await self._next_line()
            if self.has_ended.is_set():
                return
            if self._conversation.pending:
                self._answer(self._conversation.pending[0], line)
            elif line is None:
                return
            elif line.strip():
                self._send(line.strip(), group)

    async def _next_line(self) -> str | None:
        """Return the next line; None at the end of the input, or of the session."""
        line: str | None = None
        async with anyio.create_task_group() as group:

            async def stop_at_end() -> None:
                await self.has_ended.wait()
                group.cancel_scope.cancel()

            group.start_soon(stop_at_end)
            line = await self._typed.next()
            group.cancel_scope.cancel()
        return line

    async def _change(self) -> None:
        self._changed = anyio.Event()
        await self._changed.wait()

    def _send(self, prompt: str, group: Any) -> None:
        self._conversation.prompt(prompt)
        # a script goes on when all is done; a person wants to type while tasks run
        self._run = self._client.query(prompt, until="result" if sys.stdin.isatty() else "idle")
        group.start_soon(self._finish, self._run)

    async def _finish(self, run: Run[Any]) -> None:
        try:
            await run
        except ClaudeAgentError as error:
            self.code = exit_code(error)
            if not isinstance(error, RunError):  # `follow` shows those
                self.say(f"{type(error).__name__}: {displayable(str(error))}")
        self._conversation.answered()
        self._run = None
        self._changed.set()

    async def heed_ctrl_c(self, scope: anyio.CancelScope) -> None:
        """Interrupt the turn at Ctrl-C. Without one, and at the second Ctrl-C in a turn, end."""
        interrupted: Run[Any] | None = None
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            async for _ in signals:
                if self._run is None or self._run is interrupted:
                    self.code = INTERRUPTED
                    scope.cancel()
                    return
                interrupted = self._run
                self.say("interrupting; Ctrl-C again ends")
                try:
                    await interrupted.interrupt()
                except ClaudeAgentError as error:
                    self.say(displayable(str(error)))

    # Answering --------------------------------------------------------------------------------------------------

    def _answer(self, interaction: Interaction, line: str | None) -> None:
        if line is None:
            deny(interaction, INPUT_ENDED)
            self._settled(interaction)
            return
        try:
            if self._was_answered(interaction, line.strip()):
                self._settled(interaction)
        except ValueError as error:
            self.say(displayable(str(error)))

    def _was_answered(self, interaction: Interaction, text: str) -> bool:
        """Answer, and return False if the answer is not complete. Raises ValueError if it is none."""
        if self._asked.is_decision:
            self._decide(interaction, text)
            return True
        if not text:
            raise ValueError("an answer is empty")
        self._texts.append(text)
        if len(self._texts) < len(self._asked.steps):
            self._ask_step()
            return False
        texts, self._texts = self._texts, []
        answer(interaction, texts)
        return True

    def _decide(self, interaction: Interaction, text: str) -> None:
        word, _, reason = text.partition(" ")
        if word.lower() in ("y", "yes"):
            allow(interaction)
        elif word.lower() in ("a", "always") and self._asked.always:
            allow(interaction, always=True)
        elif word.lower() in ("n", "no"):
            deny(interaction, reason)
        else:
            raise ValueError("answer with y, n [why]" + (" or a" if self._asked.always else ""))

    def _settled(self, interaction: Interaction) -> None:
        """Go on to the next question, before the session tells that this one is settled."""
        self._conversation.pending = [one for one in self._conversation.pending if one is not interaction]
        self._ask()

    def _ask(self) -> None:
        """Show the oldest question, unless it is shown."""
        pending = self._conversation.pending
        now = pending[0] if pending else None
        if now is self._asking:
            return
        self._asking, self._texts = now, []
        if now is None:
            return
        told = self._asked = asked(now)
        self.say(f"? {told.title}")
        for line in (*told.lines, *told.markdown.splitlines(), *told.diff):
            self.say(f"    {line}")
        if told.is_decision:
            self.say("  y: once" + (f"; a: always, {told.always}" if told.always else "") + "; n [why]: no")
        else:
            self._ask_step()

    def _ask_step(self) -> None:
        step = self._asked.steps[len(self._texts)]
        if step.text:
            self.say(f"  {step.text}")
        for line in step.lines:
            self.say(f"    {line}")
        self.say(f"  {step.help}")

    # Showing ----------------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Show what the session says until it ends."""
        try:
            async for event in self._client.events():
                for entry in self._conversation.take(event):
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

    def say(self, text: str) -> None:
        """Print what is not an answer."""
        self._end_line()
        print(text, file=sys.stderr, flush=True)

    def _show(self, entry: Entry) -> None:
        if entry.kind != "answer":
            self.say(f"{entry.mark} {entry.text}".strip())
            changes = entry.changes if entry.mark == "→" else []
            for line in (*changes, *entry.output):
                self.say(f"    {line}")
            return
        if entry is not self._open:
            self._end_line()
            self._open, self._shown_parts = entry, 0
        print("".join(entry.parts[self._shown_parts :]), end="", flush=True)
        self._shown_parts = len(entry.parts)

    def _end_line(self) -> None:
        if self._open is not None:
            if not self._open.text.endswith("\n"):
                print(flush=True)
            self._open = None

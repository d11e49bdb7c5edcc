"""One process of the CLI for many checks: each sets the answers of its own turns, and sees only its own requests."""

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio

from claude_agent_py import Client, RunResult
from claude_agent_py.messages import CommandLifecycleMessage
from claude_agent_py.testing import RecordedRequest, ScriptedModel, text


class OneSession:
    """A scripted model, and a session of the CLI with it while `open` is entered.

    `more` are arguments of the model. The main conversation answers what `answers` set (values, and functions of the
    request), and then "Done."
    """

    client: Client

    def __init__(self, **more: Any) -> None:
        self._left: list[Any] = []
        self._before = 0
        self.model = ScriptedModel(self._answer, **more)

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Client]:
        """Start the CLI with options of the model."""
        async with self.model, Client(self.model.options(**options)) as self.client:
            yield self.client

    def _answer(self, request: RecordedRequest) -> Any:
        answer = self._left.pop(0) if self._left else text("Done.")
        return answer(request) if callable(answer) else answer

    def answers(self, *answers: Any) -> None:
        """Begin a check: set the next answers of the main conversation, and forget the requests so far."""
        self._left[:] = answers
        self._before = len(self.model.requests)

    async def ask(self, *answers: Any, prompt: Any = "go", until: Literal["result", "idle"] = "idle") -> RunResult:
        """Begin a check, and run one prompt."""
        self.answers(*answers)
        with anyio.fail_after(240):
            return await self.client.query(prompt, until=until)

    def requests_of(self, agent: str = "main") -> list[RecordedRequest]:
        """Return the requests of this check."""
        return [request for request in self.model.requests[self._before :] if request.agent == agent]

    def result_of(self, agent: str = "main") -> str:
        """Return the last tool results that the model was sent, as text."""
        return str(self.requests_of(agent)[-1].tool_results)

    def made(self) -> list[str]:
        """Return the names of the files in the working directory, and remove them."""
        paths = sorted(path for path in Path(str(self.client.options.cwd)).iterdir() if path.is_file())
        for path in paths:
            path.unlink()
        return [path.name for path in paths]


async def have_queued(events: AsyncIterable[object], count: int) -> None:
    """Wait until the CLI has queued so many prompts."""
    async for event in events:
        count -= isinstance(event, CommandLifecycleMessage) and event.state == "queued"
        if count == 0:
            break

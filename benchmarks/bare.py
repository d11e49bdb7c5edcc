"""The floor: a minimal host of the CLI on asyncio's pipes, `readline` and `json`.

It has no options, types, limits or error handling: reading at EOF fails.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

JSONObject: TypeAlias = dict[str, Any]
Answer: TypeAlias = Callable[[JSONObject], Awaitable[JSONObject]]
"""Returns the payload of the response to a control request of the CLI."""


class BareSession:
    """A CLI process that has answered `initialize`."""

    def __init__(self, process: asyncio.subprocess.Process, answer: Answer | None) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout, self._answer = process.stdin, process.stdout, answer

    def send(self, frame: JSONObject) -> None:
        self._stdin.write(json.dumps(frame).encode() + b"\n")

    async def receive(self) -> JSONObject:
        """Return the next frame that is not a control request. Control requests are answered."""
        while True:
            frame: JSONObject = json.loads(await self._stdout.readline())
            if frame["type"] != "control_request":
                return frame
            assert self._answer is not None
            body = {"subtype": "success", "request_id": frame["request_id"]}
            body["response"] = await self._answer(frame["request"])
            self.send({"type": "control_response", "response": body})

    def send_prompt(self, text: str) -> None:
        self.send({"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None})

    async def receive_response(self) -> AsyncIterator[JSONObject]:
        """Iterate the frames up to the result."""
        while True:
            frame = await self.receive()
            yield frame
            if frame["type"] == "result":
                return


@asynccontextmanager
async def bare_session(cli: str, answer: Answer | None = None, **initialize: Any) -> AsyncIterator[BareSession]:
    """Start a program as the CLI, with the given fields of `initialize`. On exit, close its input and wait for it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(cli, stdin=pipe, stdout=pipe, limit=1 << 20)
    session = BareSession(process, answer)
    request = {"subtype": "initialize", **initialize}
    session.send({"type": "control_request", "request_id": "req_1", "request": request})
    assert (await session.receive())["type"] == "control_response"
    yield session
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()

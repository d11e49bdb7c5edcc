"""A CLI whose requests a test makes one by one: the public way to handlers of hooks, permissions and tools."""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
from typing_extensions import override

from claude_agent_py import Client, ClientOptions, Transport
from claude_agent_py.testing import frames

Answer: TypeAlias = Mapping[str, Any] | Exception | Callable[[dict[str, Any]], Mapping[str, Any]]
"""The payload that answers a control request, an error that refuses it, or a function of the request."""


class AskingCLI(Transport):
    """A CLI in memory that asks what a test says. It answers requests with `answers[subtype]`, or with `otherwise`."""

    ignores_options = True
    client: Client

    def __init__(self, answers: Mapping[str, Answer] | None = None, otherwise: Answer | None = None) -> None:
        self.answers: dict[str, Answer] = {"initialize": {}, **(answers or {})}
        self._otherwise: Answer = {} if otherwise is None else otherwise
        self.received: list[dict[str, Any]] = []
        """All frames of the client."""
        self._ids = (f"r{number}" for number in itertools.count(1))
        self._replies: dict[str, dict[str, Any]] = {}
        self._changed = anyio.Event()
        self._out, self._said = anyio.create_memory_object_stream[bytes](1000)
        self._input = b""
        self._is_closed = False

    # What a test does

    def requests(self, subtype: str) -> list[dict[str, Any]]:
        """Return the control requests of a subtype that the client made."""
        found = [frame["request"] for frame in self.received if frame["type"] == "control_request"]
        return [request for request in found if request["subtype"] == subtype]

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The control requests that the client made once it was connected."""
        found = [frame["request"] for frame in self.received if frame["type"] == "control_request"]
        return [request for request in found if request["subtype"] != "initialize"]

    def say(self, *said: dict[str, Any]) -> None:
        """Send frames."""
        self._out.send_nowait(frames.encode(*said))

    def start_asking(self, request: Mapping[str, Any], change: Callable[[bytes], bytes] = bytes) -> str:
        """Send a request, as a line that `change` may damage, and return its id."""
        request_id = next(self._ids)
        frame = {"type": "control_request", "request_id": request_id, "request": dict(request)}
        self._out.send_nowait(change(frames.encode(frame)))
        return request_id

    async def ask(self, request: Mapping[str, Any], change: Callable[[bytes], bytes] = bytes) -> dict[str, Any]:
        """Send a request, as `start_asking`, and return the payload of the reply."""
        return await self.reply_to(self.start_asking(request, change))

    async def reply_to(self, request_id: str) -> dict[str, Any]:
        """Wait for the reply to a request and return its payload."""
        with anyio.fail_after(60):
            while request_id not in self._replies:
                await self._changed.wait()
        reply = self._replies[request_id]
        assert reply["subtype"] == "success", reply
        payload: dict[str, Any] = reply.get("response", {})
        return payload

    def is_answered(self, request_id: str) -> bool:
        """Return whether a request has a reply."""
        return request_id in self._replies

    async def call_hook(
        self, data: Mapping[str, Any], callback_id: str = "hook_0", tool_use_id: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Call a hook and return its output."""
        return await self.ask(hook_call(data, callback_id, tool_use_id, **fields))

    @property
    def hooks(self) -> Any:
        """The hooks that the client registered last."""
        return self.requests("initialize")[-1].get("hooks", {})

    # The transport

    def _hear(self, data: bytes) -> None:
        *lines, self._input = (self._input + data).split(b"\n")
        for frame in map(json.loads, lines):
            self.received.append(frame)
            if frame["type"] == "control_response":
                self._replies[frame["response"]["request_id"]] = frame["response"]
            elif frame["type"] == "control_request":
                self._answer(frame)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _answer(self, frame: dict[str, Any]) -> None:
        request, request_id = frame["request"], frame["request_id"]
        answer = self.answers.get(request["subtype"], self._otherwise)
        if request["subtype"] == "initialize" and not answer:
            answer = frames.initialize_response()
        payload = answer(request) if callable(answer) else answer
        response: dict[str, Any] = {"subtype": "success", "request_id": request_id, "response": payload}
        if isinstance(payload, Exception):
            response = {"subtype": "error", "request_id": request_id, "error": str(payload)}
        self.say({"type": "control_response", "response": response})

    @override
    async def start(self) -> None: ...

    @override
    async def receive(self) -> bytes:
        try:
            return await self._said.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return b""

    @override
    async def send(self, data: bytes) -> None:
        self._hear(data)

    @override
    async def end_input(self) -> None:
        self._out.close()

    @override
    async def close(self, *, grace: float = 5.0) -> None:
        self._out.close()
        self._said.close()
        self._is_closed = True

    @property
    @override
    def needs_run(self) -> bool:
        return False

    @property
    @override
    def exit_code(self) -> int | None:
        return 0 if self._is_closed else None


def hook_call(
    data: Mapping[str, Any], callback_id: str = "hook_0", tool_use_id: str | None = None, **fields: Any
) -> dict[str, Any]:
    """Return the request that calls a hook."""
    more = {} if tool_use_id is None else {"tool_use_id": tool_use_id}
    return {"subtype": "hook_callback", "callback_id": callback_id, "input": dict(data), **more, **fields}


@asynccontextmanager
async def asking(options: ClientOptions | None = None, /, **more: Any) -> AsyncIterator[AskingCLI]:
    """Open a client of an `AskingCLI`, and close it afterwards. `cli.client` is the client."""
    cli = AskingCLI(more.pop("answers", None), more.pop("otherwise", None))
    cli.client = Client(options or ClientOptions(**more), transport=cli)
    with anyio.fail_after(120):
        async with cli.client:
            yield cli

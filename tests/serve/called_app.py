"""An application for clients of AG-UI that is called in this event loop, without a server."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import urlencode

import anyio
from ag_ui import core
from pydantic import TypeAdapter
from serving import TOKEN
from starlette.types import Message

from claude_agent_py.serve import make_agui_app

EVENT: TypeAdapter[Any] = TypeAdapter(core.Event)
Events: TypeAlias = AsyncGenerator[tuple[str, Any], None]
"""Events of a thread with their ids."""


class Agent:
    """The agent of these sessions, as a user's client calls it. The protocol's own models read its events."""

    def __init__(self, sessions: Any, user: str = "") -> None:
        who: dict[str, Any] = {"authenticate": lambda request: user} if user else {"token": TOKEN}
        self._app = make_agui_app(sessions, **who)

    async def run(self, given: core.RunAgentInput) -> AsyncIterator[Any]:
        """Yield the events of a run. Read all of them."""
        body = given.model_dump_json(by_alias=True, exclude_none=True).encode()
        async with self._call("POST", "", body) as events:
            async for _, event in events:
                yield event

    def follow(self, thread: str, after: str = "") -> AbstractAsyncContextManager[Events]:
        """Follow a thread: yields an iterator of events with their ids."""
        return self._call("GET", urlencode({"threadId": thread}), b"", after)

    @asynccontextmanager
    async def _call(self, method: str, query: str, body: bytes, after: str = "") -> AsyncIterator[Events]:
        headers = {"host": "127.0.0.1", "authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": "/",
            "query_string": query.encode(),
            "headers": [
                (name.encode(), value.encode()) for name, value in {**headers, "last-event-id": after}.items() if value
            ],
        }
        sent, answer = anyio.create_memory_object_stream[bytes](0)
        asked = [{"type": "http.request", "body": body}]

        async def receive() -> Message:
            if not asked:
                await anyio.sleep_forever()
            return asked.pop()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] == 200
            else:
                await sent.send(message["body"])

        async def serve() -> None:
            with sent:
                await self._app(scope, receive, send)

        async with anyio.create_task_group() as group, answer, aclosing(_read(answer)) as events:
            group.start_soon(serve)
            yield events
            group.cancel_scope.cancel()


async def _read(answer: AsyncIterable[bytes]) -> Events:
    async for block in answer:
        fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if line[:1] not in ("", ":"))
        if "data" in fields:
            assert None not in json.loads(fields["data"]).values()
            yield fields.get("id", ""), EVENT.validate_json(fields["data"])

"""Servers in this process that ask for a model's message, with the real CLI."""

import importlib
import importlib.metadata
import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio import Event
from mcp_client import Connect, connect as connect
from one_session import OneSession
from pydantic import TypeAdapter

from claude_agent_py import Client, ToolContext
from claude_agent_py.errors import OptionsError
from claude_agent_py.testing import Reply, tool_use
from claude_agent_py.tools import SamplingRequest

HAS_PACKAGE = importlib.util.find_spec("mcp") is not None
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:The sampling capability is deprecated")]
ONE = {"role": "user", "content": {"type": "text", "text": "Shorten this"}}


async def shorten(context: ToolContext) -> str:
    """Shorten something."""
    return await context.sample("Shorten this", system_prompt="Be short.", max_tokens=7)


def package_server() -> Any:
    """Return a server of the `mcp` package with a tool that asks for a message."""
    is_second = not importlib.metadata.version("mcp").startswith("1.")
    module, name = ("mcp.server.mcpserver", "MCPServer") if is_second else ("mcp.server.fastmcp", "FastMCP")
    loaded, types = importlib.import_module(module), importlib.import_module("mcp.types")
    server: Any = getattr(loaded, name)("notes")

    async def shorten(ctx: Any) -> str:
        session = ctx.session
        message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Shorten this"))
        is_there = session.check_client_capability(types.ClientCapabilities(sampling=types.SamplingCapability()))
        try:
            reply = await session.create_message([message], max_tokens=7, system_prompt="Be short.", temperature=0.5)
        except Exception as error:
            return f"{is_there} {error}"
        return f"{is_there} {reply.content.text} by {reply.model}"

    shorten.__annotations__["ctx"] = loaded.Context
    server.tool(structured_output=False)(shorten)
    return server


@asynccontextmanager
async def asking(handler: Callable[..., object] | None) -> AsyncIterator[tuple[OneSession, Client]]:
    """A session with a tool of each kind of server, which asks the handler for a message."""
    one, servers = OneSession(), {"notes": package_server()} if HAS_PACKAGE else {}
    async with one.open(custom_tools=[shorten], mcp_servers=servers, on_sampling=handler) as client:
        yield one, client


async def ask_tools(one: OneSession) -> list[str]:
    """Call the tool of each kind of server; return what the model is sent."""
    names = ["mcp__tools__shorten", *(["mcp__notes__shorten"] if HAS_PACKAGE else [])]
    result = await one.ask(*(Reply(tool_use(name, {})) for name in names), "Done.", until="result")
    return [call.text for call in result.tool_calls]


@pytest.mark.real_cli
@pytest.mark.each_backend
async def test_a_handler_answers_servers_of_every_kind_and_an_interrupt_cancels_it() -> None:
    asked: list[SamplingRequest] = []
    is_slow, started, ended = Event(), Event(), Event()

    async def answer(request: SamplingRequest, context: ToolContext) -> str:
        asked.append(request)
        if is_slow.is_set():
            started.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()
        return "short"

    async with asking(answer) as (one, client):
        texts = await ask_tools(one)
        is_slow.set()
        one.answers(Reply(tool_use("mcp__notes__shorten" if HAS_PACKAGE else "mcp__tools__shorten", {})), "Done.")
        with anyio.fail_after(120):
            run = client.query("Go on")
            await started.wait()
            await client.interrupt()
            await ended.wait()
            assert (await run.result()).was_interrupted
    del asked[-1]
    assert texts == ["short", "True short by unknown"][: len(texts)]
    assert [request.server_name for request in asked] == ["tools", "notes"][: len(texts)]
    for request in asked:
        assert (list(request.messages), request.max_tokens, request.system_prompt) == ([ONE], 7, "Be short.")
    assert not HAS_PACKAGE or asked[-1].params["temperature"] == 0.5


@pytest.mark.real_cli
async def test_a_plain_handler_returns_a_message_in_mcp_form_or_is_an_error_for_the_server_without_its_text() -> None:
    message = {"content": {"type": "text", "text": "short"}, "model": "small", "stopReason": "maxTokens"}
    answers: list[object] = [message]

    def answer(request: SamplingRequest, context: ToolContext) -> object:
        if isinstance(answers[-1], Exception):
            raise answers[-1]
        return answers[-1]

    async with asking(answer) as (one, client):
        texts = await ask_tools(one)
        assert texts == ["short", "True short by small"][: len(texts)]
        for wrong in (LookupError("a secret"), 5, {"text": "short"}, {"content": ["short"]}):
            answers.append(wrong)
            before = len(client.handler_errors)
            for text in await ask_tools(one):
                assert "on_sampling" in text, wrong
                assert "secret" not in text
            assert "on_sampling" in {error.handler for error in client.handler_errors[before:]}, wrong


@pytest.mark.real_cli
async def test_without_a_handler_the_server_is_told_so() -> None:
    async with asking(None) as (one, client):
        texts = await ask_tools(one)
    why = "on_sampling: the server {!r} asks for a model's message, and there is no handler for it"
    assert why.format("tools") in texts[0]
    assert not HAS_PACKAGE or (texts[1].startswith("False ") and why.format("notes") in texts[1])
    assert [error.handler for error in client.handler_errors] == ["tool shorten"]


async def test_without_a_session_there_is_no_model() -> None:
    with pytest.raises(OptionsError, match="no session answers it"):
        await ToolContext(request_id="r1").sample("Shorten this")


class Malformed:
    """A low-level server that sends one request with these parameters, and keeps the answer."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.request = {"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": params}
        self.answer: dict[str, Any] = {}

    def create_initialization_options(self) -> None:
        return None

    async def run(self, read: Any, write: Any, options: None) -> None:
        message, shared = (
            importlib.import_module("mcp.types").JSONRPCMessage,
            importlib.import_module("mcp.shared.message"),
        )
        await read.receive()
        await write.send(shared.SessionMessage(TypeAdapter(message).validate_python(self.request)))
        reply = (await read.receive()).message
        self.answer = TypeAdapter(message).dump_python(reply, mode="json", exclude_none=True)


@pytest.mark.skipif(not HAS_PACKAGE, reason="the extra mcp is not installed")
@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "messages must be a list of objects"),
        ({"messages": ["hi"], "maxTokens": 1}, "messages must be a list of objects"),
        ({"messages": [ONE]}, "maxTokens must be an integer"),
        ({"messages": [ONE], "maxTokens": True}, "maxTokens must be an integer"),
        ({"messages": [ONE], "maxTokens": 0}, "maxTokens must be at least 1, not 0"),
    ],
)
async def test_a_malformed_request_is_refused(params: dict[str, Any], problem: str, connect: Connect) -> None:
    def answer(request: object, context: object) -> dict[str, Any]:
        raise AssertionError

    server = Malformed(params)
    client = await connect(server, "notes", on_sampling=answer)
    assert "error" in await client.ask("ping")
    assert server.answer["error"] == {"code": -32602, "message": problem}

"""`make_agui_app`: the ASGI application for clients of AG-UI."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from ag_ui.core import RunAgentInput
from pydantic import ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from claude_agent_py.serve.agui import Agent
from claude_agent_py.serve.sessions import AnySessions
from claude_agent_py.serve.web import (
    LOOPBACK,
    AccessGuard,
    Authenticate,
    PromptLimit,
    Refused,
    choose,
    find_user,
    make_routed,
)


def make_agui_app(
    sessions: AnySessions,
    *,
    token: str | None = None,
    authenticate: Authenticate | None = None,
    hosts: Sequence[str] = LOOPBACK,
    origins: Sequence[str] = (),
    prompts_per_minute: int | None = None,
) -> ASGIApp:
    """Return an application that runs agents for clients of AG-UI 1.0: POST a `RunAgentInput`, read its events.

    GET with the parameter `threadId` follows a thread: the messages so far, and the turns that nobody has asked for. A
    thread is a session. The arguments are those of `make_app`, and:

    Args:
        sessions: The sessions.
        token: What a request must have in the header `Authorization: Bearer ...`.
        authenticate: Finds the user of a request, instead of a token.
        hosts: The names by which the server may be called, without port.
        origins: The sites whose pages may send requests, such as `https://chat.example.com`.
        prompts_per_minute: How many runs a user may begin in a minute; None means no limit.

    Raises:
        OptionsError: There is neither a token nor `authenticate`, or the limit is not positive.
    """
    chosen, limit = choose(token, authenticate), PromptLimit(prompts_per_minute)
    agent = Agent(sessions)

    async def run(request: Request) -> Response:
        user = await find_user(chosen, request)
        given = await _read_input(request)
        limit.take(user)

        async def events() -> AsyncIterator[ServerSentEvent]:
            async with aclosing(agent.run(given, user=user)) as told:
                async for event in told:
                    yield ServerSentEvent(event.model_dump_json(by_alias=True), sep="\n")  # all that clients know

        return EventSourceResponse(events(), ping=15, sep="\n")

    async def follow(request: Request) -> Response:
        user = await find_user(chosen, request)
        thread_id = request.query_params.get("threadId")
        if not thread_id:
            raise Refused(400, "the parameter `threadId` is missing")
        session = await agent.find(thread_id, user)

        async def events() -> AsyncIterator[ServerSentEvent]:
            after = request.headers.get("last-event-id", "")
            async with aclosing(agent.follow(session, thread_id, after)) as told:
                async for name, event in told:
                    yield ServerSentEvent(event.model_dump_json(by_alias=True), id=name or None, sep="\n")

        return EventSourceResponse(events(), ping=15, sep="\n")

    app: ASGIApp = make_routed(sessions, [Route("/", run, methods=["POST"]), Route("/", follow, methods=["GET"])])
    if origins:
        headers = ["authorization", "content-type", "last-event-id"]
        app = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=headers,
            expose_headers=["retry-after"],
        )
    return AccessGuard(app, hosts, origins)


async def _read_input(request: Request) -> RunAgentInput:
    try:
        return RunAgentInput.model_validate_json(await request.body())
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise Refused(400, f"the body is no RunAgentInput: {where}: {error.errors()[0]['msg']}") from None

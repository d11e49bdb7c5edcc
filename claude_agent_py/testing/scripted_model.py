"""A model that says what a test tells it to: the Messages API on loopback, for the real CLI to talk to.

Owns which script answers which request, and the record of all requests. The values of a script are in `script`, the
HTTP in `messages_server`, the environment for the CLI in `sandbox`.

Who asks is read off the request: the CLI names a subagent in a header, the prompt that opens a conversation says which
one it is, and what the CLI asks beside the conversations (titles, summaries) never uses up a script.
"""

import itertools
import re
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

from anyio import CancelScope, to_thread

from claude_agent_py.testing.gate import wait_in_thread
from claude_agent_py.testing.messages_server import MessagesServer
from claude_agent_py.testing.requests import RecordedRequest
from claude_agent_py.testing.sandbox import Sandbox
from claude_agent_py.testing.script import Answer, AnyScript, Failure, LooseAnswer, Reply, as_answer

if TYPE_CHECKING:
    from types import TracebackType

    from claude_agent_py.options.client_options import ClientOptions

Match: TypeAlias = str | re.Pattern[str] | Callable[[RecordedRequest], bool]
"""Which conversation: a text that its opening prompt contains, a pattern found there, or a function."""

PreparedScript: TypeAlias = Sequence[Answer] | Callable[[RecordedRequest], LooseAnswer]

DEFAULT_REPLY = Reply("Done.")


def answer_side_request(request: RecordedRequest) -> Reply:
    """Answer what the CLI asks beside the conversations, so that it is content and goes on."""
    if request.request_class == "compaction":
        return Reply("<summary>A scripted summary of the conversation.</summary>")
    return DEFAULT_REPLY


class ScriptedModel:
    """A scripted Messages API. Use it as a context manager, `with` or `async with`, on any event loop or none.

    `main` answers the main conversation, `agents` those of subagents, by the prompt that opens them: a text that it
    contains, a compiled pattern, or a function of the request; the first that fits is taken. Every subagent plays its
    script from the start, also when two fit the same key; a subagent that fits none gets `Done.` each time.
    `sessions` does the same for main conversations, where several CLIs share one model; `main` answers the others.

    The keys of `agents` and `sessions` are a `Match`, their values what `main` may be. A script with something in it
    that no model can say is a TypeError at once.

    When a sequence has run out, `on_exhausted` decides: an answer to give from then on, or `"fail"`, which sends an
    error that the CLI does not repeat, so that the run ends with an error that says which script was too short.

    Where the function of a script raises, the run ends with an error that shows the traceback, and leaving the `with`
    block raises the exception again; one that leaves the block already gets the traceback as a note.
    """

    def __init__(
        self,
        main: AnyScript = (),
        *,
        agents: Mapping[Any, object] | None = None,
        sessions: Mapping[Any, object] | None = None,
        side: AnyScript = answer_side_request,
        on_exhausted: LooseAnswer | Literal["fail"] = DEFAULT_REPLY,
        chars_per_token: float = 4.0,
    ) -> None:
        self._main = _Player("main", main)
        self._side = _Player("side", side)
        self._any_agent = _Player("agent", lambda _: DEFAULT_REPLY)
        self._agents = _prepared(agents or {})
        self._sessions = _prepared(sessions or {})
        self._by_conversation: dict[tuple[str, str], _Player] = {}
        self._on_exhausted: Answer | None = None if on_exhausted == "fail" else as_answer(on_exhausted)
        self._chars_per_token = chars_per_token
        self._requests: list[RecordedRequest] = []
        self._failures: list[Exception] = []
        """What functions of scripts raised."""
        self._changed = threading.Condition()
        self._ids = itertools.count(1)
        self._server: MessagesServer | None = None
        self._sandbox: Sandbox | None = None

    def __repr__(self) -> str:
        where = self._server.url if self._server else "not running"
        return f"<ScriptedModel {where}, {len(self._requests)} requests>"

    # Running

    def start(self) -> Self:
        """Listen on a free port of 127.0.0.1."""
        if self._server is None:
            self._server = MessagesServer(self)
            self._server.start()
        return self

    def close(self) -> None:
        """Stop listening and remove the temporary home. Idempotent; blocks for some milliseconds."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.remove()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()
        self._tell_failures(exc[1])

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: "TracebackType | None"
    ) -> None:
        with CancelScope(shield=True):
            await to_thread.run_sync(self.close)
        self._tell_failures(exc)

    @property
    def url(self) -> str:
        """The base URL, for `ANTHROPIC_BASE_URL`. Raises RuntimeError while the model is not running."""
        if self._server is None:
            raise RuntimeError("the scripted model is not running; use `with ScriptedModel(...) as model:`")
        return self._server.url

    # For the CLI

    @property
    def sandbox(self) -> Sandbox:
        """The temporary home and working directory, made on first use and removed by `close()`."""
        if self._sandbox is None:
            self._sandbox = Sandbox()
        return self._sandbox

    def environment(self, **overrides: str) -> dict[str, str]:
        """Give the whole environment for a CLI that talks to this model and nobody else."""
        return self.sandbox.environment(self.url) | overrides

    def options(self, **overrides: Any) -> "ClientOptions":
        """Give options for a client whose CLI talks to this model: clean environment, temporary home and directory.

        Permissions are bypassed unless `permission_mode` says otherwise. `env` is added to the environment. Every
        other keyword is an option of `ClientOptions`.
        """
        from claude_agent_py.options.client_options import ClientOptions

        env = self.environment(**overrides.pop("env", {}))
        defaults = {
            "inherit_env": False,
            "env": env,
            "cwd": self.sandbox.cwd,
            "permission_mode": "bypassPermissions",
        }
        return ClientOptions(**(defaults | overrides))

    # What was asked

    @property
    def requests(self) -> list[RecordedRequest]:
        """All `POST /v1/messages` so far, in the order in which they came."""
        with self._changed:
            return list(self._requests)

    def requests_of(self, agent: str) -> list[RecordedRequest]:
        """The requests that one script answered: `main`, a key of `agents` or `sessions`, `agent`, `side`."""
        return [request for request in self.requests if request.agent == agent]

    async def wait_for_requests(
        self, count: int, *, agent: str | None = None, timeout: float = 10.0
    ) -> list[RecordedRequest]:
        """Wait until so many requests have come (those of one script, if named), and give them.

        Raises TimeoutError after `timeout` seconds, saying what has come instead.
        """

        def found() -> list[RecordedRequest]:
            return [request for request in self._requests if agent in (None, request.agent)]

        of = f" of {agent!r}" if agent else ""
        try:
            await wait_in_thread(self._changed, lambda: len(found()) >= count, timeout, f"{count} requests{of}")
        except TimeoutError as error:
            seen = [request.agent for request in self.requests]
            raise TimeoutError(f"{error}; came: {seen}") from None
        with self._changed:
            return found()

    # Backend of the server

    def answer(self, body: dict[str, Any], headers: Mapping[str, str]) -> Answer:
        """Decide the answer to a request, and record it."""
        with self._changed:
            request = RecordedRequest(body=body, headers=headers, index=len(self._requests))
            player = self._player(request)
            request = RecordedRequest(body=body, headers=headers, index=request.index, agent=player.name)
            self._requests.append(request)
            answer = player.next(request) if player.function is None else None
            self._changed.notify_all()
        if player.function is not None:
            return self._called(player.function, request)
        return answer or self._exhausted(player.name)

    def _called(self, function: Callable[[RecordedRequest], LooseAnswer], request: RecordedRequest) -> Answer:
        """Call a script. What it raises is seen in the run that it breaks, and by the test when the model closes."""
        try:
            return as_answer(function(request))
        except Exception as error:
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # begin with the script itself
            with self._changed:
                self._failures.append(error)
            shown = "".join(traceback.format_exception(error)).strip()
            return _broken(f"the script of {request.agent!r} raised {type(error).__name__}: {error}\n{shown}")

    def _tell_failures(self, failure: object) -> None:
        """Show the test what its scripts raised: as a note at its own exception, or else as an exception.

        Raises:
            Exception: The first that a script raised.
        """
        raised, self._failures = self._failures, []
        if isinstance(failure, BaseException):
            for error in raised:
                shown = "".join(traceback.format_exception(error)).strip()
                failure.add_note(f"A script of the model raised:\n{shown}")
        elif raised:
            raise raised[0]

    def count_tokens(self, body: dict[str, Any]) -> int:
        """Guess the number of tokens from the size of the request."""
        return max(1, round(len(str(body.get("messages", ""))) / self._chars_per_token))

    def new_id(self, prefix: str) -> str:
        """Make an id that this model has not used before."""
        return f"{prefix}scripted{next(self._ids):016d}"

    def _player(self, request: RecordedRequest) -> "_Player":
        match request.conversation:
            case "side":
                return self._side
            case "agent":
                identity = request.agent_id or request.prompt
                return self._in_conversation(request, identity, self._agents) or self._any_agent
            case _:
                return self._in_conversation(request, request.session_id, self._sessions) or self._main

    def _in_conversation(
        self, request: RecordedRequest, identity: str, scripts: Mapping[Match, PreparedScript]
    ) -> "_Player | None":
        """Give the script of this conversation: the one it began with, else the first whose key fits."""
        known = self._by_conversation.get((request.conversation, identity))
        if known is not None:
            return known
        for match, script in scripts.items():
            if _fits(match, request):
                player = _Player(_name(match), script)
                return self._by_conversation.setdefault((request.conversation, identity), player)
        return None

    def _exhausted(self, name: str) -> Answer:
        return self._on_exhausted or _broken(
            f"the script of {name!r} has run out; give it more replies, or another on_exhausted"
        )


class _Player:
    """A script and how far it was played."""

    def __init__(self, name: str, script: object) -> None:
        self.name = name
        prepared = _answers(script)
        self.function = prepared if callable(prepared) else None
        self._left = iter(()) if callable(prepared) else iter(prepared)
        self._refused: tuple[Answer, tuple[int, str]] | None = None

    def next(self, request: RecordedRequest) -> Answer | None:
        """Give the next answer, or the last one again where it refused this very question; None at the end."""
        if self._refused and self._refused[1] == request.position:
            return self._refused[0]
        answer = next(self._left, None)
        refuses = isinstance(answer, Failure) and not answer.is_retried
        self._refused = (answer, request.position) if answer and refuses else None
        return answer


def _broken(message: str) -> Failure:
    """Give an error that the CLI shows at once and does not try to avoid."""
    return Failure(HTTPStatus.GONE, message)


def _prepared(scripts: Mapping[Any, object]) -> "dict[Match, PreparedScript]":
    for match in scripts:
        if not isinstance(match, str | re.Pattern) and not callable(match):
            raise TypeError(f"a conversation is found by a text, a pattern or a function, not by {match!r}")
    return {match: _answers(script) for match, script in scripts.items()}


def _answers(script: object) -> "PreparedScript":
    if callable(script):
        return cast("Callable[[RecordedRequest], LooseAnswer]", script)
    if isinstance(script, str) or not isinstance(script, Sequence):
        return [as_answer(script)]
    return [as_answer(loose) for loose in script]


def _fits(match: Match, request: RecordedRequest) -> bool:
    if isinstance(match, str):
        return match in request.prompt
    if isinstance(match, re.Pattern):
        return match.search(request.prompt) is not None
    return match(request)


def _name(match: Match) -> str:
    if isinstance(match, str):
        return match
    return match.pattern if isinstance(match, re.Pattern) else getattr(match, "__name__", "agent")

"""`ScriptedModel`: a Messages API on loopback that answers the real CLI from a script.

A request is assigned to a script by the CLI's headers and by the first prompt of its conversation. Requests outside the
conversations (titles, summaries) do not consume a script.
"""

import itertools
import os
import re
import secrets
import shutil
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, cast

from anyio import CancelScope, to_thread

from claude_agent_py._base.private_files import temporary_folder
from claude_agent_py.hooks import Hooks
from claude_agent_py.options import ClientOptions
from claude_agent_py.testing.messages_server import MessagesServer
from claude_agent_py.testing.requests import RecordedRequest
from claude_agent_py.testing.script import Answer, AnyScript, Failure, LooseAnswer, Reply, as_answer, wait_in_thread
from claude_agent_py.wire import JSONObject

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    # Lets root bypass permissions.
    "IS_SANDBOX": "1",
    # Adds the class of each request as a header.
    "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1",
}
"""Variables that limit the CLI's traffic to the model, and make it label its requests."""

INHERITED = (
    "PATH", "LANG", "LC_ALL", "TZ", "TERM", "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "WINDIR",
    "CLAUDE_CODE_GIT_BASH_PATH",
)  # fmt: skip
"""Inherited variables: programs need them, and they reveal nothing about the user."""


class Sandbox:
    """A temporary home, working directory and clean environment for one or more CLIs.

    The user's own configuration, sessions and credentials are not visible inside. Call `remove` after the processes of
    the CLIs have ended.
    """

    def __init__(self) -> None:
        self.root: Path = Path(tempfile.mkdtemp(prefix="claude-agent-py-", dir=temporary_folder())).resolve()
        self.home: Path = self.root / "home"
        self.cwd: Path = self.root / "work"
        self.config_dir: Path = self.home / ".claude"
        self.temp: Path = self.root / "tmp"
        for directory in (self.home, self.cwd, self.config_dir, self.temp):
            directory.mkdir()

    @property
    def homes(self) -> dict[str, str]:
        """The variables that name the temporary home."""
        return {"HOME": str(self.home), "USERPROFILE": str(self.home), "CLAUDE_CONFIG_DIR": str(self.config_dir)}

    def environment(self, base_url: str) -> dict[str, str]:
        """Return the complete environment for a CLI that uses the Messages API at `base_url`."""
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {
            **inherited,
            **QUIET,
            **self.homes,
            "CLAUDE_CODE_TMPDIR": str(self.temp),
            "TMPDIR": str(self.temp),
            "TEMP": str(self.temp),
            "TMP": str(self.temp),
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": "sk-ant-scripted",
        }

    def remove(self) -> None:
        """Delete the directories. Errors are ignored: a CLI that is still running may recreate files."""
        shutil.rmtree(self.root, ignore_errors=True)


Match: TypeAlias = str | re.Pattern[str] | Callable[[RecordedRequest], bool]
"""Selects a conversation: a text or a pattern found in its first prompt, or a function of the request."""

ScriptFunction: TypeAlias = Callable[[RecordedRequest], LooseAnswer]
PreparedScript: TypeAlias = Sequence[Answer] | ScriptFunction

DEFAULT_REPLY = Reply("Done.")


def answer_side_request(request: RecordedRequest) -> Reply:
    """Answer a request outside the conversations, so that the CLI continues."""
    if request.request_class == "compaction":
        return Reply("<summary>A scripted summary of the conversation.</summary>")
    return DEFAULT_REPLY


class ScriptedModel:
    """A scripted Messages API. Use it as a context manager, with `with` or `async with`.

    `main` answers the main conversation, and `agents` the conversations of subagents. A key of `agents` is matched
    against the first prompt: a text that it contains, a compiled pattern, or a function of the request; the first match
    wins. Every subagent plays its script from the start, even if several match the same key; one that matches no key
    gets `Done.` for every request. `sessions` does the same for main conversations when several CLIs share a model;
    `main` answers the others.

    The values of `agents` and `sessions` have the same type as `main`. An invalid item raises TypeError.

    After the last answer of a sequence, `on_exhausted` answers all further requests. With `"fail"` that is an error
    without a retry, so that the run fails with a message that names the script.

    If a function of a script raises, the run fails with an error that shows the traceback, and leaving the `with` block
    raises the exception; if another exception leaves the block, the traceback is added to it as a note.
    """

    def __init__(
        self,
        main: AnyScript = (),
        *,
        agents: Mapping[Any, object] | None = None,
        sessions: Mapping[Any, object] | None = None,
        side: AnyScript = answer_side_request,
        on_exhausted: LooseAnswer | Literal["fail"] = DEFAULT_REPLY,
    ) -> None:
        self._main = _Player("main", main)
        self._side = _Player("side", side)
        self._any_agent = _Player("agent", lambda _: DEFAULT_REPLY)
        self._agents = _prepare_scripts(agents or {})
        self._sessions = _prepare_scripts(sessions or {})
        self._by_conversation: dict[tuple[str, str], _Player] = {}
        self._on_exhausted: Answer | None = None if on_exhausted == "fail" else as_answer(on_exhausted)
        self._requests: list[RecordedRequest] = []
        self._failures: list[Exception] = []
        """Exceptions raised by functions of scripts."""
        self._changed = threading.Condition()
        self._id_numbers = itertools.count(1)
        self._id_base = secrets.token_hex(4)
        self._server: MessagesServer | None = None
        self._sandbox: Sandbox | None = None

    def __repr__(self) -> str:
        where = self._server.url if self._server else "not running"
        return f"<ScriptedModel {where}, {len(self._requests)} requests>"

    # Running

    def start(self) -> Self:
        """Listen on a free port of 127.0.0.1."""
        if self._server is None:
            self._server = MessagesServer(self.answer, self.new_id)
            self._server.start()
        return self

    def close(self) -> None:
        """Stop listening and remove the temporary home. Idempotent; blocks for a few milliseconds."""
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
        self._raise_failures(exc[1])

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(self, *exc: object) -> None:
        with CancelScope(shield=True):
            await to_thread.run_sync(self.close)
        self._raise_failures(exc[1])

    @property
    def url(self) -> str:
        """The base URL, for `ANTHROPIC_BASE_URL`. Raises RuntimeError while the model is not running."""
        if self._server is None:
            raise RuntimeError("the scripted model is not running; use `with ScriptedModel(...) as model:`")
        return self._server.url

    # For the CLI

    @property
    def sandbox(self) -> Sandbox:
        """The temporary home and working directory, created on first use and removed by `close()`."""
        if self._sandbox is None:
            self._sandbox = Sandbox()
        return self._sandbox

    def environment(self, **overrides: str) -> dict[str, str]:
        """Return the complete environment for a CLI that uses this model."""
        return self.sandbox.environment(self.url) | overrides

    def options(self, **overrides: Any) -> ClientOptions:
        """Return options for a client that uses this model, with a clean environment and temporary directories.

        `env` is added to the environment. The other keywords are options of `ClientOptions`; `permission_mode`
        defaults to `bypassPermissions`, and to `default` if something answers permission prompts: `can_use_tool`,
        `interactions`, `permission_prompts="host"`, `permission_prompt_tool_name` or a hook for `PermissionRequest`.
        With `home`, the session has that home instead of the temporary one.
        """
        env = self.environment(**overrides.pop("env", {}))
        if overrides.get("home"):
            env = {name: value for name, value in env.items() if name not in self.sandbox.homes}
        defaults = {
            "inherit_env": False,
            "env": env,
            "cwd": self.sandbox.cwd,
            "permission_mode": "default" if _answers_prompts(overrides) else "bypassPermissions",
        }
        return ClientOptions(**(defaults | overrides))

    # Recorded requests

    @property
    def requests(self) -> list[RecordedRequest]:
        """All `POST /v1/messages` so far, in order of arrival."""
        with self._changed:
            return list(self._requests)

    def requests_of(self, agent: str) -> list[RecordedRequest]:
        """Return the requests that a script answered: `main`, a key of `agents` or `sessions`, `agent` or `side`."""
        return [request for request in self.requests if request.agent == agent]

    async def wait_for_requests(
        self, count: int, *, agent: str | None = None, timeout: float = 60.0
    ) -> list[RecordedRequest]:
        """Wait until `count` requests have arrived, in all or for the script `agent`, and return them.

        Raises TimeoutError after `timeout` seconds; its message lists the requests that arrived.
        """

        def found() -> list[RecordedRequest]:
            return [request for request in self._requests if agent in (None, request.agent)]

        of = f" of {agent!r}" if agent else ""
        try:
            await wait_in_thread(self._changed, lambda: len(found()) >= count, timeout, f"{count} requests{of}")
        except TimeoutError as error:
            seen = [request.agent for request in self.requests]
            raise TimeoutError(f"{error}; received: {seen}") from None
        with self._changed:
            return found()

    # For the server

    def answer(self, body: JSONObject, headers: Mapping[str, str]) -> Answer:
        """Record a request and return its answer."""
        with self._changed:
            request = RecordedRequest(body=body, headers=headers, index=len(self._requests))
            player = self._select_player(request)
            request = replace(request, agent=player.name)
            self._requests.append(request)
            item = player.next(request)
            self._changed.notify_all()
        if callable(item):
            return self._call_function(item, request)
        exhausted = f"the script of {player.name!r} has run out; add replies or change on_exhausted"
        return item or self._on_exhausted or _build_failure(exhausted)

    def _call_function(self, function: ScriptFunction, request: RecordedRequest) -> Answer:
        """Call a function of a script. If it raises, the run fails, and closing the model raises the exception."""
        try:
            return as_answer(function(request))
        except Exception as error:
            # Let the traceback start at the script, not at this method.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            with self._changed:
                self._failures.append(error)
            shown = "".join(traceback.format_exception(error)).strip()
            return _build_failure(f"the script of {request.agent!r} raised {type(error).__name__}: {error}\n{shown}")

    def _raise_failures(self, failure: object) -> None:
        """Add exceptions of scripts as notes to the exception that leaves the block, or raise the first."""
        raised, self._failures = self._failures, []
        if isinstance(failure, BaseException):
            for error in raised:
                shown = "".join(traceback.format_exception(error)).strip()
                failure.add_note(f"A script of the model raised:\n{shown}")
        elif raised:
            raise raised[0]

    def new_id(self, prefix: str) -> str:
        """Return an id that no model has used before, also one that answered earlier in the same conversation."""
        return f"{prefix}scripted{self._id_base}{next(self._id_numbers):08d}"

    def _select_player(self, request: RecordedRequest) -> "_Player":
        match request.conversation:
            case "side":
                return self._side
            case "agent":
                identity = request.agent_id or request.prompt
                return self._find_player(request, identity, self._agents) or self._any_agent
            case _:
                return self._find_player(request, request.session_id, self._sessions) or self._main

    def _find_player(
        self, request: RecordedRequest, identity: str, scripts: Mapping[Match, PreparedScript]
    ) -> "_Player | None":
        """Return the player of a conversation. A new conversation gets the first matching script."""
        known = self._by_conversation.get((request.conversation, identity))
        if known is not None:
            return known
        for match, script in scripts.items():
            if _matches(match, request):
                player = _Player(_name_script(match), script)
                return self._by_conversation.setdefault((request.conversation, identity), player)
        return None


class _Player:
    """A script and its position."""

    def __init__(self, name: str, script: object) -> None:
        self.name = name
        prepared = _prepare_script(script)
        self._left: Iterator[Answer | ScriptFunction] = (
            itertools.repeat(prepared) if callable(prepared) else iter(prepared)
        )
        self._refused: tuple[Failure, tuple[int, str]] | None = None

    def next(self, request: RecordedRequest) -> "Answer | ScriptFunction | None":
        """Return the next answer or the function that returns it, or None at the end.

        A repeated request gets the same failure.
        """
        if self._refused and self._refused[1] == request.position:
            return self._refused[0]
        item = next(self._left, None)
        self._refused = (item, request.position) if isinstance(item, Failure) and not item.is_retried else None
        return item


def _answers_prompts(options: JSONObject) -> bool:
    """Return whether something in the options answers permission prompts, which `bypassPermissions` never asks."""
    names = ("can_use_tool", "interactions", "permission_prompt_tool_name")
    is_handled = any(options.get(name) not in (None, False) for name in names)
    hooks = {event for event, _ in Hooks.of(options.get("hooks"))}
    return is_handled or options.get("permission_prompts") == "host" or "PermissionRequest" in hooks


def _build_failure(message: str) -> Failure:
    """Return an error that the CLI reports immediately, without a retry or a fallback."""
    return Failure(HTTPStatus.GONE, message)


def _prepare_scripts(scripts: Mapping[Any, object]) -> "dict[Match, PreparedScript]":
    for match in scripts:
        if not isinstance(match, str | re.Pattern) and not callable(match):
            raise TypeError(f"a key must be a text, a pattern or a function, not {match!r}")
    return {match: _prepare_script(script) for match, script in scripts.items()}


def _prepare_script(script: object) -> "PreparedScript":
    if callable(script):
        return cast("ScriptFunction", script)
    if isinstance(script, str) or not isinstance(script, Sequence):
        return [as_answer(script)]
    return [as_answer(loose) for loose in script]


def _matches(match: Match, request: RecordedRequest) -> bool:
    if isinstance(match, str):
        return match in request.prompt
    if isinstance(match, re.Pattern):
        return match.search(request.prompt) is not None
    return match(request)


def _name_script(match: Match) -> str:
    if isinstance(match, str):
        return match
    return match.pattern if isinstance(match, re.Pattern) else getattr(match, "__name__", "agent")

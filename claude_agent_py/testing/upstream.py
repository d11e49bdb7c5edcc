"""`Upstream`: forward the CLI's requests to a real Messages API and return complete answers."""

import contextlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from claude_agent_py._base.credentials import read_credentials
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.wire import JSONObject

ANTHROPIC: Final = "https://api.anthropic.com"
TIMEOUT: Final = 600.0
"""Seconds without a byte of the answer."""

NO_KEY: Final = (
    "to record a cassette, set it, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN (from `claude setup-token`), or log "
    "in with `claude`"
)
LOGIN_STANDIN: Final = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-stands-in"}
"""Variables that make the recorded CLI act as if it were logged in. It does not get the real login, but the API refuses
the real token unless the request has the headers of a logged-in CLI."""

NOT_SENT: Final = frozenset(
    {"host", "connection", "content-length", "accept-encoding", "x-api-key", "authorization", "transfer-encoding"}
)
"""Headers of the CLI's request that are not forwarded. The CLI has no key; `Upstream` adds it."""


@dataclass(frozen=True)
class Upstream:
    """A Messages API and the key for it."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(repr=False)
    """The key or token in `headers`."""
    is_login: bool = False
    """Whether `secret` is the token of a subscription's login."""

    @classmethod
    def from_environment(cls, url: str | None = None) -> "Upstream":
        """Return the API at `url`, by default `ANTHROPIC_BASE_URL`, with the key or login that the CLI would use.

        Raises OptionsError if neither a key nor a login exists, or the login has expired.
        """
        base = (url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC).rstrip("/")
        key = os.environ.get("ANTHROPIC_API_KEY")
        if key:
            return cls(base, {"x-api-key": key}, key)
        token = os.environ.get("ANTHROPIC_AUTH_TOKEN")
        if token:
            return cls(base, {"authorization": f"Bearer {token}"}, token)
        token = os.environ.get("CLAUDE_CODE_OAUTH_TOKEN") or _read_login_token()
        return cls(base, {"authorization": f"Bearer {token}"}, token, is_login=True)

    def send(self, body: Mapping[str, object], headers: Mapping[str, str]) -> JSONObject:
        """Send a request and return its answer: `{"message": ...}`, or `{"status": ..., "error": ...}`.

        Raises OSError if the API cannot be reached, or the answer breaks off.
        """
        sent = {name: value for name, value in headers.items() if name not in NOT_SENT}
        request = urllib.request.Request(  # noqa: S310 - the user names the URL
            f"{self.url}/v1/messages?beta=true",
            data=json.dumps(body).encode(),
            headers={**sent, **self.headers, "accept-encoding": "identity"},
        )
        try:
            with self._opener().open(request, timeout=TIMEOUT) as response:
                if "event-stream" not in response.headers.get("content-type", ""):
                    return {"message": json.load(response)}
                return join_events(_read_events(response))
        except urllib.error.HTTPError as error:
            with error:
                if error.code < HTTPStatus.BAD_REQUEST:
                    raise ConnectionError(f"{self.url} is not the API: it redirects (HTTP {error.code})") from None
                return _build_refusal(error)

    def _opener(self) -> urllib.request.OpenerDirector:
        if urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1"):
            return urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))
        return urllib.request.build_opener(_NoRedirects)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the other server would get the key."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Make no request."""


class _Login(msgspec.Struct, rename="camel"):
    access_token: str | None = None
    expires_at: float | None = None
    """Milliseconds since the epoch."""


class _Credentials(msgspec.Struct):
    login: _Login | None = msgspec.field(default=None, name="claudeAiOauth")


def _read_login_token() -> str:
    """Return the token of the CLI's login (`claude auth login`).

    Raises OptionsError if the login is missing or has expired. Does not renew it, which would log the CLI out.
    """
    given = os.environ.get("CLAUDE_CONFIG_DIR")
    credentials = read_credentials(os.environ, Path(given) if given else Path.home() / ".claude")
    login: _Login | None = None
    with contextlib.suppress(ValueError):
        login = msgspec.json.decode(credentials or "{}", type=_Credentials).login
    if login is None or not login.access_token:
        raise OptionsError(f"{NO_KEY}; replaying needs no key", option="ANTHROPIC_API_KEY")
    if login.expires_at and login.expires_at / 1000 <= time.time():
        raise OptionsError(
            "the login has expired: run `claude` once, which renews it", option="CLAUDE_CODE_OAUTH_TOKEN"
        )
    return login.access_token


def _build_refusal(error: urllib.error.HTTPError) -> JSONObject:
    try:
        details = json.loads(error.read()).get("error", {})
    except (ValueError, AttributeError):
        details = {}
    refusal: JSONObject = {"status": error.code, "error": details or {"type": "api_error", "message": str(error)}}
    after = error.headers.get("retry-after", "")
    if after.replace(".", "", 1).isdigit():
        refusal["retry_after"] = float(after)
    return refusal


def _read_events(lines: Any) -> Iterator[JSONObject]:
    for line in lines:
        if line.startswith(b"data:"):
            yield json.loads(line[5:])


def join_events(events: Iterator[JSONObject]) -> JSONObject:
    """Build the answer from the events of a stream. Raises OSError if the last event is missing."""
    message: JSONObject = {}
    blocks: dict[int, JSONObject] = {}
    for event in events:
        match event.get("type"):
            case "message_start":
                message = event["message"]
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                _apply_delta(blocks[event["index"]], event["delta"])
            case "message_delta":
                message |= event.get("delta", {})
                message["usage"] = {**message.get("usage", {}), **(event.get("usage") or {})}
            case "error":
                return {"status": 529, "error": event.get("error", {})}
            case "message_stop":
                return {"message": {**message, "content": [_finish_block(blocks[index]) for index in sorted(blocks)]}}
    raise ConnectionError("the answer broke off")


def _apply_delta(block: JSONObject, delta: Mapping[str, object]) -> None:
    match delta.get("type"):
        case "text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta":
            for field in delta.keys() & {"text", "thinking", "signature", "partial_json"}:
                block[field] = block.get(field, "") + delta[field]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]


def _finish_block(block: JSONObject) -> JSONObject:
    parts = block.pop("partial_json", "")
    return {**block, "input": json.loads(parts)} if parts else block

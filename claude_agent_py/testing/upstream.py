"""`Upstream`: send the CLI's requests on to a real Messages API and return its answers whole."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from claude_agent_py._errors import OptionsError

ANTHROPIC: Final = "https://api.anthropic.com"
TIMEOUT: Final = 600.0
"""Seconds without a byte of the answer."""

NOT_SENT: Final = frozenset(
    {"host", "connection", "content-length", "accept-encoding", "x-api-key", "authorization", "transfer-encoding"}
)
"""Headers of the CLI's request that are not sent on. The CLI has no key; `Upstream` adds it."""


@dataclass(frozen=True)
class Upstream:
    """A Messages API and the key for it."""

    url: str
    headers: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_environment(cls, url: str | None = None) -> "Upstream":
        """Return the API at `url`, by default that of `ANTHROPIC_BASE_URL`, with the key of the environment.

        Raises:
            OptionsError: The environment has no key.
        """
        if key := os.environ.get("ANTHROPIC_API_KEY"):
            headers = {"x-api-key": key}
        elif token := os.environ.get("ANTHROPIC_AUTH_TOKEN"):
            headers = {"authorization": f"Bearer {token}"}
        else:
            raise OptionsError("set it to record a cassette; replaying needs no key", option="ANTHROPIC_API_KEY")
        return cls((url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC).rstrip("/"), headers)

    def send(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """Send a request and return its answer: `{"message": ...}`, or `{"status": ..., "error": ...}`.

        Raises:
            OSError: The API cannot be reached, or the answer breaks off.
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
                return whole_answer(_events(response))
        except urllib.error.HTTPError as error:
            with error:
                return _refusal(error)

    def _opener(self) -> urllib.request.OpenerDirector:
        is_local = urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1")
        return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_local else []))


def _refusal(error: urllib.error.HTTPError) -> dict[str, Any]:
    try:
        told = json.loads(error.read()).get("error", {})
    except (ValueError, AttributeError):
        told = {}
    refusal: dict[str, Any] = {"status": error.code, "error": told or {"type": "api_error", "message": str(error)}}
    after = error.headers.get("retry-after", "")
    return refusal | ({"retry_after": float(after)} if after.replace(".", "", 1).isdigit() else {})


def _events(lines: Any) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith(b"data:"):
            yield json.loads(line[5:])


def whole_answer(events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Put the events of a stream together.

    Raises:
        OSError: The stream ends without its last event.
    """
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    for event in events:
        match event.get("type"):
            case "message_start":
                message = event["message"]
            case "content_block_start":
                blocks[event["index"]] = {**event["content_block"], "": []}
            case "content_block_delta":
                _add(blocks[event["index"]], event["delta"])
            case "message_delta":
                message |= event.get("delta", {})
                message["usage"] = {**message.get("usage", {}), **(event.get("usage") or {})}
            case "error":
                return {"status": 529, "error": event.get("error", {})}
            case "message_stop":
                return {"message": {**message, "content": [_closed(blocks[index]) for index in sorted(blocks)]}}
    raise ConnectionError("the answer broke off")


def _add(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    match delta.get("type"):
        case "input_json_delta":
            block[""].append(delta["partial_json"])
        case "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
        case "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
        case "signature_delta":
            block["signature"] = block.get("signature", "") + delta["signature"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]


def _closed(block: dict[str, Any]) -> dict[str, Any]:
    parts = "".join(block.pop(""))
    return {**block, "input": json.loads(parts)} if parts else block

"""A small OTLP receiver on loopback: takes traces as JSON and as protobuf."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver:
    """Keeps the spans that it gets, as their protobuf messages, with hexadecimal ids in `trace_of` and the like."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._spans: list[Any] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if self.path.endswith("/v1/traces"):
                    receiver.take(body, is_json="json" in self.headers.get("Content-Type", ""))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, body: bytes, *, is_json: bool) -> None:
        """Take an export request."""
        spans = spans_of_json(json.loads(body)) if is_json else _spans(ExportTraceServiceRequest.FromString(body))
        with self._changed:
            self._spans += spans
            self._changed.notify_all()

    def wait_for(self, name: str, count: int, *, timeout: float = 120.0) -> list[Any]:
        """Wait for spans with this name, and return them in the order of their starts."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while len(found := [span for span in self._spans if span.name == name]) < count:
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"{count} spans {name}; received: {[span.name for span in self._spans]}")
        return sorted(found, key=lambda span: int(span.start_time_unix_nano))


def spans_of_json(request: dict[str, Any]) -> list[Any]:
    """Return the spans of a request in JSON, whose ids are hexadecimal, unlike those of protobuf's own JSON."""
    made = json_format.ParseDict(_with_base64(request), ExportTraceServiceRequest())
    return _spans(made)


def _spans(request: Any) -> list[Any]:
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


def _with_base64(value: Any) -> Any:
    import base64

    if isinstance(value, list):
        return [_with_base64(one) for one in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64encode(bytes.fromhex(one)).decode() if key in ids else _with_base64(one)
        for key, one in value.items()
    }

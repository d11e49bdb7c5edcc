"""An MCP server over HTTP that wants an OAuth login, with its own authorization server, for tests of the sign-in."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "token-of-the-server"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def oauth(self) -> "OAuthServer":
        assert isinstance(self.server, OAuthServer)
        return self.server

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        url = self.oauth.url
        if path.startswith("/.well-known/oauth-protected-resource"):
            return self._send({"resource": f"{url}/mcp", "authorization_servers": [url]})
        if path.startswith("/.well-known/oauth-authorization-server"):
            return self._send(
                {
                    "issuer": url,
                    "authorization_endpoint": f"{url}/authorize",
                    "token_endpoint": f"{url}/token",
                    "registration_endpoint": f"{url}/register",
                    "revocation_endpoint": f"{url}/revoke",
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["authorization_code", "refresh_token"],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none"],
                }
            )
        return self._send({}, status=404 if path != "/mcp" else 405)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        path = urlsplit(self.path).path
        if path == "/register":
            return self._send({**json.loads(body), "client_id": "client-1"}, status=201)
        if path == "/token":
            self.oauth.codes += parse_qs(body).get("code", [])
            return self._send({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})
        if path == "/revoke":
            self.oauth.revoked += parse_qs(body).get("token", [])
            return self._send({})
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            where = f"{self.oauth.url}/.well-known/oauth-protected-resource"
            return self._send({}, status=401, **{"WWW-Authenticate": f'Bearer resource_metadata="{where}"'})
        return self._answer(json.loads(body))

    def _answer(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            return self._send(None, status=202)
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "open", "inputSchema": {"type": "object"}}]},
        }
        return self._send({"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})})

    def _send(self, value: Any, status: int = 200, **headers: str) -> None:
        content = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(content)


class OAuthServer(ThreadingHTTPServer):
    """The server, with what it has seen."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.codes: list[str] = []
        self.revoked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def oauth_server() -> Iterator[OAuthServer]:
    with OAuthServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()

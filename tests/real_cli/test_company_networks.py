"""What the CLI sends to gateways, to endpoints of clouds and to proxies, with the variables that the docs name."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from claude_agent_py import InvalidRequestError, RunError, run
from claude_agent_py.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli, pytest.mark.long]

REFUSAL = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "the gateway says no"}}'


class Gateway(ThreadingHTTPServer):
    """Refuses every request, and keeps its method, path and headers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        super().__init__(("127.0.0.1", 0), _Refusing)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Refusing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def refuse(self) -> None:
        assert isinstance(self.server, Gateway)
        self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((self.command, self.path, headers))
        self.send_response(502 if self.command == "CONNECT" else 400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(REFUSAL)))
        self.end_headers()
        self.wfile.write(REFUSAL)

    do_GET = do_POST = do_CONNECT = refuse

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def serving(gateway: Gateway) -> Iterator[Gateway]:
    thread = threading.Thread(target=gateway.serve_forever)
    thread.start()
    try:
        yield gateway
    finally:
        gateway.shutdown()
        gateway.server_close()
        thread.join()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with serving(Gateway()) as started:
        yield started


async def ask(env: dict[str, str]) -> RunError:
    """Run a prompt that is refused, with these variables, and return the error."""
    with ScriptedModel([]) as model:
        options = model.options(env={"CLAUDE_CODE_MAX_RETRIES": "0"} | env)
        with pytest.raises(RunError) as caught:
            await run("Hello", options)
        return caught.value


async def test_a_gateway_gets_the_token_and_the_headers(gateway: Gateway) -> None:
    env = {"ANTHROPIC_AUTH_TOKEN": "token", "ANTHROPIC_CUSTOM_HEADERS": "X-Team: blue"}
    error = await ask({"ANTHROPIC_BASE_URL": gateway.url, **env})
    assert isinstance(error, InvalidRequestError)
    assert "the gateway says no" in str(error)
    method, path, headers = gateway.seen[0]
    assert (method, path.partition("?")[0]) == ("POST", "/v1/messages")
    assert (headers["authorization"], headers["x-team"]) == ("Bearer token", "blue")


@pytest.mark.parametrize(
    ("env", "address", "path"),
    [
        (
            {"CLAUDE_CODE_USE_BEDROCK": "1", "CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1", "AWS_REGION": "eu-west-1"},
            "ANTHROPIC_BEDROCK_BASE_URL",
            "/model/the-model/invoke-with-response-stream",
        ),
        (
            {
                "CLAUDE_CODE_USE_VERTEX": "1",
                "CLAUDE_CODE_SKIP_VERTEX_AUTH": "1",
                "CLOUD_ML_REGION": "europe-west1",
                "ANTHROPIC_VERTEX_PROJECT_ID": "shop",
            },
            "ANTHROPIC_VERTEX_BASE_URL",
            "/projects/shop/locations/europe-west1/publishers/anthropic/models/the-model:streamRawPredict",
        ),
    ],
    ids=["bedrock", "vertex"],
)
async def test_a_cloud_is_called_by_its_own_paths(
    gateway: Gateway, env: dict[str, str], address: str, path: str
) -> None:
    await ask({**env, address: gateway.url, "ANTHROPIC_MODEL": "the-model"})
    assert path in [seen for _, seen, _ in gateway.seen]


async def test_a_proxy_is_used_unless_the_host_is_excluded(gateway: Gateway) -> None:
    error = await ask({"ANTHROPIC_BASE_URL": "https://gateway.invalid", "HTTPS_PROXY": gateway.url})
    assert [(method, path) for method, path, _ in gateway.seen][:1] == [("CONNECT", "gateway.invalid:443")]
    assert "ERR_PROXY_TUNNEL" in str(error)
    nowhere = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
    error = await ask({"ANTHROPIC_BASE_URL": gateway.url, **nowhere, "NO_PROXY": "127.0.0.1"})
    assert "the gateway says no" in str(error)


async def test_a_certificate_of_the_company_is_accepted_once_it_is_named(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    gateway = Gateway()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    gateway.socket = context.wrap_socket(gateway.socket, server_side=True)
    gateway.handle_error = lambda *_: None  # type: ignore[method-assign]  # the CLI hangs up on what it does not trust
    with serving(gateway):
        url = f"https://localhost:{gateway.server_address[1]}"
        error = await ask({"ANTHROPIC_BASE_URL": url})
        assert "DEPTH_ZERO_SELF_SIGNED_CERT" in str(error)
        error = await ask({"ANTHROPIC_BASE_URL": url, "NODE_EXTRA_CA_CERTS": str(certificate)})
        assert "the gateway says no" in str(error)

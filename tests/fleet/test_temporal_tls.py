"""A fleet on a Temporal server that only accepts TLS with a certificate of the client, as one for production does."""

import datetime
import ipaddress
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from anyio.abc import AnyByteStream, SocketAttribute
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from fleets import PATIENCE
from temporal_server import SharedServer, temporal_server as temporal_server

from claude_agent_py import ClientOptions
from claude_agent_py.errors import FleetError
from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import MemoryStore
from claude_agent_py.testing import FakeCLI, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL"),
]

VARIABLES = ("TEMPORAL_TLS_SERVER_CA_CERT_PATH", "TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_KEY_PATH")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._begin(self._subject, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.certificate = folder / f"{name}.pem"
        self._write(self.certificate, builder.sign(self._key, hashes.SHA256()))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Write a certificate for this machine and its key, and return their files."""
        key = ec.generate_private_key(ec.SECP256R1())
        here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._begin(subject, key).add_extension(x509.SubjectAlternativeName(here), critical=False)
        certificate, key_file = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        self._write(certificate, builder.sign(self._key, hashes.SHA256()))
        form, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(form, pkcs8, serialization.NoEncryption()))
        return certificate, key_file

    def _begin(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._subject)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        day = datetime.timedelta(days=1)
        return builder.not_valid_before(now - day).not_valid_after(now + day)

    @staticmethod
    def _write(path: Path, certificate: x509.Certificate) -> None:
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


@asynccontextmanager
async def tls_in_front_of(port: int, authority: Authority) -> AsyncIterator[int]:
    """Yield a port on which TLS with a certificate of the client is required, and that leads to another port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])

    async def serve(outer: AnyByteStream) -> None:
        async with outer, await anyio.connect_tcp("127.0.0.1", port) as inner, anyio.create_task_group() as group:
            group.start_soon(copy, outer, inner)
            group.start_soon(copy, inner, outer)

    raw = await anyio.create_tcp_listener(local_host="127.0.0.1")
    listener = TLSListener(raw, context, standard_compatible=False)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield raw.listeners[0].extra(SocketAttribute.local_port)
        group.cancel_scope.cancel()


async def copy(source: AnyByteStream, target: AnyByteStream) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for data in source:
            await target.send(data)
    await target.aclose()


async def test_a_worker_and_a_program_present_certificates(
    tmp_path: Path, temporal_server: SharedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = temporal_server.new_url()
    port, namespace = int(inner.rpartition(":")[2].partition("/")[0]), inner.rpartition("/")[2]
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    async with tls_in_front_of(port, ours) as outer:
        url = f"temporal://localhost:{outer}/{namespace}"
        for name, value in zip(VARIABLES, (ours.certificate, *theirs.issue("stranger")), strict=True):
            monkeypatch.setenv(name, str(value))
        async with Fleet(url) as stranger:
            with pytest.raises(FleetError, match=f"the Temporal server at localhost:{outer} does not answer"):
                await stranger.list()
        for name, value in zip(VARIABLES[1:], ours.issue("client"), strict=True):
            monkeypatch.setenv(name, str(value))
        program = FakeCLI(steps.turn("answered")).install(tmp_path / "cli")
        async with Fleet(url, store=MemoryStore()) as fleet:
            fleet.agent("worker", ClientOptions(cli_path=program))
            async with fleet.worker(folder=tmp_path / "ws"):
                session = await fleet.start("worker", "hello")
                assert (await session.result(timeout=PATIENCE)).text == "answered"

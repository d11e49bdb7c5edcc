"""Real servers for the tests of session stores, started for the tests that need them and stopped afterwards.

A test is skipped, with the reason, where the program or the package of its server is missing.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from stoppable_postgres import PostgresServer, wait_until


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def program(name: str, *folders: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", ""), *folders])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"there is no {name} on this machine")
    return found


# PostgreSQL -----------------------------------------------------------------------------------------------------------


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a PostgreSQL server."""
    pytest.importorskip("psycopg")
    folders = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    initdb, postgres = program("initdb", *folders), program("postgres", *folders)
    user = None
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # the server refuses to run as root
        import pwd

        user = "postgres"
        try:
            pwd.getpwnam(user)
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    server = PostgresServer(initdb, postgres, free_port(), user)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        server.remove()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Yield a PostgreSQL server that runs. A test that stops it starts it again."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server(postgres: PostgresServer) -> str:
    """Return the connection string of a PostgreSQL server."""
    return postgres.url


@pytest.fixture
def make_postgres_store(postgres_server: str, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    from claude_agent_py.sessions import PostgresStore

    made: list[PostgresStore] = []

    def make() -> PostgresStore:
        made.append(PostgresStore(postgres_server, schema=f"s{time.time_ns()}_{len(made)}"))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def a_postgres_store(postgres_server: str) -> Iterator[tuple[str, Any]]:
    from claude_agent_py.sessions import PostgresStore

    store = PostgresStore(postgres_server)
    yield postgres_server, store
    store.close()


# Redis ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a Redis server."""
    redis = pytest.importorskip("redis")
    port = free_port()
    command = [program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(
        [*command, "--dir", str(tmp_path_factory.mktemp("redis"))], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def ping() -> None:
        with redis.Redis(port=port) as client:
            client.ping()

    try:
        wait_until(ping, process)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        stop(process)


@pytest.fixture
def make_redis_store(redis_server: str) -> Iterator[Callable[[], Any]]:
    from claude_agent_py.sessions import RedisStore

    made: list[RedisStore] = []

    def make() -> RedisStore:
        made.append(RedisStore(redis_server, prefix=f"{time.time_ns()}:{len(made)}:"))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def a_redis_store(redis_server: str) -> Iterator[tuple[str, Any]]:
    from claude_agent_py.sessions import RedisStore

    store = RedisStore(redis_server)
    yield redis_server, store
    store.close()


# S3 -------------------------------------------------------------------------------------------------------------------


def s3_client(endpoint: str) -> Any:
    import boto3
    from botocore.config import Config

    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    config = Config(max_pool_connections=30)
    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", config=config, **keys)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the endpoint of a server that speaks S3."""
    for package in ("boto3", "moto", "flask"):
        pytest.importorskip(package)
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    endpoint = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: socket.create_connection(("127.0.0.1", port), 1).close(), process)
        wait_until(lambda: s3_client(endpoint).create_bucket(Bucket="sessions"), process)
        yield endpoint
    finally:
        stop(process)


@pytest.fixture
def make_s3_store(s3_server: str) -> Callable[[], Any]:
    from claude_agent_py.sessions import S3Store

    client = s3_client(s3_server)
    made = iter(range(1000))
    return lambda: S3Store("sessions", prefix=f"{time.time_ns()}/{next(made)}/", client=client)


@pytest.fixture
def a_s3_store(s3_server: str) -> tuple[str, Any]:
    from claude_agent_py.sessions import S3Store

    return f"{s3_server}/sessions", S3Store("sessions", client=s3_client(s3_server))

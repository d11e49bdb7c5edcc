"""Fixtures that every test may use. Async tests run on both backends that the package supports.

Where the order of awaits matters most (`BOTH_BACKENDS`), an async test runs on asyncio and on trio, and in `transport`
also on uvloop, which watches the pipes. Elsewhere it runs on one of them, half of the tests on either, and in the
folders of `LATER_ON_THE_OTHER` on the other one as a long test.
A test with the real CLI runs on one, because its process is expensive. The marks `each_backend` and `one_backend` say
otherwise; with the real CLI, `each_backend` runs on the other one as a long test.
"""

import gc
import logging
import os
import signal
import sys
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Keep compiled code even where Python is told not to: otherwise each worker compiles all tests, and each interpreter
# that a test starts all of the package.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import hypothesis
import pytest
from bounds import add_to_bound
from child_clis import agent_of as agent_of
from forks import SHORT_LIVED
from peers import UVLOOP, nothing_left as nothing_left, start as start, start_process as start_process
from store_servers import (
    a_postgres_store as a_postgres_store,
    a_redis_store as a_redis_store,
    a_s3_store as a_s3_store,
    make_postgres_store as make_postgres_store,
    make_redis_store as make_redis_store,
    make_s3_store as make_s3_store,
    postgres as postgres,
    postgres_server as postgres_server,
    redis_server as redis_server,
    s3_server as s3_server,
)

import claude_agent_py

PACKAGE = Path(claude_agent_py.__file__).parent

gc.disable()  # while tests are collected, which makes no garbage

# No deadlines: times vary between machines. `make properties` runs many examples.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=500)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Heed Ctrl-C: a background job of a shell ignores it, and so would the programs that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection(session: pytest.Session) -> None:
    """Have each worker begin with other tests: it compiles a share of them, and finds the others compiled."""
    config = session.config
    if hasattr(config, "workerinput") and config.args_source is config.ArgsSource.TESTPATHS:
        files = sorted(Path(__file__).parent.rglob("test_*.py"))
        first = len(files) * int(config.workerinput["workerid"][2:]) // config.workerinput["workercount"]
        config.args[:] = map(str, files[first:] + files[:first])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give all workers the tests in the same order."""
    if hasattr(config, "workerinput") and config.args_source is config.ArgsSource.TESTPATHS:
        items.sort(key=lambda item: item.path)


def pytest_collection_finish() -> None:
    """Keep the garbage collector out of what lasts anyway, all tests and modules: to go through them takes 0.4 s."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def little_garbage(request: pytest.FixtureRequest) -> None:
    """Keep the garbage collector out of what has been imported since, where it is called in every test."""
    if hasattr(request.module, "gc"):
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def short_lived_clis() -> Iterator[None]:
    """Have the real CLI of scripted models prepared for a short life, as in the programs of `forks.py`."""
    with pytest.MonkeyPatch.context() as patch:
        add_to_bound(patch, "QUIET", SHORT_LIVED)
        yield


class SwallowedFaults(logging.Handler):
    """Collects the faults of the package itself that a guard logged, so that a session continues."""

    KINDS = (AttributeError, TypeError, LookupError, NameError, AssertionError, ArithmeticError)

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and isinstance(record.exc_info[1], self.KINDS):
            *_, place = traceback.walk_tb(record.exc_info[2])
            if Path(place[0].f_code.co_filename).is_relative_to(PACKAGE):
                self.found.append("".join(traceback.format_exception(record.exc_info[1])))


@pytest.fixture(autouse=True)
def swallowed_faults() -> Iterator[list[str]]:
    """Fail a test in which the package made a fault that it survived. A test that causes one clears this list."""
    handler, logger = SwallowedFaults(), logging.getLogger("claude_agent_py")
    logger.addHandler(handler)
    yield handler.found
    logger.removeHandler(handler)
    assert not handler.found, handler.found[0]


BACKENDS = ["asyncio", "trio"]
BOTH_BACKENDS = frozenset({"contracts", "runtime", "tests", "transport"})
"""The folders whose async tests run on both backends; `tests` stands for the modules at its top."""
LATER_ON_THE_OTHER = frozenset({"bad_peers", "children", "pool", "tasks"})
"""The folders whose async tests run on one backend in `make test`, and on the other one in `make long`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the backends of an async test that does not say by itself where it runs."""
    if "anyio_backend" not in metafunc.fixturenames or hasattr(metafunc.module, "anyio_backend"):
        return
    definition = metafunc.definition
    if any("anyio_backend" in str(mark.args[0]) for mark in definition.iter_markers("parametrize")):
        return
    marked = definition.get_closest_marker
    folder = "" if marked("real_cli") or marked("one_backend") else definition.path.parent.name
    number = zlib.crc32(definition.name.encode()) % 2
    one, other = BACKENDS[number], BACKENDS[1 - number]
    chosen: list[Any] = [one]
    if (marked("each_backend") and not marked("real_cli")) or folder in BOTH_BACKENDS:
        chosen = [*BACKENDS, *([UVLOOP] if folder == "transport" else [])]
    elif marked("each_backend") or folder in LATER_ON_THE_OTHER:
        chosen = [one, pytest.param(other, marks=pytest.mark.long)]
    metafunc.parametrize("anyio_backend", chosen, indirect=True)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Run the async test on the backend that is chosen for it."""
    return request.param


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Switch between threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)

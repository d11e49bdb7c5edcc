"""Shared fixtures. Async tests run on asyncio and trio."""

import sys
from collections.abc import Iterator

import hypothesis
import pytest
from child_clis import agent_of as agent_of
from peers import nothing_left as nothing_left, start as start, start_process as start_process

hypothesis.settings.register_profile("any machine", deadline=None)  # times vary too much between machines
hypothesis.settings.load_profile("any machine")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run the async test once on each backend."""
    backend: str = request.param
    return backend


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Switch between threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)

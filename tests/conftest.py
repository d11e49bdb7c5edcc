"""Fixtures that every test may use. Async tests run on both backends that the package supports."""

import sys
from collections.abc import Iterator

import hypothesis
import pytest
from child_clis import agent_of as agent_of
from peers import nothing_left as nothing_left, start as start, start_process as start_process

hypothesis.settings.register_profile("any machine", deadline=None)  # how long an example takes says nothing of it
hypothesis.settings.load_profile("any machine")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run the async test once on each backend."""
    backend: str = request.param
    return backend


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)

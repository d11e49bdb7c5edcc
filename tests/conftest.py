"""Fixtures that every test may use. Async tests run on both backends that the package supports."""

import hypothesis
import pytest
from child_clis import agent_of as agent_of
from peers import nothing_left as nothing_left
from peers import start as start
from peers import start_process as start_process

hypothesis.settings.register_profile("any machine", deadline=None)  # how long an example takes says nothing of it
hypothesis.settings.load_profile("any machine")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run the async test once on each backend."""
    backend: str = request.param
    return backend

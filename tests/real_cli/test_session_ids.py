"""Which session it is, on the real CLI: known from the start, and an error of its own where it cannot be had."""

import uuid
from typing import Any

import pytest

from claude_agent_py import Client, CLIStartError, SessionError
from claude_agent_py.errors import SessionInUseError, SessionNotFoundError
from claude_agent_py.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


@pytest.mark.parametrize(
    "unknown", [str(uuid.uuid5(uuid.NAMESPACE_DNS, "unknown")), pytest.param("no such title", marks=pytest.mark.long)]
)
async def test_a_session_that_is_not_there_cannot_be_resumed(unknown: str) -> None:
    async with ScriptedModel([]) as model:
        with pytest.raises(SessionNotFoundError, match=unknown) as caught:
            await Client(model.options(resume=unknown)).connect()
    assert caught.value.session_id == unknown
    assert isinstance(caught.value, SessionError)
    assert isinstance(caught.value.__cause__, CLIStartError)
    assert unknown in caught.value.__cause__.stderr_tail


@pytest.mark.parametrize("has_forks", [pytest.param(True, marks=pytest.mark.long), False], ids=["forks", "no forks"])
async def test_the_id_is_known_before_the_first_turn_where_it_was_given_unless_it_is_in_use(has_forks: bool) -> None:
    chosen, copied = str(uuid.uuid4()), str(uuid.uuid4())
    async with ScriptedModel(["one", "two", "three"]) as model:
        cases: list[tuple[dict[str, Any], str | None]] = [({"session_id": chosen}, chosen)]
        if has_forks:
            fork = {"resume": chosen, "fork_session": True}
            cases += [(fork, None), ({**fork, "session_id": copied}, copied)]
        for given, known in cases:
            async with Client(model.options(**given)) as client:
                assert client.session_id == known
                result = await client.query("hi")
                assert result.session_id == client.session_id
                assert known in (None, client.session_id)
                if "session_id" in given and "resume" not in given:
                    with pytest.raises(SessionInUseError, match=chosen) as caught:
                        await Client(model.options(session_id=chosen)).connect()
                    assert caught.value.session_id == chosen
                    assert isinstance(caught.value.__cause__, CLIStartError)

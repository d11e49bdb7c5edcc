"""`run_turn` on the real CLI: what it does with a prompt, and what it returns when it is called again."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from turns import paying, session_in

from claude_agent_py import Allow, ClientOptions
from claude_agent_py.durable import Done, Interrupted, TurnStop, Waiting, run_turn
from claude_agent_py.errors import OptionsError
from claude_agent_py.sessions import MemoryStore
from claude_agent_py.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


@pytest.mark.each_backend
async def test_a_prompt_is_asked_about_once_and_run_once(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    facts: list[Any] = []
    first, second = str(uuid4()), str(uuid4())
    with ScriptedModel(paying(ran)) as model, session_in(tmp_path, model, permission_mode="default") as session:
        waiting = await session.turn("pay", first, on_fact=facts.append)
        assert isinstance(waiting, Waiting)
        [question] = waiting.questions
        assert question.summary == f"Bash: echo once >> {ran}"
        assert session.clis() == []
        assert {"turn_started", "request_opened"} <= {fact.fact for fact in facts}

        requests = len(model.requests)
        assert await session.turn("pay", first) == waiting
        assert len(model.requests) == requests, "a question that is not answered needs no process"

        session.desk.answer(Allow())
        done = await session.turn("pay", first)
        assert isinstance(done, Done)
        assert (done.text, done.is_recovered) == ("it is paid", False)
        assert done.cost_usd is not None
        assert done.cost_usd > 0
        again = await session.turn("pay", first)
        assert again == Done(text="it is paid", prompt_uuid=done.prompt_uuid, is_recovered=True)
        assert ran.read_text() == "once\n"
        assert session.desk.states() == ["taken"]
        assert await session.count_prompts("pay") == 1

        stop = TurnStop()
        stop.interrupt()
        assert await session.turn("hello", second, stop=stop) == Interrupted(prompt_uuid=second)
        assert await session.count_prompts("hello") == 0


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"session_id": "one"}, "session_id"),
        ({"prompt_id": str(uuid4()).upper()}, "prompt_id"),
        ({"prompt": "  "}, "prompt"),
        ({"until": "later"}, "until"),
        ({"options": ClientOptions(resume=str(uuid4()))}, "resume"),
    ],
)
async def test_a_bad_argument_is_refused(change: dict[str, Any], option: str) -> None:
    given: dict[str, Any] = {"session_id": str(uuid4()), "prompt_id": str(uuid4()), "prompt": "hello"}
    given |= {"options": ClientOptions(), **change}
    with pytest.raises(OptionsError) as caught:
        await run_turn(given.pop("options"), store=MemoryStore(), **given)
    assert caught.value.option == option

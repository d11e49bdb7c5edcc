"""Sessions that wait for a person or for a rate limit: no process runs, and any worker goes on."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from fleets import (
    COST,
    PATIENCE,
    QUESTION,
    FleetSetUp,
    built,
    clis,
    events_of,
    fleet_in,
    given_options,
    until,
    until_state,
)

from claude_agent_py import Allow, ClientOptions, Deny
from claude_agent_py.testing import Failure, Reply, ScriptedModel, tool_use

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]

ASKING: dict[str, Any] = {"permission_mode": "default"}


def options(made: FleetSetUp, **more: Any) -> Any:
    return ClientOptions(inherit_env=False, **given_options(made.model, **more))


@pytest.mark.long
async def test_an_answer_that_comes_late_from_another_process_goes_to_any_worker(tmp_path: Path) -> None:
    def answer(request: Any) -> Any:
        if not request.tool_results:
            return Reply(tool_use("Bash", {"command": "touch made; echo ran-it", "description": "make"}))
        return f"result: {request.tool_results[-1]['content']}"

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        first = made.start_worker(options=ASKING, agent={"patience": 0.3})
        fleet.agent("worker")
        session = await fleet.start("worker", "make it")
        await until_state(session, "waiting")
        await until(lambda: not clis(model), "the process is given back")
        first.kill()
        first.wait()
        made.start_worker(options=ASKING, agent={"patience": 0.3})
        [question] = await session.interactions()
        assert (question.kind, question.summary) == ("permission", "Bash: touch made; echo ran-it")
        with pytest.raises(ValueError, match="Allow"):
            await session.answer(question.id, "maybe")
        assert await session.answer(question.id, Allow(), by="Ada")
        assert not await session.answer(question.id, Deny("too late"))
        result = await session.result(timeout=PATIENCE)
        assert result.text == "result: ran-it", made.logs()
        assert result.crashes == 0
        assert len(model.requests) == 3
        assert result.cost_usd == pytest.approx(3 * COST), "with the process before"
        assert (await fleet.metrics()).cost_usd == {"": pytest.approx(3 * COST)}
        events = await events_of(session)
        told = [event.data for event in events if event.kind == "interaction"]
        assert [one["state"] for one in told] == ["pending", "answered"]
        assert (told[0]["request"]["input"]["command"], told[1]["by"]) == ("touch made; echo ran-it", "Ada")
        states = [event.data["state"] for event in events if event.kind == "state"]
        assert states == ["queued", "running", "waiting", "queued", "running", "idle"]


@pytest.mark.long
async def test_a_quick_answer_keeps_the_process_and_a_question_is_asked_once(tmp_path: Path) -> None:
    with ScriptedModel(built) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        fleet.agent("quick", options(made), patience=100.0)
        fleet.agent("slow", options(made), patience=0.2)
        async with fleet.worker(folder=tmp_path / "ws"):
            quick = await fleet.start("quick", "build it")
            await until(quick.interactions, "it asks")
            [question] = await quick.interactions()
            assert (await quick.info()).state == "running"
            assert await quick.answer(question.id, ["release"])
            assert (await quick.result(timeout=PATIENCE)).text == "built release"
            slow = await fleet.start("slow", "build it")
            await until_state(slow, "waiting")
            [question] = await fleet.interactions()
            assert await slow.answer(question.id, ["release"])
            assert (await slow.result(timeout=PATIENCE)).text == "built release"
        assert await fleet.interactions() == []


@pytest.mark.long
async def test_a_model_that_would_word_its_question_anew_is_told_the_call_to_make(tmp_path: Path) -> None:
    """The call is not in the model's history, so that a model can only repeat it if it is told."""
    asked: list[str] = []

    def answer(request: Any) -> Any:
        if request.tool_results:
            return built(request)
        asked.append(request.last_user_text)
        told = asked[-1].partition("- AskUserQuestion ")[2].partition("\n")[0]
        anew = json.loads(json.dumps(QUESTION).replace("Which target?", f"Which one of them ({len(asked)})?"))
        return Reply(tool_use("AskUserQuestion", json.loads(told) if told else anew))

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        fleet.agent("slow", options(made), patience=0.2)
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("slow", "build it")
            await until_state(session, "waiting")
            [question] = await session.interactions()
            assert await session.answer(question.id, ["release"])
            assert (await session.result(timeout=PATIENCE)).text == "built release"
    assert len(asked) == 2
    assert "a person's answer, which has now arrived" in asked[1]


@pytest.mark.long
async def test_a_rate_limit_is_waited_for_without_a_process(tmp_path: Path) -> None:
    asked: list[float] = []
    resets_at = 0

    def answer(request: Any) -> Any:
        nonlocal resets_at
        resets_at = resets_at or int(time.time()) + 6
        asked.append(time.time())
        headers = {
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(resets_at),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
            "retry-after": "3600",
        }
        return Failure(429, headers=headers) if time.time() < resets_at else "after the reset"

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        env = {**model.environment(), "ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-scripted"}
        fleet.agent("worker", options(made, env=env))
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("worker", "think")

            async def is_put_off() -> bool:
                return (await session.info()).not_before > 0

            await until(is_put_off, "it waits for the reset")
            info = await session.info()
            assert (info.state, clis(model)) == ("queued", [])
            assert info.not_before > resets_at
            metrics = await fleet.metrics()
            assert (metrics.queued["rate_limit"], metrics.queued["ready"], metrics.rate_limits) == (1, 0, 1)
            outcome = await session.result(timeout=PATIENCE)
            assert (outcome.text, outcome.attempts) == ("after the reset", 0)
        assert [at for at in asked if at >= resets_at] == asked[1:]


@pytest.mark.long
async def test_a_prompt_that_waits_too_long_is_a_dead_letter(tmp_path: Path) -> None:
    from claude_agent_py.errors import FleetRunError

    reply = Reply(tool_use("Bash", {"command": "touch made", "description": "make"}))
    with ScriptedModel(lambda request: reply) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet(lease=1.0)
        fleet.agent("worker", options(made, **ASKING), patience=0.1, timeout=4.0)
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("worker", "make it")
            with pytest.raises(FleetRunError, match="RunTimeoutError: the prompt was not answered in time"):
                await session.result(timeout=PATIENCE)
            assert await session.interactions() == []
            assert (await session.info()).state == "failed"

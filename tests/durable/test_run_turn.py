"""`run_turn` on the real CLI: what it does with a prompt, and what it returns when it is called again."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from pydantic import BaseModel
from turns import PATIENCE, paying, session_in, until

from claude_agent_py import Allow, ClientOptions, verbatim
from claude_agent_py.durable import (
    Delta,
    Done,
    Failed,
    Interrupted,
    Later,
    MemoryDesk,
    TurnOutcome,
    TurnStop,
    Waiting,
    run_turn,
)
from claude_agent_py.errors import OptionsError
from claude_agent_py.journal import MessageAdded
from claude_agent_py.permissions import QuestionRecord
from claude_agent_py.sessions import MemoryStore, StoredSessions
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


class InterruptingDesk(MemoryDesk):
    """A desk at which a person interrupts the turn instead of answering."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = TurnStop()

    async def wait(self, question: QuestionRecord) -> None:
        self.stop.interrupt()
        await anyio.sleep_forever()


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
        desk = InterruptingDesk()
        assert await desk.ask(question) is None
        assert await session.turn("pay", first, desk=desk, stop=desk.stop, patience=PATIENCE) == Interrupted(
            prompt_uuid=first
        )
        assert await desk.pending() == []
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


@pytest.mark.parametrize("until_end", [pytest.param("question", marks=pytest.mark.long), "release"])
async def test_what_a_process_spent_before_it_was_ended_is_not_lost(tmp_path: Path, until_end: str) -> None:
    """Its outcome has it, the store has it, and the budget counts it."""
    ran, prompt, stop = tmp_path / "ran", str(uuid4()), TurnStop()
    is_asked = until_end == "question"
    more: Any = {"permission_mode": "default"} if is_asked else {}
    with (
        ScriptedModel(paying(ran, then="" if is_asked else "; sleep 300")) as model,
        session_in(tmp_path, model, **more) as session,
    ):
        ended: list[Any] = []

        async def run() -> None:
            ended.append(await session.turn("pay", prompt, stop=stop))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            if not is_asked:
                await until(ran.exists, "the command runs")
                stop.release()
        [first] = ended
        assert isinstance(first, Waiting if is_asked else Later)
        assert first.cost_usd > 0
        assert TurnOutcome.from_dict(first.to_dict()).cost_usd == first.cost_usd  # type: ignore[attr-defined]
        session.desk.answer(Allow())
        asked = len(model.requests)
        spent = await session.turn("pay", prompt, options={"max_budget_usd": first.cost_usd})
        assert isinstance(spent, Failed)
        assert (spent.error, len(model.requests)) == ("BudgetExceededError", asked)
        done = await session.turn("pay", prompt)
        assert isinstance(done, Done)
        assert done.cost_usd is not None
        each = first.cost_usd / asked
        assert first.cost_usd + done.cost_usd == pytest.approx(each * len(model.requests))
        stored = await StoredSessions(session.store(), project_key="durable").get(session.id)
        assert stored.usage.cost_usd == pytest.approx(first.cost_usd + done.cost_usd)


class Count(BaseModel):
    number: int


async def test_how_a_turn_ended_is_found_in_the_store(tmp_path: Path) -> None:
    """With structured output, without turns left, and after a subagent whose calls the store had before they ran."""
    subagent = {"description": "Count", "prompt": "SUB", "subagent_type": "general-purpose", "run_in_background": False}
    replies = [Reply(tool_use("StructuredOutput", {"number": 3})), Reply(tool_use("Agent", subagent)), "counted"]
    agents = {"SUB": [Reply(tool_use("Bash", {"command": "echo 1", "description": "Count"})), "one"]}
    with ScriptedModel(replies, agents=agents) as model, session_in(tmp_path, model) as session:
        first, second, third = str(uuid4()), str(uuid4()), str(uuid4())
        structured: Any = {"options": {"output_type": Count}}
        done = await session.turn("count", first, **structured)
        assert isinstance(done, Done)
        assert (done.text, done.output) == ('{"number":3}', {"number": 3})
        again = await session.turn("count", first, **structured)
        assert again == Done(text=done.text, output=done.output, prompt_uuid=first, is_recovered=True)

        full = await session.turn("delegate", second, options={"max_turns": 1})
        assert isinstance(full, Failed)
        assert full.error == "MaxTurnsError"
        again = await session.turn("delegate", second, options={"max_turns": 1})
        assert again == Failed(error="MaxTurnsError", reason="the turn reached max_turns", prompt_uuid=second)

        done = await session.turn("and now?", third)
        assert isinstance(done, Done)
        assert done.text == "counted"


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"session_id": "one"}, "session_id"),
        ({"prompt_id": str(uuid4()).upper()}, "prompt_id"),
        ({"prompt": "  "}, "prompt"),
        ({"until": "later"}, "until"),
        ({"options": ClientOptions(resume=str(uuid4()))}, "resume"),
        ({"options": ClientOptions(persist_session=False)}, "session_store"),
    ],
)
async def test_a_bad_argument_is_refused(change: dict[str, Any], option: str) -> None:
    given: dict[str, Any] = {"session_id": str(uuid4()), "prompt_id": str(uuid4()), "prompt": "hello"}
    given |= {"options": ClientOptions(), **change}
    with pytest.raises(OptionsError) as caught:
        await run_turn(given.pop("options"), store=MemoryStore(), **given)
    assert caught.value.option == option


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param({"/compact": ""}, marks=pytest.mark.long),
        pytest.param({"/fix now": "fixed", "/context": ""}, marks=pytest.mark.long),
    ],
    ids=" and ".join,
)
async def test_a_prompt_keeps_its_answer_when_commands_follow(tmp_path: Path, commands: dict[str, str]) -> None:
    with (
        ScriptedModel(lambda request: "fixed" if "Fix it" in request.last_user_text else "answered") as model,
        session_in(tmp_path, model) as session,
    ):
        assert model.sandbox.config_dir is not None
        folder = model.sandbox.config_dir / "commands"
        folder.mkdir()
        (folder / "fix.md").write_text("Fix it: $ARGUMENTS")
        first = str(uuid4())
        done = await session.turn("a question", first)
        assert isinstance(done, Done)
        for command, text in commands.items():
            after = await session.turn(command, str(uuid4()))
            assert isinstance(after, Done), command
            assert text in after.text
            requests = len(model.requests)
            again = await session.turn("a question", first)
            assert isinstance(again, Done)
            assert (again.text, again.is_recovered) == ("answered", True)
            assert len(model.requests) == requests


async def test_a_command_that_the_cli_ran_itself_is_answered(tmp_path: Path) -> None:
    with ScriptedModel() as model, session_in(tmp_path, model) as session:
        await session.turn("a question", str(uuid4()))
        for command, output in {"/model haiku": "Set model to", "/compact": "Compacted", "/cost": "cost"}.items():
            prompt = str(uuid4())
            done = await session.turn(command, prompt)
            assert isinstance(done, Done)
            requests = len(model.requests)
            again = await session.turn(command, prompt)
            assert isinstance(again, Done)
            assert again.is_recovered, command
            assert output in again.text
            assert done.text in ("", again.text)
            assert len(model.requests) == requests


@pytest.mark.long
async def test_a_command_that_begins_another_conversation_fails(tmp_path: Path) -> None:
    with ScriptedModel() as model, session_in(tmp_path, model) as session:
        await session.turn("a question", str(uuid4()))
        for prompt in ("/clear", "/new thoughts", "/clear\ufeffnow", [{"type": "text", "text": "/reset"}]):
            failed = await session.turn(prompt, str(uuid4()))
            assert isinstance(failed, Failed), prompt
            assert (failed.error, "another conversation" in failed.reason) == ("OptionsError", True)
        assert isinstance(await session.turn(verbatim("/clear"), str(uuid4())), Done)
        assert [each["session_id"] for each in await session.store().list_sessions("durable")] == [session.id]


@pytest.mark.long
@pytest.mark.parametrize("is_asked_for", [True, False])
async def test_deltas_come_in_order_with_the_facts_if_the_options_ask_for_them(
    tmp_path: Path, is_asked_for: bool
) -> None:
    told: list[Any] = []
    options = {"include_partial_messages": True} if is_asked_for else {}
    with ScriptedModel([Reply("A long answer. " * 10, chunk_chars=15)]) as model:
        with session_in(tmp_path, model, **options) as session:
            done = await session.turn("go", str(uuid4()), on_fact=told.append, on_delta=told.append)
            assert isinstance(done, Done)
    deltas = [each for each in told if isinstance(each, Delta)]
    assert "".join(delta.text for delta in deltas) == ("A long answer. " * 10 if is_asked_for else "")
    (whole,) = [each for each in told if isinstance(each, MessageAdded) and each.content]
    assert {(delta.kind, delta.id) for delta in deltas} == ({("text", whole.id)} if is_asked_for else set())
    assert all(told.index(delta) < told.index(whole) for delta in deltas)
    numbers = [each.number for each in told if not isinstance(each, Delta)]
    assert numbers == list(range(1, len(numbers) + 1))

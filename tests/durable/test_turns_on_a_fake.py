"""`run_turn` with a scripted CLI: outcomes that the real one does not have on demand."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from claude_agent_py import ClientOptions, HookMatcher, RetryPolicy
from claude_agent_py.durable import Done, Failed, Interrupted, Later, Lost, MemoryDesk, TurnOutcome, TurnStop, run_turn
from claude_agent_py.errors import OptionsError
from claude_agent_py.sessions import SessionKey, SQLiteStore
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script"),
]

SESSION, PROMPT, LATE = str(uuid4()), str(uuid4()), str(uuid4())
KEY: SessionKey = {"project_key": "durable", "session_id": SESSION}


def failing(text: str, kind: str, status: int) -> list[Any]:
    [said, _] = frames.api_error(text, kind, status)
    return steps.turn([said], text=text, is_error=True, api_error_status=status)


class Place:
    """A folder with a store and a CLI."""

    def __init__(self, folder: Path, *script: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.fake = FakeCLI(*script)
        self.store = SQLiteStore(folder / "store.db")
        env = {"CLAUDE_CONFIG_DIR": str(folder / "config")}
        self.options = ClientOptions(cli_path=self.fake.install(folder), cwd=folder, env=env)

    async def turn(self, prompt_id: str = PROMPT, *, options: Any = None, **more: Any) -> TurnOutcome:
        given = {"session_id": SESSION, "prompt_id": prompt_id, "prompt": "go", "retry": RetryPolicy(wait=0.1), **more}
        return await run_turn(self.options.replace(**(options or {})), store=self.store, **given)


async def test_a_turn_that_has_ended_is_found_in_the_store(tmp_path: Path) -> None:
    said = frames.of_prompt(frames.assistant("Hello."))
    said["message"]["stop_reason"] = "end_turn"
    place = Place(tmp_path, steps.turn([said], text="Hello."))
    first = await place.turn()
    assert isinstance(first, Done)
    assert (first.text, first.is_recovered) == ("Hello.", False)
    again = await place.turn()
    assert isinstance(again, Done)
    assert (again.text, again.is_recovered) == ("Hello.", True)
    assert len(place.fake.starts) == 1


@pytest.mark.each_backend
async def test_a_prompt_that_is_only_in_a_branch_that_the_conversation_has_left_is_sent_under_another_uuid(
    tmp_path: Path,
) -> None:
    """The CLI drops a prompt whose uuid it has read. The branch is what a process without the lease left."""
    said = frames.of_prompt(frames.assistant("Hello."))
    said["message"]["stop_reason"] = "end_turn"
    place = Place(tmp_path, steps.turn([said], text="Hello."))
    tip = str(uuid4())
    entries: list[Any] = [
        {"type": "user", "uuid": tip, "parentUuid": None, "message": {"role": "user", "content": "before"}},
        {"type": "user", "uuid": PROMPT, "parentUuid": tip, "message": {"role": "user", "content": "go"}},
        {"type": "last-prompt", "leafUuid": tip, "explicit": True},
    ]
    await place.store.append(KEY, entries)
    for is_recovered in (False, True):
        outcome = await place.turn()
        assert isinstance(outcome, Done)
        assert (outcome.text, outcome.is_recovered) == ("Hello.", is_recovered)
        [sent] = place.fake.received_like({"type": "user"})
        assert sent["uuid"] == outcome.prompt_uuid != PROMPT


class Late(SQLiteStore):
    """A store that gets a call of an earlier process once a CLI runs."""

    fake: FakeCLI

    async def load(self, key: SessionKey) -> Any:
        if self.fake.starts and not any(entry.get("uuid") == LATE for entry in await super().load(key) or ()):
            call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "true"}}
            said = {"role": "assistant", "content": [call], "stop_reason": "tool_use"}
            entry: Any = {"type": "assistant", "uuid": LATE, "parentUuid": PROMPT, "message": said}
            await self.append(key, [entry])
        return await super().load(key)


@pytest.mark.each_backend
async def test_a_turn_that_is_decided_anew_looks_again_for_answers(tmp_path: Path) -> None:
    said = frames.of_prompt(frames.assistant("Hello."))
    place = Place(tmp_path, steps.turn([said], text="Hello."))
    place.store = store = Late(tmp_path / "store.db")
    store.fake = place.fake
    prompt: Any = {"type": "user", "uuid": PROMPT, "parentUuid": None, "message": {"role": "user", "content": "go"}}
    await place.store.append(KEY, [prompt])
    outcome = await place.turn(desk=MemoryDesk())
    assert isinstance(outcome, Done)
    assert (outcome.text, len(place.fake.starts)) == ("Hello.", 2)


async def test_a_rate_limit_uses_no_attempt_and_an_error_of_the_server_one(tmp_path: Path) -> None:
    limited = await Place(tmp_path / "a", failing("Slow down.", "rate_limit", 429)).turn(attempt=9)
    assert isinstance(limited, Later)
    assert (limited.is_attempt, "Slow down." in limited.reason) == (False, True)
    place = Place(tmp_path / "b", failing("Overloaded.", "server_error", 500))
    later = await place.turn()
    assert isinstance(later, Later)
    assert (later.is_attempt, "Overloaded." in later.reason) == (True, True)
    last = await place.turn(str(uuid4()), attempt=RetryPolicy().attempts)
    assert isinstance(last, Failed)
    assert "Overloaded." in last.reason


async def test_a_cli_that_dies_is_another_attempt(tmp_path: Path) -> None:
    later = await Place(tmp_path, steps.wait_for_prompt(), frames.init(), steps.exit(7)).turn()
    assert isinstance(later, Later)
    assert later.is_attempt


@pytest.mark.parametrize("is_turn", [True, False], ids=["turn", "person"])
async def test_a_turn_whose_lease_was_taken_writes_nothing_more(is_turn: bool, tmp_path: Path) -> None:
    gate = Gate()
    place = Place(
        tmp_path,
        steps.wait_for_prompt(),
        frames.init(),
        steps.wait_gate(gate),
        frames.assistant("Late."),
        frames.result("Late."),
    )
    outcomes: list[Any] = []

    async def run() -> None:
        outcomes.append(await place.turn())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await place.fake.wait_received({"type": "user"})
            lease = await place.store.find_lease({"project_key": "durable", "session_id": SESSION})
            assert lease is not None
            other = lease.holder + "-another" if is_turn else "ann"
            await place.store.acquire_lease(
                {"project_key": "durable", "session_id": SESSION}, other, ttl=60, steal=True
            )
            gate.open()
    [outcome] = outcomes
    assert isinstance(outcome, Lost if is_turn else Later)
    entries: Sequence[Any] = await place.store.load({"project_key": "durable", "session_id": SESSION}) or ()
    assert "Late." not in str(entries)


async def test_a_turn_that_a_person_holds_waits_for_the_lease(tmp_path: Path) -> None:
    place = Place(tmp_path, steps.turn("Hello."))
    await place.store.acquire_lease({"project_key": "durable", "session_id": SESSION}, "ann", ttl=60)
    later = await place.turn()
    assert isinstance(later, Later)
    assert (later.is_attempt, "ann" in later.reason) == (False, True)
    assert place.fake.starts == []


async def test_a_turn_that_is_stopped_before_it_begins_starts_no_process(tmp_path: Path) -> None:
    place, stop = Place(tmp_path, steps.turn("Hello.")), TurnStop()
    stop.interrupt()
    assert isinstance(await place.turn(stop=stop), Interrupted)
    assert place.fake.starts == []


async def test_a_turn_that_nobody_wants_any_more_does_nothing(tmp_path: Path) -> None:
    class Gone(MemoryDesk):
        async def confirm(self) -> bool:
            return False

    place = Place(tmp_path, steps.turn("Hello."))
    assert isinstance(await place.turn(desk=Gone()), Lost)
    assert place.fake.starts == []


async def test_hooks_of_the_options_are_kept_and_tools_need_a_desk(tmp_path: Path) -> None:
    place = Place(tmp_path, steps.turn("Hello."))
    hooks = {"PostToolUse": [HookMatcher("Bash", lambda input, context: None)]}
    assert isinstance(await place.turn(options={"hooks": hooks}), Done)
    [begun] = place.fake.requests("initialize")
    assert set(begun["hooks"]) >= {"PreToolUse", "PostToolUse"}
    with pytest.raises(OptionsError, match="tools: need a `desk`"):
        await place.turn(tools=[{"name": "look", "description": "", "inputSchema": {"type": "object"}}])


async def test_a_listener_that_fails_is_logged_and_hears_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = frames.of_prompt(frames.assistant("A word."))
    start = frames.stream_event({"type": "message_start", "message": {**whole["message"], "content": []}})
    place = Place(tmp_path, steps.turn([start, *frames.text_stream("A ", "word."), whole], text="A word."))
    deltas: list[Any] = []

    def note(delta: Any) -> None:
        deltas.append(delta)
        raise LookupError("a listener's own error")

    done = await place.turn(on_delta=note, options={"include_partial_messages": True})
    assert isinstance(done, Done)
    assert "".join(delta.text for delta in deltas) == "A word."
    assert "a listener's own error" in caplog.text

"""Durable turns on the real CLI whose process, store, lease or engine fails: nothing is lost or run twice."""

import json
import os
import signal
import sqlite3
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from turns import HAS_KILL, Session, paying, session_in, until

from claude_agent_py import Allow, RetryPolicy
from claude_agent_py.durable import Done, Failed, Interrupted, Later, Lost, TurnOutcome, TurnStop
from claude_agent_py.errors import StoreError
from claude_agent_py.sessions import SessionKey, SessionStoreEntry, SQLiteStore
from claude_agent_py.testing import Failure, Reply, ScriptedModel, tool_use

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.skipif(not HAS_KILL, reason="needs SIGKILL"),
]


def kill(session: Session, program: Any, *, cli_too: bool = False) -> None:
    """Kill a program, and the CLI before it, so that the CLI cannot write anything more."""
    for pid in session.clis() if cli_too else ():
        os.kill(pid, signal.SIGKILL)
    program.kill()
    program.wait()


async def stored(session: Session, text: str) -> bool:
    with closing(session.store()) as store:
        return text in json.dumps(await store.load(session.key))


@pytest.mark.parametrize(
    "cli_too", [pytest.param(True, marks=pytest.mark.long), False], ids=["killed at once", "killed program"]
)
async def test_a_command_whose_process_is_killed_runs_once(tmp_path: Path, cli_too: bool) -> None:
    """It is killed as soon as the command has done something, and is asked about before."""
    ran, prompt = tmp_path / "ran", str(uuid4())
    model_of = paying(ran, then="; sleep 300")
    with ScriptedModel(model_of) as model, session_in(tmp_path, model, permission_mode="default") as session:
        program = session.start("pay", prompt)
        await until(lambda: session.desk.states() == ["open"], "it asks")
        kill(session, program)
        session.desk.answer(Allow())  # while nothing runs
        program = session.start("pay", prompt)
        await until(ran.exists, "the command runs", session)
        kill(session, program, cli_too=cli_too)
        session.start("pay", prompt, backend="trio")
        outcome = await session.outcome(prompt)
        assert outcome.text == "it is paid", session.logs()
        assert ran.read_text() == "once\n"
        assert session.desk.states() == ["taken"]
        assert await session.count_prompts("pay") == 1
        told = json.dumps(model.requests[-1].messages)
        assert "outcome is unknown" in told or "137" in told


@pytest.mark.parametrize("is_resumed", [True, pytest.param(False, marks=pytest.mark.long)], ids=["resumed", "new"])
@pytest.mark.parametrize("unsaved", [pytest.param(each, marks=pytest.mark.long) for each in ("turn", "answer")])
async def test_a_turn_that_only_this_machine_has_is_not_run_again(
    tmp_path: Path, is_resumed: bool, unsaved: str
) -> None:
    """The store is away as the turn ends, and the program is killed."""
    ran, prompt = tmp_path / "ran", str(uuid4())
    lock = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
    paid = paying(ran)

    def answer(request: Any) -> Any:
        is_due = '"pay"' in json.dumps(request.messages) and (unsaved == "turn" or request.tool_results)
        if is_due and not lock.in_transaction:
            lock.execute("BEGIN IMMEDIATE")
        return paid(request) if unsaved == "answer" else "it is paid" if lock.in_transaction else "hello"

    with closing(lock), ScriptedModel(answer) as model, session_in(tmp_path, model) as session:
        if is_resumed:
            first = str(uuid4())
            session.start("hello", first)
            assert (await session.outcome(first)).text == "hello"
        program = session.start("pay", prompt)

        def is_written() -> bool:
            private = Path(tempfile.gettempdir()).glob("claude-agent-py-session-*")
            for folder in (*private, Path(model.sandbox.home) / ".claude"):
                for path in folder.glob(f"projects/*/{session.id}.jsonl"):
                    with suppress(FileNotFoundError):
                        if "it is paid" in path.read_text():
                            return True
            return False

        await until(is_written, "the answer is on this machine", session)
        kill(session, program)
        lock.execute("ROLLBACK")
        sent = len(model.requests)
        session.start("pay", prompt)
        outcome = await session.outcome(prompt)
        assert (outcome.text, outcome.is_recovered) == ("it is paid", True), session.logs()
        assert len(model.requests) == sent
        assert not ran.exists() or ran.read_text() == "once\n"
        assert await session.count_prompts("pay") == 1


class Store(SQLiteStore):
    """A store that refuses some entries while it is away."""

    refuses = ""
    refusals = 0

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], **more: Any) -> None:
        if self.refuses and self.refuses in json.dumps(entries):
            self.refusals += 1
            raise StoreError("the store is away")
        await super().append(key, entries, **more)


async def test_a_command_does_not_run_before_the_store_has_its_call(tmp_path: Path) -> None:
    ran, prompt = tmp_path / "ran", str(uuid4())
    with ScriptedModel(paying(ran)) as model, session_in(tmp_path, model) as session:
        store = Store(tmp_path / "store.db")
        store.refuses = "tool_use"
        outcomes: list[TurnOutcome] = []

        async def run() -> None:
            outcomes.append(await session.turn("pay", prompt, store=store, options={"load_timeout": 2.0}))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while not store.refusals:
                await anyio.sleep(0.02)
            await until(lambda: session.clis() == [], "the process ends")
            store.refuses = ""
        [outcome] = outcomes
        assert isinstance(outcome, Later)
        assert not outcome.is_attempt
        assert "the store does not accept the calls of tools" in outcome.reason
        assert not ran.exists()
        done = await session.turn("pay", prompt, store=store)
        assert isinstance(done, Done)
        # The call was refused, or cut off before it began: either way the model was told, and nothing ran twice.
        assert not ran.exists() or ran.read_text() == "once\n"


async def test_a_process_without_its_lease_runs_no_further_call_of_the_same_message(tmp_path: Path) -> None:
    began, go, ran = (tmp_path / name for name in ("began", "go", "ran"))
    first = f"touch {began}; while [ ! -e {go} ]; do sleep 0.02; done"
    calls = [tool_use("Bash", {"command": command, "description": "Run it"}) for command in (first, f"touch {ran}")]
    with ScriptedModel([Reply(calls), Reply("Both.")]) as model, session_in(tmp_path, model) as session:
        outcomes: list[TurnOutcome] = []

        async def run() -> None:
            outcomes.append(await session.turn("go", str(uuid4())))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while not (began.exists() and await stored(session, str(ran))):
                await anyio.sleep(0.02)
            with closing(session.store()) as store:
                await store.acquire_lease(session.key, "durable turn of another machine", steal=True)
            go.touch()
        assert isinstance(outcomes[0], Lost)
        assert not ran.exists()


@pytest.mark.long
async def test_a_turn_ends_early_as_the_engine_wishes(tmp_path: Path) -> None:
    """Released while a command runs, taken over by a later call, and interrupted."""
    ran, first, second = tmp_path / "ran", str(uuid4()), str(uuid4())
    with ScriptedModel(paying(ran, then="; sleep 300")) as model, session_in(tmp_path, model) as session:
        outcomes: dict[str, TurnOutcome] = {}
        stops = {name: TurnStop() for name in ("released", "interrupted", "earlier", "later")}

        async def run(name: str, prompt: str, prompt_id: str) -> None:
            outcomes[name] = await session.turn(prompt, prompt_id, stop=stops[name])

        async def begin(group: Any, name: str, prompt: str, prompt_id: str) -> None:
            ran.unlink(missing_ok=True)
            group.start_soon(run, name, prompt, prompt_id)
            while not ran.exists():
                await anyio.sleep(0.02)

        async with anyio.create_task_group() as group:
            await begin(group, "released", "pay", first)
            stops["released"].release()
        released = outcomes["released"]
        assert isinstance(released, Later)
        assert (released.pause, released.is_attempt, released.reason) == (0.0, False, "the turn was released")
        assert released.cost_usd > 0
        assert session.clis() == []
        ran.unlink()
        done = await session.turn("pay", first)
        assert isinstance(done, Done)
        assert not ran.exists(), "the command was cut off, and the model was told"
        assert "outcome is unknown" in json.dumps(model.requests[-1].messages)

        async with anyio.create_task_group() as group:
            await begin(group, "interrupted", "pay again", second)
            stops["interrupted"].interrupt()
        assert isinstance(outcomes["interrupted"], Interrupted)
        sent = len(model.requests)
        assert await session.turn("pay again", second) == Interrupted(prompt_uuid=second)

        third = str(uuid4())
        async with anyio.create_task_group() as group:
            await begin(group, "earlier", "pay more", third)
            outcomes["later"] = await session.turn("pay more", third)
        assert isinstance(outcomes["earlier"], Lost)
        assert isinstance(outcomes["later"], Done)
        assert ran.read_text() == "once\n"
        assert sent < len(model.requests)
        for text in ("pay", "pay again", "pay more"):
            assert await session.count_prompts(text) == 1


@pytest.mark.long
async def test_failures_unrelated_to_the_prompt_use_no_attempt(tmp_path: Path) -> None:
    """A lease of a person, a store that is away, a desk that is away and a rate limit; an error of the API is one."""
    prompt, second = str(uuid4()), str(uuid4())
    replies: list[Any] = []
    with ScriptedModel(lambda request: replies[-1]) as model, session_in(tmp_path, model) as session:
        store = session.store()
        lease = await store.acquire_lease(session.key, "somebody's laptop")
        held = await session.turn("hello", prompt)
        assert isinstance(held, Later)
        assert not held.is_attempt
        assert "somebody's laptop" in held.reason
        assert 1.0 <= held.pause <= 30.0
        await store.release_lease(lease)

        class Away(SQLiteStore):
            async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
                raise OSError("nobody answers")

        away = await session.turn("hello", prompt, store=Away(tmp_path / "store.db"))
        assert isinstance(away, Later)
        assert not away.is_attempt
        assert "nobody answers" in away.reason

        class NoDesk:
            async def confirm(self) -> bool:
                raise OSError("the engine is away")

        class OtherCall(NoDesk):
            async def confirm(self) -> bool:
                return False

        lease = await store.acquire_lease(session.key, "durable turn of the other call")
        lost = await session.turn("hello", prompt, desk=OtherCall())
        assert isinstance(lost, Lost)
        await store.renew_lease(lease)  # it was not taken away
        await store.release_lease(lease)

        no_desk = await session.turn("hello", prompt, desk=NoDesk())
        assert isinstance(no_desk, Later)
        assert not no_desk.is_attempt
        assert "the engine is away" in no_desk.reason
        assert model.requests == []

        resets_at = int(time.time()) + 3600
        headers = {
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(resets_at),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
            "retry-after": "3600",
        }
        login = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-scripted"}
        replies.append(Failure(429, headers=headers))
        subscriber = {"env": {**session.options["env"], **login}}
        limited = await session.turn("hello", prompt, options=subscriber)
        assert isinstance(limited, Later)
        assert not limited.is_attempt
        assert 3000 < limited.pause < 3700

        replies.append(Failure(400))
        retry = RetryPolicy(wait=0.1, is_retryable=lambda error: True)
        failed = await session.turn("hello", prompt, retry=retry)
        assert isinstance(failed, Later)
        assert failed.is_attempt
        replies.append("hello")
        done = await session.turn("hello", prompt, attempt=2, retry=retry)
        assert isinstance(done, Done)
        assert done.text == "hello"
        assert done.prompt_uuid == prompt, "the turn that failed continues"
        assert await session.count_prompts("hello") == 1
        again = await session.turn("hello", prompt, attempt=2)
        assert again == Done(text="hello", prompt_uuid=done.prompt_uuid, is_recovered=True)

        sent = len(model.requests)
        spent = await session.turn("more", second, options={"max_budget_usd": 0.0001})
        assert isinstance(spent, Failed)
        assert spent.error == "BudgetExceededError"
        assert len(model.requests) == sent, "the budget is the session's"

        replies.append(Failure(429))  # as for an API key: nobody knows when it ends
        short = {"env": {**session.options["env"], "CLAUDE_CODE_MAX_RETRIES": "0"}}
        limited = await session.turn("again", str(uuid4()), attempt=4, options=short, retry=RetryPolicy())
        assert isinstance(limited, Later)
        assert not limited.is_attempt
        assert limited.reason.startswith("RateLimitedError")
        assert 30 <= limited.pause <= 60


@pytest.mark.long
@pytest.mark.parametrize(
    "left",
    [
        *(pytest.param(each, marks=pytest.mark.long) for each in ("", "{half")),
        '{"type":"queue-operation","operation":"enqueue"}\n',
    ],
)
async def test_a_transcript_that_a_killed_cli_only_began_does_not_stop_the_session(tmp_path: Path, left: str) -> None:
    with ScriptedModel(lambda request: "hello") as model, session_in(tmp_path, model) as session:
        folder = Path(model.sandbox.home) / ".claude" / "projects" / "-work"
        folder.mkdir(parents=True)
        (folder / f"{session.id}.jsonl").write_text(left)
        done = await session.turn("hello", str(uuid4()))
        assert isinstance(done, Done), done
        assert done.text == "hello"


async def test_a_prompt_whose_api_fails_again_and_again_is_sent_once_and_its_command_runs_once(tmp_path: Path) -> None:
    ran, prompt, failures = tmp_path / "ran", str(uuid4()), iter(range(2))
    pays = paying(ran)

    def answer(request: Any) -> Any:
        reply = pays(request)
        is_done = reply == "it is paid"
        return Failure(529, "too much", "overloaded_error") if is_done and next(failures, None) is not None else reply

    with ScriptedModel(answer) as model, session_in(tmp_path, model) as session:
        session.options["env"]["CLAUDE_CODE_MAX_RETRIES"] = "0"
        outcome: TurnOutcome | None = None
        for attempt in range(1, 4):
            outcome = await session.turn("pay", prompt, attempt=attempt)
            assert isinstance(outcome, Later) is (attempt < 3), outcome
        assert isinstance(outcome, Done)
        assert outcome.text == "it is paid"
        assert await session.count_prompts("pay") == 1
    assert ran.read_text() == "once\n"

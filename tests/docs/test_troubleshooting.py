"""The page about errors by their text: each class has an entry, and each text that it quotes is really produced."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from peers import MakeClient, start_in_memory, start_process as start_process
from pydantic import BaseModel
from recordings_loader import frames as recorded

from claude_agent_py import Client, ClientOptions, ToolChain, errors, tool
from claude_agent_py.errors import ClaudeAgentError
from claude_agent_py.fleet import Fleet
from claude_agent_py.formatting import MarkdownFormat
from claude_agent_py.history import TaskHistory
from claude_agent_py.messages import ToolUseBlock
from claude_agent_py.sessions import MemoryStore, SessionKey
from claude_agent_py.testing import FakeCLI, frames, steps

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
ENTRY = re.compile(r"^- (?:``(.+?)``|`(.+?)`) \(`(\w+)`\): \S", re.MULTILINE)
BASES = {"ClaudeAgentError", "CLIError", "ProtocolError", "ControlError", "RunFailed", "TaskError"}
RECORDED = (
    "control/05_err_400 control/03_set_model_then_404 control/05_ratelimit_rejected control/05_err_529_exhausted"
    " control/05_conn_refused control/05_no_auth control/05_stop_max_tokens_forever control/05_max_turns"
    " control/05_max_budget control/06_user_20mb control/08_sigint_twice control/09_resume_at_bad turns/prompt_blocked"
)


def read_entries() -> list[tuple[str, str]]:
    found = ENTRY.findall(PAGE.read_text(encoding="utf-8"))
    return [(name, double or single) for double, single, name in found]


def pattern_of(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("…"))), re.DOTALL)


def turns_of(said: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the messages of each turn, as those of the prompt that is asked."""
    turn: list[dict[str, Any]] = []
    for frame in said:
        if frame["type"] in ("assistant", "rate_limit_event", "result") or frame.get("subtype") == "informational":
            turn.append(frames.of_prompt(frame))
        if frame["type"] == "result":
            yield turn
            turn = []


async def fail_as_recorded() -> list[BaseException]:
    """Return the first error of each of these recordings, when a CLI says the same again."""
    found: list[BaseException] = []
    credit = frames.assistant("Credit balance is too low", error="billing_error", is_api_error_message=True)
    refusal = frames.result("No.", is_error=True, stop_reason="refusal", terminal_reason="api_error")
    made = [credit, frames.result("Credit balance is too low", is_error=True)], [refusal]
    for said in (*map(recorded, RECORDED.split()), *made):
        turns = list(turns_of(said))
        script = [[steps.wait_for_prompt(), *turn] for turn in turns]
        async with start_in_memory(FakeCLI(*script)) as client:
            with noting(found):
                for _ in turns:
                    await client.query("Hello")
    return found


def make_named() -> Iterator[BaseException]:
    """Yield errors whose text is made of their attributes."""
    yield errors.CLINotFoundError(["PATH: not found"])
    yield errors.CLIInstallError("2.1.332", ["npm: no network"])
    yield errors.CLIVersionError("2.0.0", "2.1.328", "/usr/bin/claude")
    yield errors.HandlerError("on_prompt", "ValueError: no")
    yield errors.BacklogError("No space left on device", 262_144)
    yield errors.ControlTimeoutError("set_model", 60)
    yield errors.ControlRejectedError("set_model", "no such model")
    yield errors.MCPNotReadyError(["db"], 30)
    yield errors.PoolTimeoutError(5, used=2, waiting=1)
    yield errors.TaskNotFoundError("t1")
    yield errors.TaskTimeoutError("t1", 5)
    yield errors.TaskOutputError("t1", "/tmp/t1.output", "no such file")
    yield errors.ToolTimeoutError("search", 5)
    yield errors.ToolError("the ticket does not exist")
    yield errors.SessionBusyError("s1", 17)
    yield errors.TooManySessionsError(20)
    yield errors.RunTimeoutError("run", 60)


class City(BaseModel):
    name: str


@tool
def search(query: str) -> str:
    """Search.

    Args:
        query: What for.
    """
    return query


@contextmanager
def noting(found: list[BaseException]) -> Iterator[None]:
    with pytest.raises(ClaudeAgentError) as caught:
        yield
    found.append(caught.value)


async def provoke(folder: Path, start: MakeClient) -> list[BaseException]:
    """Return the errors of programs with a mistake, and of a CLI that misbehaves."""
    found: list[BaseException] = []
    with noting(found):
        ClientOptions(nmae="opus")  # type: ignore[call-arg]
    with noting(found):
        await Client(ClientOptions(cli_path="/nowhere/claude")).connect()
    with noting(found):
        await Client().set_model("opus")
    async with start_in_memory(FakeCLI()) as client:
        with noting(found):
            client.query(" ")
        with noting(found):
            await client.connect()
        with noting(found):
            await client.reopen()
    with noting(found):
        await client.set_model("opus")
    for step in (
        steps.exit(1),
        steps.stderr("Error: Session ID 7d0f9c1e-1a55-4f1e-9d57-0a4f7b7c3c11 is already in use"),
    ):
        with noting(found):
            session_id = "7d0f9c1e-1a55-4f1e-9d57-0a4f7b7c3c11"
            await start(FakeCLI(step, steps.exit(1)), session_id=session_id).connect()
    with noting(found):
        missing = steps.stderr("No conversation found with session ID: s1")
        await start(FakeCLI(missing, steps.exit(1)), resume="s1").connect()
    async with start_in_memory(FakeCLI(steps.wait_for_prompt(), steps.exit(-9))) as client:
        with noting(found):
            await client.query("Hello")
    async with start_in_memory(FakeCLI(*steps.turn("ok", is_error="maybe"))) as client:
        with noting(found):
            await client.query("Hello")
    for turn in (steps.turn("ok"), steps.turn("ok", structured_output={"name": 5})):
        async with start_in_memory(FakeCLI(*turn), output_type=City) as client:
            with noting(found):
                await client.query("Hello")
    async with start_in_memory(FakeCLI(answers={"set_model": {"response": {"model": 5}}})) as client:
        with noting(found):
            await client.set_model("opus")
    taken_back = [steps.wait_for_prompt(), steps.emit(frames.lifecycle("cancelled")), steps.hang()]
    async with start_in_memory(FakeCLI(*taken_back)) as client:
        with noting(found):
            await client.query("Hello")
    calls = await ToolChain([search]).execute(
        [ToolUseBlock(id="a", name=name, input={}) for name in ("search", "find")]
    )
    found += [call.error for call in calls.raw if call.error is not None]
    report = MarkdownFormat()
    report.register_section("summary", "One sentence.")
    with noting(found):
        report.parse("nothing", strict=True)
    return found + await provoke_stores(folder)


async def provoke_stores(folder: Path) -> list[BaseException]:
    found: list[BaseException] = []
    (folder / "history.db").write_text("no database")
    with noting(found):
        await TaskHistory(folder / "history.db").open()
    store = MemoryStore()
    key: SessionKey = {"project_key": "p", "session_id": str(uuid4())}
    with noting(found):
        await store.append({"project_key": 5, "session_id": "s"}, [{"type": "user"}])  # type: ignore[typeddict-item]
    lease = await store.acquire_lease(key, "one")
    with noting(found):
        await store.acquire_lease(key, "two")
    await store.acquire_lease(key, "two", steal=True)
    with noting(found):
        await store.append(key, [{"type": "user"}], epoch=lease.epoch)
    with closing(Fleet(f"sqlite:///{folder / 'fleet.db'}")) as fleet:
        fleet.agent("chat")
        with noting(found):
            await fleet.session("none").info()
        session = await fleet.start("chat", "Hello")
        with noting(found):
            await session.result(timeout=0.01)
        await session.cancel()
        with noting(found):
            await session.result()
    return found


def test_each_class_of_errors_has_an_entry() -> None:
    kinds = [getattr(errors, name) for name in dir(errors) if name.endswith("Error") or name == "RunFailed"]
    classes = {kind.__name__ for kind in kinds if issubclass(kind, ClaudeAgentError)}
    assert {name for name, _ in read_entries()} == classes - BASES
    assert all(f"`{name}`" in PAGE.read_text(encoding="utf-8") for name in BASES)


@pytest.mark.anyio
async def test_each_text_is_that_of_an_error(tmp_path: Path, start_process: MakeClient) -> None:
    found = [*await fail_as_recorded(), *make_named(), *await provoke(tmp_path, start_process)]
    told = {(type(error).__name__, str(error)) for error in found}
    missing = [
        (name, text)
        for name, text in read_entries()
        if not any(name == kind and pattern_of(text).fullmatch(produced) for kind, produced in told)
    ]
    assert missing == []

"""`Client.reopen` with programs that die: what the next process is started with, and which runs go on in it."""

import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from peers import install_in_turn
from stored import SESSION, Stored

from claude_agent_py import Client, ClientOptions
from claude_agent_py.errors import CLIExitError, CLINotFoundError, CLIStartError, ConnectionClosedError, RunTimeoutError
from claude_agent_py.observe import watch
from claude_agent_py.sessions import project_key_for_directory
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script"),
]

Start: TypeAlias = Callable[..., Client]
DIES = steps.die(signal.SIGKILL)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Return a function that makes a client whose processes are these fakes, one after the other."""

    def make(*fakes: FakeCLI, **options: Any) -> Client:
        program = install_in_turn(tmp_path, *fakes)
        env = {"CLAUDE_CONFIG_DIR": str(tmp_path / "config")}
        return Client(ClientOptions(**({"cli_path": program, "cwd": tmp_path, "env": env} | options)))

    return make


def dying(*before: Any) -> FakeCLI:
    """A CLI that dies in its first turn."""
    return FakeCLI(steps.wait_for_prompt(), *before, DIES)


async def cut_off(client: Client, prompt: Any = "hi", **more: Any) -> Any:
    """Return a run that the end of the process has cut off."""
    run = client.query(prompt, **more)
    with pytest.raises(CLIExitError):
        await run.result()
    return run


def write_session(tmp_path: Path, *prompts: dict[str, Any]) -> None:
    """Write prompts to the transcript, as the process that died did."""
    stored = Stored(tmp_path / "config", project=project_key_for_directory(tmp_path))
    for prompt in prompts:
        stored.user(prompt["message"]["content"], uuid=prompt["uuid"])
    stored.assistant("half of an answer")


@pytest.mark.parametrize(
    ("said", "more", "flags"),
    [
        ([], {}, []),
        ([frames.init(session_id=SESSION)], {"max_budget_usd": 1.0}, [f"--session-id={SESSION}"]),
        ([], {"resume": SESSION}, [f"--resume={SESSION}"]),
    ],
    ids=["before its session is known", "a new session", "a resumed session"],
)
async def test_a_session_that_is_not_on_disk_begins_anew(
    said: list[Any], more: dict[str, Any], flags: list[str], start: Start
) -> None:
    fake = FakeCLI(steps.turn("again"))
    with anyio.fail_after(60):
        async with start(dying(*said), fake, **more) as client:
            run = await cut_off(client)
            await client.reopen()
            assert (await run).text == "again"
    [begun] = fake.starts
    argv = " ".join(begun.argv).replace(" --", "\n--").replace("--resume ", "--resume=").replace("-id ", "-id=")
    assert [flag for flag in argv.splitlines() if flag.startswith(("--resume", "--session-id", "--fork"))] == flags


async def test_the_cost_of_another_session_does_not_count(start: Start, tmp_path: Path) -> None:
    other = Stored(tmp_path / "config", project=project_key_for_directory(tmp_path))
    other.user("hello")
    other.note("cost-state", totalCostUSD=5.0)
    with anyio.fail_after(60):
        async with start(dying(), FakeCLI(steps.turn("again")), max_budget_usd=1.0) as client:
            run = await cut_off(client)
            await client.reopen()
            assert (await run).spent_before_usd == 0.0


async def test_a_run_whose_turn_the_next_process_does_not_resume_has_ended(start: Start, tmp_path: Path) -> None:
    """The CLI had its prompt on disk, and would ignore it."""
    first, second = dying(frames.init(session_id=SESSION)), FakeCLI(steps.turn("next"))
    with anyio.fail_after(60):
        async with start(first, second) as client:
            run = await cut_off(client)
            write_session(tmp_path, *first.received_like({"type": "user"}))
            await client.reopen()
            with pytest.raises(CLIExitError, match="before it reported the result of the run"):
                await run
            assert (await client.query("go on")).text == "next"
    assert [frame["message"]["content"] for frame in second.received_like({"type": "user"})] == ["go on"]


async def test_a_prompt_is_sent_again_if_the_transcript_has_gone(start: Start, tmp_path: Path) -> None:
    gate, session = Gate(), frames.init(session_id=SESSION)
    greeting = frames.initialize_response(session_state="running")
    first, second = (
        dying(session),
        FakeCLI(steps.wait_gate(gate), frames.session_state("idle"), steps.turn("again"), initialize=greeting),
    )
    with anyio.fail_after(60):
        async with start(first, second) as client:
            run = await cut_off(client)
            write_session(tmp_path, *first.received_like({"type": "user"}))
            async with anyio.create_task_group() as group:
                group.start_soon(client.reopen)
                await second.wait_received({"request": {"subtype": "initialize"}})
                [transcript] = (tmp_path / "config").rglob(f"{SESSION}.jsonl")
                transcript.unlink()
                gate.open()
            assert (await run).text == "again"


async def test_a_run_that_ends_before_the_cli_reports_its_turn_is_not_sent_again(start: Start, tmp_path: Path) -> None:
    gate, session = Gate(), frames.init(session_id=SESSION)
    greeting = frames.initialize_response(session_state="running")
    second = FakeCLI(steps.wait_gate(gate), frames.session_state("idle"), initialize=greeting)
    with anyio.fail_after(60):
        async with start(dying(session), second) as client:
            run = await cut_off(client, timeout=1.0)
            write_session(tmp_path)
            async with anyio.create_task_group() as group:
                group.start_soon(client.reopen)
                await second.wait_received({"request": {"subtype": "initialize"}})
                with pytest.raises(RunTimeoutError):
                    await run
                gate.open()
    assert second.received_like({"type": "user"}) == []


async def test_a_prompt_that_was_withdrawn_is_not_sent_again(start: Start) -> None:
    async def prompts() -> AsyncIterator[str]:
        yield "one"
        yield "two"

    first = FakeCLI(steps.wait_for_prompt(), steps.wait_for_prompt(), frames.lifecycle("cancelled"), DIES)
    second = FakeCLI(steps.turn("again"))
    with anyio.fail_after(60):
        async with start(first, second) as client:
            run = await cut_off(client, prompts())
            await client.reopen()
            assert (await run).text == "again"
    assert [frame["message"]["content"] for frame in second.received_like({"type": "user"})] == ["one"]


async def test_closing_what_observed_the_last_process_leaves_what_observes_the_next_one(start: Start) -> None:
    second = FakeCLI(steps.turn([frames.task_started("a1"), *frames.task_end("a1"), frames.assistant("again")]))
    with anyio.fail_after(60):
        async with start(dying(), second) as client:
            watched, left = watch(client), client.journal()
            run = await cut_off(client)
            await client.reopen()
            facts = client.journal()
            watched.close()
            left.close()
            await run
        told = [fact.fact async for fact in facts]
    assert {"task_started", "task_finished"} <= set(told)


async def test_changes_that_the_next_process_refuses_are_logged(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    second = FakeCLI(steps.turn("again"), answers={"set_model": {"error": "no such model"}})
    with anyio.fail_after(60):
        async with start(dying(), second) as client:
            await client.set_model("claude-old")
            run = await cut_off(client)
            await client.reopen()
            assert (await run).text == "again"
    assert "the session does not accept set_model again: " in caplog.text
    assert "no such model" in caplog.text


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_client_whose_next_process_does_not_start_is_closed(
    is_there: bool, start: Start, tmp_path: Path
) -> None:
    with anyio.fail_after(60):
        async with start(dying(), FakeCLI(steps.stderr("no licence\n"), steps.exit(3))) as client:
            await cut_off(client)
            if not is_there:
                (tmp_path / "claude").unlink()
            with pytest.raises(CLIStartError if is_there else CLINotFoundError):
                await client.reopen()
            with pytest.raises(ConnectionClosedError):
                await client.reopen()
            with pytest.raises(ConnectionClosedError, match="is closed"):
                client.query("more")
            await client.wait_closed()


async def test_closing_while_the_last_process_is_cleared_away_ends_the_reopening(start: Start) -> None:
    second = FakeCLI()
    with anyio.fail_after(60):
        async with start(dying(), second) as client:
            await cut_off(client)
            async with anyio.create_task_group() as group:
                group.start_soon(client.close)
                with pytest.raises(ConnectionClosedError):
                    await client.reopen()
            assert not client.is_open
    assert second.starts == []


async def test_a_reopened_session_has_not_ended_for_those_who_wait(start: Start) -> None:
    ended = anyio.Event()

    async def wait(client: Client) -> None:
        await client.wait_closed()
        ended.set()

    with anyio.fail_after(60):
        async with start(dying(), FakeCLI(steps.turn("again"))) as client, anyio.create_task_group() as group:
            run = await cut_off(client)
            group.start_soon(wait, client)
            await client.reopen()
            assert (await run).text == "again"
            await anyio.wait_all_tasks_blocked()
            assert not ended.is_set()
            await client.close()
            await ended.wait()


async def test_a_turn_that_a_fork_resumes_has_the_prompts_of_the_newest_session(start: Start, tmp_path: Path) -> None:
    """The CLI reports only the id of the copy, which is not on disk yet."""
    prompt = {"message": {"content": "Do it"}, "uuid": "00000000-0000-4000-8000-00000000000a"}
    write_session(tmp_path, prompt)
    copy = "22222222-2222-4222-8222-222222222222"
    names: dict[str, Any] = {"user_message_uuids": [prompt["uuid"]]}
    fake = FakeCLI(
        frames.init(session_id=copy, **names),
        frames.assistant("It went on.", session_id=copy),
        frames.result("It went on.", session_id=copy, origin=None, **names),
        initialize=frames.initialize_response(session_state="running"),
    )
    more = {"continue_conversation": True, "fork_session": True, "resume_interrupted_turn": True}
    with anyio.fail_after(60):
        async with start(fake, **more) as client:
            assert client.resumed_run is not None
            result = await client.resumed_run
    assert (result.text, result.prompts) == ("It went on.", [prompt["uuid"]])
    assert [message["content"][0]["text"] for message in result.to_api_messages()] == ["Do it", "It went on."]

"""Which stored session a process resumes, and which of the prompts that it names are in it."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest
from peers import MakeClient, start_process as start_process
from stored import Stored

from claude_agent_py.errors import BudgetExceededError
from claude_agent_py.sessions import project_key_for_directory
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = pytest.mark.anyio

IDS = [f"{number}1111111-1111-4111-8111-111111111111" for number in range(4)]
"""The older a session of these tests, the higher its number."""


@pytest.fixture
def prompts(tmp_path: Path) -> list[str]:
    """Four sessions of a directory, of which the newest one is a copy of the third one; returns their prompts."""
    uuids = [f"00000000-0000-4000-8000-00000000000{number}" for number in (2, 1, 2, 3)]
    for number, (session_id, uuid) in enumerate(zip(IDS, uuids, strict=True)):
        stored = Stored(tmp_path / "config", session_id, project_key_for_directory(tmp_path))
        stored.user("an earlier prompt")
        stored.assistant("an earlier answer")
        stored.user(f"prompt of {number}", uuid=uuid)
        stored.assistant("answer")
        stored.note("custom-title", customTitle="Twice" if number % 2 else f"Title {number}")
        stored.note("cost-state", totalCostUSD=float(number + 1))
        os.utime(stored.path, (100 - number,) * 2)
    return uuids


def in_folder(tmp_path: Path, **more: Any) -> dict[str, Any]:
    """Return options to resume a session of a directory."""
    return {"env": {"CLAUDE_CONFIG_DIR": str(tmp_path / "config")}, "cwd": tmp_path, **more}


def fork(*resumed: str, gate: Gate | None = None) -> FakeCLI:
    """Return a CLI that goes on with the turn of these prompts, in a copy of their session."""
    names: dict[str, Any] = {"user_message_uuids": list(resumed), "session_id": IDS[0]}
    said = [frames.assistant("It went on.", session_id=IDS[0]), frames.result("It went on.", origin=None, **names)]
    greeting = frames.initialize_response(session_state="running")
    return FakeCLI(steps.wait_gate(gate) if gate else [], frames.init(**names), *said, initialize=greeting)


FORK = {"continue_conversation": True, "fork_session": True, "resume_interrupted_turn": True}


@pytest.mark.parametrize(("resumed", "session"), [([2], 2), ([1, 3], 1), ([3], 3)], ids=str)
async def test_a_fork_goes_on_with_the_prompts_of_the_newest_session_that_has_them_and_is_no_copy(
    resumed: list[int], session: int, prompts: list[str], start_process: MakeClient, tmp_path: Path
) -> None:
    fake = fork(*(prompts[number] for number in resumed))
    with anyio.fail_after(60):
        async with start_process(fake, **in_folder(tmp_path, **FORK)) as client:
            assert client.resumed_run is not None
            result = await client.resumed_run
    texts = [block["text"] for message in result.to_api_messages() for block in message["content"]]
    assert [text for text in texts if text] == [f"prompt of {session}", "It went on."]


async def test_a_fork_knows_no_prompts_of_sessions_of_other_directories(
    prompts: list[str], start_process: MakeClient, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    options = in_folder(tmp_path, **FORK) | {"cwd": tmp_path / "elsewhere"}
    with anyio.fail_after(60):
        async with start_process(fork(prompts[1]), **options) as client:
            assert client.resumed_run is not None
            result = await client.resumed_run
    assert (result.prompts, "prompt of" in str(result.to_api_messages())) == ([prompts[1]], False)


@pytest.mark.usefixtures("prompts")
@pytest.mark.parametrize(("title", "is_found"), [(" TITLE 2", True), ("Twice", False), ("nowhere", False)])
async def test_a_title_names_a_session_whose_cost_counts_if_only_one_has_it(
    title: str, is_found: bool, start_process: MakeClient, tmp_path: Path
) -> None:
    client = start_process(FakeCLI(), **in_folder(tmp_path, resume=title, max_budget_usd=0.5))
    spent = pytest.raises(BudgetExceededError, match=r"has spent 3\.0000 of 0\.5 USD")
    with anyio.fail_after(60), spent if is_found else nullcontext():
        async with client:
            assert client.is_open


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_turn_goes_on_without_its_prompts_if_the_transcript_has_gone(
    is_there: bool, prompts: list[str], start_process: MakeClient, tmp_path: Path
) -> None:
    gate = Gate()
    fake = fork(prompts[1], "another", gate=gate)
    options = in_folder(tmp_path, resume=IDS[1], fork_session=True, resume_interrupted_turn=True)
    with anyio.fail_after(60):
        client = start_process(fake, **options)
        async with anyio.create_task_group() as group:
            group.start_soon(client.connect)
            await fake.wait_received({"request": {"subtype": "initialize"}})
            if not is_there:
                [transcript] = (tmp_path / "config").rglob(f"{IDS[1]}.jsonl")
                transcript.unlink()
            gate.open()
        assert client.resumed_run is not None
        result = await client.resumed_run
        await client.close()
    texts = [block["text"] for message in result.to_api_messages() for block in message["content"]]
    assert [text for text in texts if text] == [*(["prompt of 1"] if is_there else []), "It went on."]

"""Which session a process resumes, and which of its prompts are in it."""

import os
from pathlib import Path

import pytest
from stored import Stored

from claude_agent_py.sessions import get_session, project_key_for_directory
from claude_agent_py.sessions.resuming import find_session_with, find_title, find_uuids, read_prompts

IDS = [f"{number}1111111-1111-4111-8111-111111111111" for number in range(4)]
"""The older a session of these tests, the higher its number."""


@pytest.fixture
def prompts(tmp_path: Path) -> list[str]:
    """Four sessions of a directory, of which the newest one is a copy of the third one; returns their prompts."""
    uuids = [f"00000000-0000-4000-8000-00000000000{number}" for number in (2, 1, 2, 3)]
    for number, (session_id, uuid) in enumerate(zip(IDS, uuids, strict=True)):
        stored = Stored(tmp_path, session_id, project_key_for_directory(tmp_path))
        stored.user(f"prompt of {number}", uuid=uuid)
        stored.assistant("answer")
        stored.note("custom-title", customTitle="Twice" if number % 2 else f"Title {number}")
        os.utime(stored.path, (100 - number,) * 2)
    return uuids


@pytest.mark.parametrize(
    ("wanted", "found"), [([2], IDS[2]), ([1, 3], IDS[1]), ([3], IDS[3]), ([], None)], ids=lambda value: str(value)
)
def test_the_session_of_a_prompt_is_the_newest_one_that_has_it_and_is_no_copy(
    wanted: list[int], found: str | None, prompts: list[str], tmp_path: Path
) -> None:
    uuids = [prompts[number] for number in wanted]
    assert find_session_with(uuids, IDS[0], tmp_path, tmp_path) == found
    assert find_session_with(uuids, IDS[0], tmp_path / "elsewhere", tmp_path) is None


@pytest.mark.parametrize(("title", "found"), [(" TITLE 2", IDS[2]), ("Twice", None), ("nowhere", None)])
def test_a_title_names_a_session_if_only_one_has_it(
    title: str, found: str | None, prompts: list[str], tmp_path: Path
) -> None:
    assert find_title(title, tmp_path, tmp_path) == found


def test_of_a_transcript_that_is_gone_nothing_is_found(prompts: list[str], tmp_path: Path) -> None:
    session = get_session(IDS[1], config_dir=tmp_path)
    wanted = [prompts[1], "another"]
    assert find_uuids(session.snapshot, wanted) == {prompts[1]}
    assert {uuid: prompt.text for uuid, prompt in read_prompts(session, wanted).items()} == {prompts[1]: "prompt of 1"}
    assert read_prompts(session, wanted[:1]).keys() == {prompts[1]}
    os.unlink(session.snapshot.path)
    assert find_uuids(session.snapshot, wanted) == frozenset()
    assert read_prompts(get_session(IDS[3], config_dir=tmp_path), []) == {}
    assert read_prompts(session, wanted) == {}

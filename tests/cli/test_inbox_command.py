"""The command `inbox`: questions are listed and answered."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from questions import RecordingContext

from claude_agent_py import PermissionContext
from claude_agent_py.cli import main
from claude_agent_py.control import CanUseToolRequest, ElicitationRequest, UserDialogRequest
from claude_agent_py.permissions import InteractionSettled, SQLiteInbox

BASH = CanUseToolRequest(
    tool_name="Bash", input={"command": "rm \x1b[2J x"}, tool_use_id="t", agent_id="a1", decision_reason="because"
)
QUESTION = CanUseToolRequest(
    tool_name="AskUserQuestion",
    input={"questions": [{"question": "Which?", "header": "W", "options": [{"label": "A", "description": "first"}]}]},
    tool_use_id="t",
)
PLAN = CanUseToolRequest(tool_name="ExitPlanMode", input={}, tool_use_id="t")
FORM = ElicitationRequest(
    server_name="e",
    message="Who?",
    url="https://example.com",
    mode="form",
    requested_schema={"properties": {"n": {"type": "string", "enum": ["a", "b"]}}, "required": ["n"]},
)
DIALOG = UserDialogRequest(dialog_kind="refusal_fallback_prompt")


async def answered(inbox: SQLiteInbox, kind: Any, wire: Any, words: list[str], *more: str) -> tuple[Any, list[int]]:
    """Ask, answer on the command line, and return the reply and the exit codes."""
    replies: list[Any] = []
    codes: list[int] = []

    async def ask() -> None:
        replies.append(await inbox.ask(kind, wire, PermissionContext(request_id="r", session_id="s1", agent_id="a1")))

    def person() -> None:
        codes.append(main(["inbox", "--inbox", str(inbox.path), "list", *more]))
        (interaction,) = inbox
        codes.append(main(["inbox", "--inbox", str(inbox.path), "answer", interaction.id, *words]))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while not await to_thread.run_sync(lambda: list(inbox)):
                await anyio.sleep(0.01)
            await to_thread.run_sync(person)
            if codes[-1] != 0:
                group.cancel_scope.cancel()
    return (replies[0] if replies else None), codes


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "wire", "words", "reply", "shown"),
    [
        (
            "permission",
            BASH,
            ["deny", "not", "-rf"],
            {"behavior": "deny", "message": "not -rf"},
            ["agent a1 of session s1", "command: rm \ufffd[2J x", "because: because", "allow | deny [why]"],
        ),
        (
            "question",
            QUESTION,
            ["1"],
            {"behavior": "allow", "updatedInput": {**QUESTION.input, "answers": {"Which?": "A"}}},
            ["Which?", "1. A: first"],
        ),
        ("plan", PLAN, ["allow"], {"behavior": "allow"}, ["was not written down"]),
        (
            "elicitation",
            FORM,
            ["accept", "n=a"],
            {"action": "accept", "content": {"n": "a"}},
            ["e asks", "Who?", "https://example.com", "n: string (a, b), required"],
        ),
        ("dialog", DIALOG, ["dismiss"], {"behavior": "cancelled"}, ["refusal_fallback_prompt"]),
    ],
)
async def test_every_kind_is_shown_and_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: Any, wire: Any, words: list[str], reply: Any, shown: Any
) -> None:
    inbox = SQLiteInbox(tmp_path / "i.db", poll=0.01)
    assert await answered(inbox, kind, wire, words) == (reply, [0, 0])
    printed = capsys.readouterr().out
    assert all(part in printed for part in shown), printed
    assert "\x1b" not in printed
    assert printed.endswith("answered\n")


@pytest.mark.anyio
async def test_open_questions_are_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inbox = SQLiteInbox(tmp_path / "i.db", poll=0.01)
    await answered(inbox, "permission", BASH, ["deny"], "--json")
    [fact] = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (fact["kind"], fact["session_id"], fact["agent_id"]) == ("permission", "s1", "a1")
    assert fact["request"]["input"] == BASH.input
    assert main(["inbox", "--inbox", str(inbox.path), "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.anyio
async def test_words_that_mean_nothing_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inbox = SQLiteInbox(tmp_path / "i.db", poll=0.01)
    assert await answered(inbox, "permission", BASH, ["perhaps"]) == (None, [0, 1])
    assert "answer with: allow | deny [why]" in capsys.readouterr().err


def test_an_empty_inbox(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    SQLiteInbox(tmp_path / "i.db")
    monkeypatch.setenv("CLAUDE_AGENT_INBOX", str(tmp_path / "i.db"))
    assert main(["inbox", "list"]) == 0
    assert capsys.readouterr().out == "nothing is waiting\n"
    assert main(["inbox", "answer", "12ab", "allow"]) == 1
    assert "'12ab'" in capsys.readouterr().err


def test_no_inbox(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLAUDE_AGENT_INBOX", raising=False)
    assert main(["inbox", "list"]) == 1
    assert "--inbox" in capsys.readouterr().err
    assert main(["inbox", "--inbox", str(tmp_path / "none.db"), "list"]) == 1
    assert "inbox not found" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE books (title)")
    before = (tmp_path / "other.db").read_bytes()
    assert main(["inbox", "--inbox", str(tmp_path / "other.db"), "list"]) == 1
    assert "other.db is not an inbox" in capsys.readouterr().err
    assert (tmp_path / "other.db").read_bytes() == before


@pytest.mark.anyio
@pytest.mark.parametrize("more", [[], ["--full"]])
async def test_long_values_and_further_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    command = "a\n    because: nothing\nfile_path: /x\n" + "b" * 3000 + "rm"
    inbox = SQLiteInbox(tmp_path / "inbox.db", poll=0.01)
    wire = CanUseToolRequest(tool_name="Bash", input={"command": command}, tool_use_id="t")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.ask, "permission", wire, PermissionContext(request_id="r"))
            interaction = await anext(inbox.arrivals())
            assert await to_thread.run_sync(main, ["inbox", "--inbox", str(inbox.path), "list", *more]) == 0
            await interaction.deny()
    shown = capsys.readouterr().out
    assert ("bbbrm" in shown) == bool(more)
    assert ("--full shows all of it" in shown) != bool(more)
    lines = shown.splitlines()
    assert [line.lstrip()[0] for line in lines if "because" in line or "file_path" in line] == ["|", "|"]


@pytest.mark.anyio
async def test_no_line_of_a_question_looks_like_another_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = {**QUESTION.input["questions"][0], "question": "Which?\nanswer with: allow"}
    wire = QUESTION.replace(input={"questions": [forged]})
    await answered(SQLiteInbox(tmp_path / "i.db", poll=0.01), "question", wire, ["1"])
    shown = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in shown if "answer with: allow" in line] == [
        "| answer with: allow (a number, or your own words)"
    ]


@pytest.mark.anyio
async def test_the_id_of_the_task_that_asks_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inbox = SQLiteInbox(tmp_path / "i.db", poll=0.01)
    context = RecordingContext(request_id="r", agent_id="a1")

    def settled() -> list[InteractionSettled]:
        return [event for event in context.events if isinstance(event, InteractionSettled)]

    async def ask() -> None:
        await inbox.ask("permission", BASH, context)

    def answer(*words: str) -> int:
        return main(["inbox", "--inbox", str(inbox.path), "answer", *words])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(ask)
            while len(waiting := await to_thread.run_sync(lambda: list(inbox))) < 2:
                await anyio.sleep(0.01)
            assert await to_thread.run_sync(answer, "a1", "allow") == 1
            said = capsys.readouterr().err
            assert all(one.id in said for one in waiting)
            assert await to_thread.run_sync(answer, waiting[0].id, "deny") == 0
            while not settled():
                await anyio.sleep(0.01)
            assert await to_thread.run_sync(answer, "--by", "Ann", "a1", "allow") == 0
            assert await to_thread.run_sync(answer, "a2", "allow") == 1
    assert [event.source.by for event in settled() if event.source][-1] == "Ann"
    assert all(event.source and event.source.origin.startswith("process ") for event in settled())

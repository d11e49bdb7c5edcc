"""The inbox: questions that people answer, from wherever they are."""

import asyncio
import json
import os
import pydoc
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread
from bounds import set_bound
from cancelling import cancel_in_a_row
from forks import run_program
from questions import RecordingContext

from claude_agent_py import Allow, Deny, PermissionContext, PermissionRequest, read_only
from claude_agent_py.control import CanUseToolRequest, ElicitationRequest, UserDialogRequest
from claude_agent_py.errors import OptionsError
from claude_agent_py.permissions import (
    Accept,
    AnswerSource,
    Cancel,
    Completed,
    Decline,
    Dismissed,
    Inbox,
    Interaction,
    InteractionOpened,
    InteractionSettled,
    PendingInteractions,
    SQLiteInbox,
    first_of,
    read_typed,
)

pytestmark = pytest.mark.anyio

BASH = CanUseToolRequest(tool_name="Bash", input={"command": "rm\n-rf \x1b[2J/"}, tool_use_id="t1", agent_id="a1")
QUESTIONS = CanUseToolRequest(
    tool_name="AskUserQuestion",
    input={
        "questions": [
            {"question": "Which?", "header": "W", "options": [{"label": "A"}, {"label": "B"}], "multiSelect": True},
            {"question": "Why?", "header": "Y", "options": [{"label": "C"}, {"label": "D"}]},
        ]
    },
    tool_use_id="t2",
)
PLAN = CanUseToolRequest(tool_name="ExitPlanMode", input={"plan": "\n1. a\n2. b"}, tool_use_id="t3")
FORM = ElicitationRequest(server_name="e", message="?", requested_schema={"properties": {"n": {"type": "integer"}}})
DIALOG = UserDialogRequest(dialog_kind="refusal_fallback_prompt")


def context() -> PermissionContext:
    return PermissionContext(
        request_id="r1", session_id="s1", agent_id="a1", task=cast(Any, SimpleNamespace(description="count"))
    )


@pytest.fixture(params=["memory", "sqlite"])
def inbox(request: pytest.FixtureRequest, tmp_path: Path) -> Inbox:
    """Both inboxes keep the same promises."""
    return PendingInteractions() if request.param == "memory" else SQLiteInbox(tmp_path / "inbox.db", poll=0.01)


async def arrival(inbox: Inbox) -> Interaction:
    """Wait for a question."""
    while not (waiting := await to_thread.run_sync(lambda: list(inbox))):
        await anyio.sleep(0.005)
    return waiting[0]


async def answered(inbox: Inbox, kind: Any, wire: Any, answer: Callable[[Interaction], Awaitable[Any]]) -> Any:
    """Ask, have it answered, and give the reply."""
    replies: list[Any] = []

    async def ask() -> None:
        replies.append(await inbox.ask(kind, wire, context()))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await answer(await arrival(inbox))
    return replies[0]


@pytest.mark.parametrize(
    ("kind", "wire", "value", "reply"),
    [
        ("permission", BASH, Allow({"command": "ls"}), {"behavior": "allow", "updatedInput": {"command": "ls"}}),
        ("permission", BASH, Deny("no", interrupt=True), {"behavior": "deny", "message": "no", "interrupt": True}),
        (
            "question",
            QUESTIONS,
            [["A", "B"], "C"],
            {
                "behavior": "allow",
                "updatedInput": {**QUESTIONS.input, "answers": {"Which?": "A, B", "Why?": "C"}},
            },
        ),
        ("plan", PLAN, Allow(), {"behavior": "allow"}),
        ("elicitation", FORM, Accept({"n": 3}), {"action": "accept", "content": {"n": 3}}),
        ("elicitation", FORM, Decline(), {"action": "decline"}),
        ("dialog", DIALOG, Completed({"a": 1}), {"behavior": "completed", "result": {"a": 1}}),
    ],
)
async def test_every_kind_is_answered(inbox: Inbox, kind: Any, wire: Any, value: Any, reply: Any) -> None:
    assert await answered(inbox, kind, wire, lambda interaction: interaction.answer(value)) == reply
    assert list(inbox) == []


@pytest.mark.parametrize(
    ("kind", "wire", "reply"),
    [
        ("permission", BASH, {"behavior": "deny", "message": "later"}),
        ("question", QUESTIONS, {"behavior": "deny", "message": "later"}),
        ("elicitation", FORM, {"action": "cancel"}),
        ("dialog", DIALOG, {"behavior": "cancelled"}),
    ],
)
async def test_every_kind_is_denied(inbox: Inbox, kind: Any, wire: Any, reply: Any) -> None:
    assert await answered(inbox, kind, wire, lambda interaction: interaction.deny("later")) == reply


async def test_an_interaction_says_what_is_asked_and_who_asks(inbox: Inbox) -> None:
    async def look(interaction: Interaction) -> None:
        assert (interaction.kind, interaction.agent_id, interaction.task_description) == ("permission", "a1", "count")
        assert interaction.session_id == "s1"
        assert isinstance(interaction.subject, PermissionRequest)
        assert interaction.subject.raw_input == BASH.input
        assert interaction.summary == "Bash: rm -rf \ufffd[2J/"
        assert not inbox[interaction.id].done
        assert interaction.deadline is None
        assert interaction.created_at > 1e9
        assert inbox[interaction.id].id == interaction.id
        assert inbox.get("nothing") is None
        with pytest.raises(KeyError):
            inbox["nothing"]
        assert await interaction.answer(Allow())
        assert interaction.done
        assert "done" in repr(interaction) or isinstance(inbox, SQLiteInbox)

    await answered(inbox, "permission", BASH, look)


async def test_an_invalid_answer_leaves_the_question_open(inbox: Inbox) -> None:
    async def try_twice(interaction: Interaction) -> None:
        with pytest.raises(ValueError, match="type bool"):
            await interaction.answer(True)
        assert not interaction.done
        assert await interaction.answer(Allow())

    assert await answered(inbox, "permission", BASH, try_twice) == {"behavior": "allow"}


async def test_of_many_that_answer_at_once_one_wins(inbox: Inbox) -> None:
    won: list[int] = []

    async def race(interaction: Interaction) -> None:
        barrier = threading.Barrier(8)

        def answer(number: int) -> None:
            barrier.wait(60)
            if interaction.resolve(Deny(str(number))):
                won.append(number)

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(to_thread.run_sync, answer, number)

    reply = await answered(inbox, "permission", BASH, race)
    assert len(won) == 1
    assert reply["message"] == str(won[0])


async def test_a_late_answer_returns_false(inbox: Inbox) -> None:
    kept: list[Interaction] = []

    async def withdraw(group: Any) -> None:
        kept.append(await arrival(inbox))
        group.cancel_scope.cancel()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.ask, "permission", BASH, context())
            group.start_soon(withdraw, group)
    assert kept[0].done
    assert not await kept[0].answer(Allow())
    assert not await kept[0].deny()
    assert list(inbox) == []


@pytest.mark.parametrize(
    "make", [lambda path: PendingInteractions(timeout=0.05), lambda path: SQLiteInbox(path, timeout=0.05)]
)
async def test_a_deadline_denies(make: Callable[[Path], Inbox], tmp_path: Path) -> None:
    with anyio.fail_after(30):
        reply = await make(tmp_path / "i.db").ask("permission", BASH, context())
    assert reply == {"behavior": "deny", "message": "The request timed out without an answer."}


@pytest.mark.parametrize(
    "make", [lambda path: PendingInteractions(timeout=600), lambda path: SQLiteInbox(path, timeout=600, poll=0.01)]
)
async def test_a_question_says_who_asks_what_and_until_when(make: Callable[[Path], Inbox], tmp_path: Path) -> None:
    inbox = make(tmp_path / "i.db")
    seen: list[Interaction] = []

    async def look(interaction: Interaction) -> None:
        seen.append(interaction)
        found = await to_thread.run_sync(lambda: [inbox.get(interaction.id), inbox[interaction.id], inbox.get("x")])
        assert [each and each.id for each in found] == [interaction.id, interaction.id, None]
        with pytest.raises(KeyError, match="x"):
            await to_thread.run_sync(lambda: inbox["x"])
        assert repr(interaction) == f"<Interaction {interaction.id} permission>"
        assert await interaction.deny()

    before = time.time()
    refused = {"behavior": "deny", "message": "The user denied this."}
    assert await answered(inbox, "permission", BASH, look) == refused
    [question] = seen
    assert before <= question.created_at <= time.time()
    assert question.deadline == question.created_at + 600
    assert question.task_description == "count"
    assert question.to_dict() == {
        "id": question.id,
        "session_id": "s1",
        "kind": "permission",
        "summary": "Bash: rm -rf \ufffd[2J/",
        "agent_id": "a1",
        "created_at": question.created_at,
        "request": {
            "subtype": "can_use_tool",
            "tool_name": "Bash",
            "input": BASH.input,
            "tool_use_id": "t1",
            "agent_id": "a1",
        },
    }
    assert repr(question) == f"<Interaction {question.id} permission, done>"


async def test_an_inbox_is_a_policy(inbox: Inbox) -> None:
    policy = first_of(read_only(), inbox.permission)
    decisions: list[Any] = []

    async def decide() -> None:
        answer: Any = policy(PermissionRequest(BASH), context())
        decisions.append(await answer)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(decide)
            await (await arrival(inbox)).answer(Deny("no"))
    assert decisions == [Deny("no")]


async def test_a_person_is_waited_for_meanwhile(inbox: Inbox) -> None:
    heard: list[bool] = []
    asking = RecordingContext(request_id="r", waits=heard)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.ask, "permission", BASH, asking)
            interaction = await arrival(inbox)
            while not heard:
                await anyio.sleep(0.005)
            assert heard == [True]
            await interaction.answer(Allow())
    assert heard == [True, False]


# In memory -------------------------------------------------------------------------------------------------------


async def test_another_thread_with_its_own_loop_watches_and_answers() -> None:
    inbox = PendingInteractions()

    async def watch() -> None:
        async for interaction in inbox.arrivals():
            await interaction.answer(Deny(interaction.task_description or ""))
            break

    async def in_thread() -> None:
        await to_thread.run_sync(anyio.run, watch)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(in_thread)
            assert await inbox.ask("permission", BASH, context()) == {"behavior": "deny", "message": "count"}


async def test_arrivals_yields_pending_and_later_questions() -> None:
    inbox, seen = PendingInteractions(), []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.ask, "permission", BASH, context())
            await arrival(inbox)
            assert len(inbox) == 1
            async for interaction in inbox.arrivals():
                seen.append(interaction.kind)
                await interaction.deny()
                if len(seen) == 2:
                    break
                group.start_soon(inbox.ask, "plan", PLAN, context())
    assert seen == ["permission", "plan"]
    assert inbox  # an empty one is one, too
    assert len(inbox) == 0


async def test_arrivals_leaves_out_what_was_answered_before_it_came_to_it() -> None:
    inbox, seen = PendingInteractions(), []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            asked: Any
            kind: Any
            for kind, asked in (("permission", BASH), ("plan", PLAN), ("permission", BASH)):
                group.start_soon(inbox.ask, kind, asked, context())
                await anyio.wait_all_tasks_blocked()
            async for interaction in inbox.arrivals():
                seen.append(interaction.kind)
                await interaction.deny()
                for other in inbox:
                    if other.kind == "plan":
                        await other.deny()
                if len(seen) == 2:
                    break
    assert seen == ["permission", "permission"]


# In a file -------------------------------------------------------------------------------------------------------

ANSWER = """
import sys
from claude_agent_py.permissions import SQLiteInbox
from claude_agent_py.permissions import read_typed
[interaction] = SQLiteInbox(sys.argv[1])
print(interaction.summary, interaction.agent_id, interaction.task_description)
print(interaction.resolve(read_typed(interaction, sys.argv[2:])))
"""


async def test_another_process_lists_and_answers(tmp_path: Path) -> None:
    path = tmp_path / "inbox.db"

    async def other_process(interaction: Interaction) -> None:
        command = [sys.executable, "-c", ANSWER, str(path), "deny", "too", "dangerous"]
        done = await anyio.to_thread.run_sync(run_program, command)
        assert done.stdout.splitlines() == ["Bash: rm -rf \ufffd[2J/ a1 count", "True"]

    reply = await answered(SQLiteInbox(path, poll=0.01), "permission", BASH, other_process)
    assert reply == {"behavior": "deny", "message": "too dangerous"}


async def test_a_question_whose_session_is_gone_is_not_shown_and_cannot_be_answered(tmp_path: Path) -> None:
    inbox = SQLiteInbox(tmp_path / "inbox.db")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.ask, "permission", BASH, context())
            interaction = await arrival(inbox)
            with sqlite3.connect(inbox.path) as database:
                database.execute("UPDATE interactions SET seen_at = seen_at - 60")
            database.close()
            assert list(inbox) == []
            assert not interaction.resolve(Allow())
            group.cancel_scope.cancel()


@pytest.mark.parametrize("is_waiting", [True, False])
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_cancellations_by_asyncio_in_a_row_leave_no_question(
    is_waiting: bool, anyio_backend: str, tmp_path: Path
) -> None:
    """The first one may come while the question is written, and the later ones while it is closed."""
    inbox, told = SQLiteInbox(tmp_path / "inbox.db", poll=0.01), list[Any]()
    with closing(sqlite3.connect(inbox.path, isolation_level=None)) as other, anyio.fail_after(30):
        if not is_waiting:
            other.execute("BEGIN IMMEDIATE")
        asking = asyncio.create_task(inbox.ask("permission", BASH, RecordingContext(request_id="r", events=told)))
        for _ in range(10):
            await asyncio.sleep(0)
        if is_waiting:
            await arrival(inbox)
            while not told:  # it is on disk before that is told
                await asyncio.sleep(0)
        await cancel_in_a_row(asking)
        if not is_waiting:
            other.execute("ROLLBACK")
        await asyncio.wait([asking])
        assert asking.cancelled()
        assert other.execute("SELECT state FROM interactions").fetchall() == [("withdrawn",)]
    assert list(map(type, told)) == ([InteractionOpened, InteractionSettled] if is_waiting else [])


async def test_a_session_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "HEARTBEAT_INTERVAL", 0.0)
    inbox = SQLiteInbox(tmp_path / "inbox.db", poll=0.01)

    def age(seconds: float) -> None:
        inbox._run(lambda database: database.execute("UPDATE interactions SET seen_at = seen_at - ?", (seconds,)))

    async def look(interaction: Interaction) -> None:
        await to_thread.run_sync(age, 60)
        assert await (await arrival(inbox)).answer(Allow())

    assert await answered(inbox, "permission", BASH, look) == {"behavior": "allow"}


@pytest.mark.parametrize("reply", ["", "[]", '{"behavior": "perhaps"}', '{"behavior": "allow", "updatedInput": 3}'])
async def test_an_answer_in_the_file_that_is_none_denies(tmp_path: Path, reply: str) -> None:
    inbox = SQLiteInbox(tmp_path / "inbox.db", poll=0.01)

    async def scribble(interaction: Interaction) -> None:
        inbox._run(lambda database: database.execute("UPDATE interactions SET state = 'answered', reply = ?", (reply,)))

    assert (await answered(inbox, "permission", BASH, scribble))["behavior"] == "deny"


async def test_interactions_are_forgotten_a_day_after_they_ended(tmp_path: Path) -> None:
    inbox = SQLiteInbox(tmp_path / "inbox.db", timeout=0.01)
    await inbox.ask("permission", BASH, context())

    def rows() -> int:
        return int(inbox._run(lambda database: database.execute("SELECT count(*) FROM interactions").fetchone()[0]))

    SQLiteInbox(inbox.path)
    assert rows() == 1
    inbox._run(lambda database: database.execute("UPDATE interactions SET created_at = 1, seen_at = 1"))
    SQLiteInbox(inbox.path)
    assert rows() == 0


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
def test_the_file_belongs_to_one_user(tmp_path: Path) -> None:
    path = tmp_path / "inbox.db"
    SQLiteInbox(path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o666)
    with pytest.raises(OptionsError, match="other users"):
        SQLiteInbox(path)
    path.chmod(0o644)
    SQLiteInbox(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_no_inbox_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no database, but long enough to look like one" * 50)
    (tmp_path / "x").chmod(0o755)
    with pytest.raises(OptionsError, match="not a database"):
        SQLiteInbox(tmp_path / "x")
    if os.name == "posix":
        assert (tmp_path / "x").stat().st_mode & 0o777 == 0o755
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OptionsError, match="cannot be opened"):
            SQLiteInbox(tmp_path / "pipe")
    (tmp_path / "damaged").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(OptionsError, match="cannot be used"):
        SQLiteInbox(tmp_path / "damaged")
    with pytest.raises(OptionsError, match="cannot be opened"):
        SQLiteInbox(tmp_path / "nothing" / "x")


# What a person types ---------------------------------------------------------------------------------------------


class Shown(Interaction):
    """A question that is only looked at."""

    @property
    def done(self) -> bool:
        return True

    def _settle(self, reply: Any, source: Any) -> bool:
        return True


@pytest.mark.parametrize(
    ("kind", "wire", "typed", "value"),
    [
        ("permission", BASH, ["allow"], Allow()),
        ("permission", BASH, ["YES"], Allow()),
        ("permission", BASH, ["deny"], Deny("")),
        ("permission", BASH, ["deny", "too", "dangerous"], Deny("too dangerous")),
        ("plan", PLAN, ["approve"], Allow()),
        ("question", QUESTIONS, ["1,2", "2"], [["A", "B"], "D"]),
        ("question", QUESTIONS, ["3", "my own words"], ["3", "my own words"]),
        ("question", QUESTIONS, ["deny", "later"], Deny("later")),
        ("elicitation", FORM, ["accept", "n=3"], Accept({"n": 3})),
        ("elicitation", FORM, ["decline"], Decline()),
        ("elicitation", FORM, ["cancel"], Cancel()),
        ("dialog", DIALOG, ["complete", '{"a":', "1}"], Completed({"a": 1})),
        ("dialog", DIALOG, ["complete"], Completed(None)),
        ("dialog", DIALOG, ["dismiss"], Dismissed()),
    ],
)
def test_typed_text_is_read_as_an_answer(kind: Any, wire: Any, typed: list[str], value: Any) -> None:
    shown = Shown(kind, wire, id="1", created_at=0)
    assert read_typed(shown, typed) == value
    assert shown.resolve(value)
    assert shown.summary


@pytest.mark.parametrize(
    ("kind", "wire", "typed"),
    [
        ("permission", BASH, []),
        ("permission", BASH, ["perhaps"]),
        ("permission", BASH, ["allow", "it", "not"]),
        ("question", QUESTIONS, ["1"]),
        ("elicitation", FORM, ["accept", "n"]),
        ("elicitation", FORM, ["accept", "n=x"]),
        ("elicitation", FORM, ["yes"]),
        ("dialog", DIALOG, ["complete", "{"]),
        ("dialog", DIALOG, ["ok"]),
    ],
)
def test_typed_text_without_a_meaning_is_refused(kind: Any, wire: Any, typed: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_typed(Shown(kind, wire, id="1", created_at=0), typed)


def test_the_names_of_the_package_exist() -> None:
    from claude_agent_py import permissions

    assert all(getattr(permissions, name) is not None for name in dir(permissions))
    code = "import sys, claude_agent_py.permissions; "
    code += "print([m for m in sys.modules if 'permissions.' in m and 'wire' not in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


# Ends and directories ----------------------------------------------------------------------------------------------


async def test_arrivals_end_when_the_inbox_is_closed() -> None:
    inbox = PendingInteractions()
    seen: list[str] = []

    async def watch() -> None:
        seen.extend([interaction.id async for interaction in inbox.arrivals()])

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await anyio.lowlevel.checkpoint()
            inbox.close()
        assert [one async for one in inbox.arrivals()] == []
        reply = await inbox.ask("permission", BASH, context())  # nobody is left to answer
    assert (reply["behavior"], reply["message"]) == ("deny", "Nobody answers: the inbox is closed.")
    assert seen == []


async def test_a_file_gives_what_arrives_once(tmp_path: Path) -> None:
    inbox = SQLiteInbox(tmp_path / "inbox.db", poll=0.01)
    kinds: list[str] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.ask, "permission", BASH, context())
            group.start_soon(inbox.ask, "dialog", DIALOG, context())
            async for interaction in inbox.arrivals():
                kinds.append(interaction.kind)
                assert await interaction.deny()
                if len(kinds) == 2:
                    break
    assert sorted(kinds) == ["dialog", "permission"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of files are POSIX's")
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_directory_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(OptionsError, match="other users can replace"):
        SQLiteInbox(directory / "inbox.db")
    directory.chmod(mode | 0o1000)
    SQLiteInbox(directory / "inbox.db")
    directory.chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="links are made otherwise")
def test_an_inbox_that_is_a_link_is_refused(tmp_path: Path) -> None:
    SQLiteInbox(tmp_path / "inbox.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "inbox.db")
    with pytest.raises(OptionsError, match="cannot be opened"):
        SQLiteInbox(tmp_path / "link.db")


async def test_an_answer_comes_with_its_source(tmp_path: Path) -> None:
    inbox = SQLiteInbox(tmp_path / "inbox.db", poll=0.01)
    settled: list[Any] = []
    context = RecordingContext(request_id="r", session_id="s1", events=settled)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.ask, "permission", BASH, context)
            waiting = await anext(inbox.arrivals())
            assert waiting.session_id == "s1"
            assert await waiting.answer(Allow(), by="Ann")
    source = settled[-1].source
    assert (source.by, source.origin.split()[:2]) == ("Ann", ["process", str(os.getpid())])
    assert settled[-1].answer == {"behavior": "allow"}


async def test_help_lists_the_attributes_of_an_interaction(tmp_path: Path) -> None:
    shown = pydoc.plain(pydoc.render_doc(Interaction))
    inbox = SQLiteInbox(tmp_path / "inbox.db", poll=0.01)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.ask, "permission", BASH, RecordingContext(request_id="r"))
            waiting = await anext(inbox.arrivals())
            for name in vars(waiting):
                assert name.startswith("_") or f"{name}: " in shown, name
            assert await waiting.answer(Allow())


def test_an_answer_from_a_container_without_users_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr("getpass.getuser", fail)
    assert AnswerSource.here().by == ""
    assert AnswerSource.here("Ada").by == "Ada"

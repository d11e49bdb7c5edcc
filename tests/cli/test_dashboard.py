"""The dashboard of `watch`: real sessions of the CLI, an inbox and a fleet, in an application that a pilot operates."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fleets import QUESTION, built, fleet_in, given_options, until_state
from textual.widgets import Input, RichLog, SelectionList

from claude_agent_py import Client, ClientOptions, PermissionContext
from claude_agent_py.cli._dashboard.app import Dashboard
from claude_agent_py.cli._dashboard.model import DashboardModel
from claude_agent_py.cli._dashboard.rows import Row
from claude_agent_py.cli._dashboard.tree import RowTree
from claude_agent_py.control import CanUseToolRequest, ElicitationRequest
from claude_agent_py.errors import ClaudeAgentError
from claude_agent_py.permissions import SQLiteInbox
from claude_agent_py.sessions import get_session
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

PATIENCE = 100.0


class Told(Dashboard):
    """A dashboard that remembers its notes."""

    def __init__(self, board: DashboardModel) -> None:
        super().__init__(board, every=0.3)
        self.notes: list[str] = []

    def notify(self, message: str, **more: Any) -> None:
        self.notes.append(message)
        super().notify(message, **more)


async def until(pilot: Any, find: Callable[[], Any]) -> Any:
    """Wait until something is found in the application, and return it."""
    with anyio.fail_after(PATIENCE):
        while not (found := find()):
            await pilot.pause(0.05)
    return found


def shown(app: Dashboard) -> str:
    """Return the lines of the tree as they are drawn."""
    tree = app.query_one(RowTree)
    return "\n".join(tree.render_line(at).text.rstrip() for at in range(tree.size.height))


def rows(app: Dashboard) -> list[Row]:
    return [node.data for node in app.query_one(RowTree).nodes() if node.data is not None]


def go_to(app: Dashboard, key: str) -> None:
    tree = app.query_one(RowTree)
    tree.move_cursor(next(node for node in tree.nodes() if node.data is not None and node.data.key == key))


def told_rows(board: DashboardModel) -> list[Any]:
    return [row.as_json() for top in board.refresh() for row in top.walk() if row.facts]


@pytest.mark.real_cli
async def test_a_session_is_shown_answered_read_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", "")
    monkeypatch.setenv("WAYLAND_DISPLAY", "")
    gate = Gate()
    launch = {"description": "auth [red]now[/]", "prompt": "Look at auth", "subagent_type": "general-purpose"}
    make = {"command": "touch made; echo made-it", "description": "make"}
    script = [
        Reply([tool_use("Agent", {**launch, "run_in_background": True}), tool_use("Bash", make)]),
        "It is made, and auth is under way.",
    ]
    agents = {"Look at auth": Reply("sound", after=gate)}
    inbox = tmp_path / "inbox.db"
    async with ScriptedModel(script, agents=agents, on_exhausted="Done.") as model:
        options = model.options(permission_mode="default", interactions=SQLiteInbox(inbox, poll=0.05))
        app = Told(DashboardModel(str(model.sandbox.config_dir), inbox=str(inbox)))
        async with Client(options) as client, app.run_test(size=(130, 24)) as pilot:
            run = client.query("Make it", until="idle")
            session = await until(pilot, lambda: next((row for row in rows(app) if row.questions), None))
            task = await until(pilot, lambda: next((row for row in rows(app) if row.kind == "task"), None))
            assert (session.pid, session.question.summary) == (client.pid, "Bash: touch made; echo made-it")
            other = DashboardModel(str(model.sandbox.config_dir), inbox=str(inbox))
            [told] = await anyio.to_thread.run_sync(told_rows, other)
            assert (told["status"], told["waits_for"]) == ("waiting", "Bash: touch made; echo made-it")
            assert [one["kind"] for one in told["interactions"]] == ["permission"]
            assert told["cost_usd"] is None  # no price is known
            assert sys.platform != "linux" or told["host"]["pid"] == os.getpid()
            await until(pilot, lambda: "auth [red]now[/] (general-purpose)" in shown(app))  # once its files are written
            assert "asks" in shown(app)
            go_to(app, session.key)
            await pilot.press("a")
            await until(pilot, lambda: "command: touch made" in str(app.screen.query_one("#asked Static").render()))
            await pilot.press("tab", "enter")
            await until(pilot, lambda: "answered" in app.notes)
            await until(pilot, lambda: (model.sandbox.cwd / "made").exists())

            go_to(app, session.key)
            await pilot.press("enter")
            await until(pilot, lambda: any("auth is under way" in line.text for line in app.query_one(RichLog).lines))
            total = get_session(session.session_id, config_dir=model.sandbox.config_dir).usage.total.total_tokens
            await until(pilot, lambda: rows(app)[0].spent.tokens == total)
            await pilot.press("o")
            [note] = await until(pilot, lambda: [note for note in app.notes if note.startswith("open /")])
            page = Path(note.removeprefix("open "))
            assert page.stat().st_mode & 0o077 == 0
            assert page.parent.stat().st_mode & 0o077 == 0
            assert "made-it" in page.read_text()

            go_to(app, task.key)
            await pilot.press("s")
            await until(pilot, lambda: [note for note in app.notes if "only the program" in note])
            go_to(app, session.key)
            await pilot.press("s", "n")
            assert client.is_open
            await pilot.press("s", "y")
            await until(pilot, lambda: f"process {session.pid} has ended" in app.notes)
            with pytest.raises(ClaudeAgentError), anyio.fail_after(PATIENCE):
                await run
            await until(pilot, lambda: not rows(app))


@pytest.mark.real_cli
async def test_a_fleet_is_shown_answered_and_cancelled(tmp_path: Path) -> None:
    with ScriptedModel(built) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        options = ClientOptions(inherit_env=False, **given_options(model, permission_mode="default"))
        fleet.agent("asking", options, patience=0.2)
        fleet.agent("keeping", options, patience=PATIENCE)
        app = Told(DashboardModel(str(model.sandbox.config_dir), made.url))
        async with fleet.worker(folder=tmp_path / "ws"), app.run_test(size=(130, 24)) as pilot:
            asks = await fleet.start("asking", "build it", id="asks")
            waiting = await until(pilot, lambda: next((row for row in rows(app) if row.state == "waiting"), None))
            assert (waiting.key, waiting.question.summary) == ("fleet:asks", "Which target?")
            go_to(app, waiting.key)
            await pilot.press("a")
            await until(pilot, lambda: app.screen.query("SelectionList"))
            await pilot.press("space", "down", "space")  # the second choice replaces the first
            await pilot.press("tab", "tab", "enter")
            await until(pilot, lambda: "answered" in app.notes)
            assert (await asks.result(timeout=PATIENCE)).text == "built release"

            keeps = await fleet.start("keeping", "build it", id="keeps")
            joined = await until(pilot, lambda: next((row for row in rows(app) if row.pid and row.questions), None))
            assert (joined.key, joined.state) == ("fleet:keeps", "running")
            assert [row.kind for row in rows(app)] == ["fleet", "fleet_session"]  # not once more as the machine's
            go_to(app, joined.key)
            await pilot.press("s", "y")
            await until(pilot, lambda: "cancelled" in app.notes)
            await until_state(keeps, "cancelled")
        every = DashboardModel(str(model.sandbox.config_dir), made.url, is_all=True)
        [cancelled, idle] = await anyio.to_thread.run_sync(told_rows, every)
        assert [(one["id"], one["state"]) for one in (cancelled, idle)] == [("keeps", "cancelled"), ("asks", "idle")]
        assert idle["tokens"] > 0
        assert idle["cost_usd"] > 0


async def test_each_kind_of_question_in_an_inbox_is_answered(tmp_path: Path) -> None:
    inbox = SQLiteInbox(tmp_path / "inbox.db", poll=0.02)
    plan = CanUseToolRequest(tool_name="ExitPlanMode", input={}, tool_use_id="t")
    schema = {"properties": {"n": {"type": "string", "enum": ["a", "b"]}}, "required": ["n"]}
    form = ElicitationRequest(server_name="e", message="Who?", mode="form", requested_schema=schema)
    both = CanUseToolRequest(
        tool_name="AskUserQuestion",
        input={"questions": [QUESTION["questions"][0], {**QUESTION["questions"][0], "question": "And then?"}]},
        tool_use_id="t",
    )
    app = Told(DashboardModel(str(tmp_path), inbox=str(inbox.path)))
    replies: list[Any] = []

    async def ask(kind: Any, wire: Any) -> None:
        replies.append(await inbox.ask(kind, wire, PermissionContext(request_id="r", session_id="elsewhere")))

    async def answer(*keys: str, words: str = "") -> None:
        found = await until(pilot, lambda: next((row for row in rows(app) if row.kind == "question"), None))
        go_to(app, found.key)
        await pilot.press("a")
        await until(pilot, lambda: app.screen.query("#words"))
        app.screen.query_one("#words", Input).value = words
        await pilot.press(*keys)

    async with app.run_test(size=(100, 40)) as pilot, anyio.create_task_group() as group:
        for kind, wire, keys, words, reply in (
            ("plan", plan, ("enter", "enter"), "not yet", {"behavior": "deny", "message": "not yet"}),
            ("elicitation", form, ("enter",), "accept n=b", {"action": "accept", "content": {"n": "b"}}),
        ):
            group.start_soon(ask, kind, wire)
            await answer(*keys, words=words)
            assert reply.items() <= (await until(pilot, lambda: replies and replies.pop())).items()
            await until(pilot, lambda: not rows(app))
        group.start_soon(ask, "question", both)
        await answer("tab", "tab", "enter", words="2")  # one answer for two questions
        await until(pilot, lambda: "there must be 2 answers" in str(app.screen.query_one("#wrong").render()))
        app.screen.query_one("#words", Input).value = ""
        first, second = app.screen.query(SelectionList)
        first.select("debug")
        second.select("release")
        await pilot.press("enter")
        reply = await until(pilot, lambda: replies and replies.pop())
        assert reply["updatedInput"]["answers"] == {"Which target?": "debug", "And then?": "release"}
        await until(pilot, lambda: not rows(app))

        group.start_soon(ask, "plan", plan)
        await answer()
        [question] = inbox
        assert question.refuse("answered elsewhere")
        await pilot.press("enter", "enter")
        await until(pilot, lambda: [note for note in app.notes if note.startswith("too late")])

"""Durable turns for tests: a session with its store and desk in a folder, and programs that run its prompts."""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
from forks import PRELOADED, Program
from leftovers import processes_with

from claude_agent_py import ClientOptions, RetryPolicy
from claude_agent_py.durable import PendingQuestion, TurnOutcome, run_turn
from claude_agent_py.messages import PromptContent
from claude_agent_py.permissions import QuestionRecord
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

PATIENCE = 240.0
"""For how long a test waits for what is about to happen, in seconds."""

PROGRAM = """
import json, sys, anyio
given = json.loads(sys.argv[1])
sys.path[:0] = given["path"]
from turns import run_to_its_end
anyio.run(run_to_its_end, given, backend=given["backend"])
"""


class FileDesk:
    """A desk in an SQLite file. It counts how often each question was new, and its answer taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._do(
            "CREATE TABLE IF NOT EXISTS questions"
            " (id INTEGER PRIMARY KEY, key TEXT, question TEXT, reply TEXT, state TEXT DEFAULT 'open')"
        )

    def _do(self, statement: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as connection:
            return connection.execute(statement, values).fetchall()

    def states(self) -> list[str]:
        """Return the state of each question that was ever asked."""
        return [state for (state,) in self._do("SELECT state FROM questions ORDER BY id")]

    def answer(self, value: object) -> None:
        """Answer all open questions."""
        for number, text in self._do("SELECT id, question FROM questions WHERE state = 'open' AND reply IS NULL"):
            reply = QuestionRecord.from_dict(json.loads(text)).reply(value)
            self._do("UPDATE questions SET reply = ? WHERE id = ?", json.dumps(reply), number)

    async def confirm(self) -> bool:
        return True

    async def ask(self, question: QuestionRecord) -> Any:
        is_answered = "key = ? AND state = 'open' AND reply IS NOT NULL"
        take = f"UPDATE questions SET state = 'taken' WHERE {is_answered} RETURNING reply"
        if found := self._do(take, question.key):
            return json.loads(found[0][0])
        self._do(
            "INSERT INTO questions (key, question) SELECT ?1, ?2"
            " WHERE NOT EXISTS (SELECT 1 FROM questions WHERE key = ?1 AND state = 'open')",
            question.key,
            json.dumps(question.to_dict()),
        )
        return None

    async def wait(self, question: QuestionRecord) -> None:
        await anyio.sleep(0.05)

    async def pending(self) -> Sequence[PendingQuestion]:
        rows = self._do("SELECT question, reply IS NOT NULL FROM questions WHERE state = 'open' ORDER BY id")
        return [PendingQuestion(QuestionRecord.from_dict(json.loads(text)), bool(has)) for text, has in rows]

    async def withdraw(self, question: QuestionRecord) -> None:
        self._do("UPDATE questions SET state = 'withdrawn' WHERE key = ? AND state = 'open'", question.key)


class Session:
    """A session whose prompts are run as durable turns."""

    def __init__(self, folder: Path, model: ScriptedModel, **options: Any) -> None:
        self.folder = folder
        self.model = model
        self.id = str(uuid4())
        self.options: dict[str, Any] = {
            "env": dict(model.environment()),
            "inherit_env": False,
            "permission_mode": "bypassPermissions",
            **options,
        }
        self.desk = FileDesk(folder / "desk.db")
        self.programs: list[subprocess.Popen[Any]] = []

    @property
    def key(self) -> Any:
        return {"project_key": "durable", "session_id": self.id}

    def store(self) -> SQLiteStore:
        return SQLiteStore(self.folder / "store.db")

    async def turn(self, prompt: PromptContent, prompt_id: str, **more: Any) -> TurnOutcome:
        """Call `run_turn` once in this process."""
        options = ClientOptions(**{**self.options, **more.pop("options", {})})
        given = {"store": self.store(), "desk": self.desk, "patience": 0.3, "retry": RetryPolicy(wait=0.1), **more}
        return await run_turn(options, session_id=self.id, prompt_id=prompt_id, prompt=prompt, **given)

    def start(self, prompt: str, prompt_id: str, *, backend: str = "asyncio", **more: Any) -> "subprocess.Popen[Any]":
        """Start a program that calls `run_turn` until the prompt has ended."""
        given = {
            "path": [str(Path(__file__).parent), str(Path(__file__).parents[1])],
            "folder": str(self.folder),
            "session": self.id,
            "prompt": prompt,
            "prompt_id": prompt_id,
            "options": self.options,
            "backend": backend,
            **more,
        }
        with (self.folder / f"program-{len(self.programs)}.log").open("wb") as log:
            program = Program(
                [sys.executable, "-c", PROGRAM, json.dumps(given)], preloaded=PRELOADED, stdout=log, stderr=log
            )
        self.programs.append(program)
        return program

    async def outcome(self, prompt_id: str) -> Any:
        """Wait for the outcome of a program."""
        path = self.folder / f"{prompt_id}.json"
        await until(path.exists, "the prompt ends", self)
        return TurnOutcome.from_dict(json.loads(path.read_text()))

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("program-*.log")))

    def clis(self) -> list[int]:
        """Return the processes of the CLI that run for the session."""
        found: list[int] = processes_with(f"HOME={self.model.sandbox.home}", "--output-format")
        return found

    async def count_prompts(self, text: str) -> int:
        """Return how often the conversation has a prompt."""
        with closing(self.store()) as store:
            entries: Any = await store.load(self.key) or ()
        return sum((entry.get("message") or {}).get("content") == text for entry in entries)

    def end(self) -> None:
        for program in self.programs:
            program.kill()
            program.wait()


@contextmanager
def session_in(folder: Path, model: ScriptedModel, **options: Any) -> Iterator[Session]:
    """Make a session, and end its programs."""
    made = Session(folder, model, **options)
    try:
        yield made
    finally:
        made.end()


async def run_to_its_end(given: Mapping[str, Any]) -> None:
    """Call `run_turn` until the prompt has ended, and write the outcome to a file. The engine of a test's program."""
    folder = Path(given["folder"])
    outcome: Any = None
    while outcome is None or outcome.kind in ("waiting", "later"):
        outcome = await run_turn(
            ClientOptions(**given["options"]),
            store=SQLiteStore(folder / "store.db"),
            session_id=given["session"],
            prompt_id=given["prompt_id"],
            prompt=given["prompt"],
            desk=FileDesk(folder / "desk.db"),
            patience=given.get("patience", 0.3),
            retry=RetryPolicy(wait=0.1),
        )
        print(outcome, flush=True)
        await anyio.sleep(min(getattr(outcome, "pause", 0.2), 1.0))
    path = folder / f"{given['prompt_id']}.json"
    path.with_suffix(".new").write_text(json.dumps(outcome.to_dict()))
    path.with_suffix(".new").replace(path)


async def until(is_so: Callable[[], Any], what: str, session: "Session | None" = None) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        late = time.monotonic() >= deadline
        assert not late, f"it never happened: {what}\n{'' if session is None else session.logs()}"
        await anyio.sleep(0.02)


def paying(ran: Path, *, then: str = "") -> Callable[[Any], Any]:
    """Return a model that runs one command for each prompt that begins with "pay", and answers once it has a result.

    A command whose outcome is unknown counts as one that has run, because the command appends to a file at once.
    """

    def answer(request: Any) -> Any:
        last = max((at for at, message in enumerate(request.messages) if "pay" in json.dumps(message)), default=-1)
        after = json.dumps(request.messages[last:])
        if last == -1:
            return "hello"
        if "tool_result" in after:
            return "it is paid"
        return Reply(tool_use("Bash", {"command": f"echo once >> {ran}{then}", "description": "settle"}))

    return answer


HAS_KILL = hasattr(signal, "SIGKILL")

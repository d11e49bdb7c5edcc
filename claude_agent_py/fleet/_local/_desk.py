"""`FileDesk`: the questions of one prompt, in the file of the fleet."""

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from claude_agent_py.durable import PendingQuestion
from claude_agent_py.fleet._local._changes import Claim, LostError, add_events, check_claim, settle_question
from claude_agent_py.fleet._local._file import File, Row, Transaction, decode
from claude_agent_py.permissions import QuestionRecord
from claude_agent_py.wire import JSONObject


class FileDesk:
    """The questions of a claimed prompt. See `Desk` for the methods.

    Args:
        file: The file of the fleet.
        claim: The claim.
        poll: Seconds between looks for an answer.
    """

    def __init__(self, file: File, claim: Claim, poll: float) -> None:
        self._file = file
        self._claim = claim
        self._poll = poll

    async def confirm(self) -> bool:
        try:
            await self._file.read(check_claim, self._claim)
        except LostError:
            return False
        return True

    async def ask(self, question: QuestionRecord) -> JSONObject | None:
        found: JSONObject | None = await self._file.write(self._ask, question)
        return found

    def _ask(self, tx: Transaction, question: QuestionRecord) -> JSONObject | None:
        check_claim(tx, self._claim)
        row = self._find(tx, question)
        if row is not None:
            if row["state"] != "answered":
                return None
            settle_question(tx, row, "taken")
            reply: JSONObject = decode(row["reply"])
            return reply
        run = self._claim.run["number"]
        asked: Mapping[str, Any] = {"id": secrets.token_hex(6), "kind": question.kind, "state": "pending"}
        stored = {"session": self._claim.id, "run": run, "digest": question.key, "agent_id": question.agent_id}
        request = {"request": json.dumps(question.request), "created_at": tx.now}
        tx.insert("fleet_interactions", {**asked, **stored, **request})
        add_events(tx, self._claim.id, run, [("interaction", tx.now, {**asked, "request": question.request})])
        return None

    async def wait(self, question: QuestionRecord) -> None:
        while True:
            row = await self._file.read(self._find, question)
            if row is None or row["state"] == "answered":
                return
            await anyio.sleep(self._poll)

    async def pending(self) -> Sequence[PendingQuestion]:
        rows = await self._file.read(self._list_open)
        return [PendingQuestion(self._read(row), row["state"] == "answered") for row in rows]

    async def withdraw(self, question: QuestionRecord) -> None:
        def withdraw(tx: Transaction) -> None:
            row = self._find(tx, question)
            if row is not None:
                settle_question(tx, row, "withdrawn" if row["state"] == "pending" else "taken")

        await self._file.write(withdraw)

    def _list_open(self, tx: Transaction) -> list[Row]:
        query = "SELECT * FROM fleet_interactions WHERE session = ? AND run = ? AND state IN ('pending', 'answered')"
        return tx.all(f"{query} ORDER BY created_at", self._claim.id, self._claim.run["number"])

    def _find(self, tx: Transaction, question: QuestionRecord) -> Row | None:
        return next((row for row in self._list_open(tx) if row["digest"] == question.key), None)

    def _read(self, row: Row) -> QuestionRecord:
        return QuestionRecord(
            kind=row["kind"], request=decode(row["request"]), session_id=row["session"], agent_id=row["agent_id"]
        )

"""`FileDesk`: the questions of one prompt, in the file of the fleet."""

import secrets
from collections.abc import Sequence
from functools import partial

import anyio

from claude_agent_py.durable import PendingQuestion
from claude_agent_py.fleet._local._changes import Claim, LostError, check_claim
from claude_agent_py.fleet._local._file import FleetFile, Transaction
from claude_agent_py.fleet._local._rows import changing, load_questions
from claude_agent_py.permissions import QuestionRecord
from claude_agent_py.wire import JSONObject


class FileDesk:
    """The questions of a claimed prompt. See `Desk` for the methods.

    Args:
        file: The file of the fleet.
        claim: The claim.
        poll: Seconds between looks for an answer.
    """

    def __init__(self, file: FleetFile, claim: Claim, poll: float) -> None:
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
        def ask(tx: Transaction) -> JSONObject | None:
            check_claim(tx, self._claim)
            with changing(tx, self._claim.id) as s:
                reply: JSONObject | None = s.ask(
                    question.key, question.to_dict(), partial(secrets.token_hex, 6), tx.now
                )
            return reply

        return await self._file.write(ask)

    async def wait(self, question: QuestionRecord) -> None:
        while any(each.question.key == question.key and not each.is_answered for each in await self.pending()):  # noqa: ASYNC110
            await anyio.sleep(self._poll)

    async def pending(self) -> Sequence[PendingQuestion]:
        found = await self._file.read(load_questions, self._claim.id)
        return [PendingQuestion(QuestionRecord.from_dict(each.record), each.reply is not None) for each in found]

    async def withdraw(self, question: QuestionRecord) -> None:
        def withdraw(tx: Transaction) -> None:
            check_claim(tx, self._claim)
            with changing(tx, self._claim.id) as s:
                s.withdraw(question.key)

        await self._file.write(withdraw)

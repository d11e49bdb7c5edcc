"""`FleetInteraction`: a question of a fleet session, which any process can answer."""

from functools import partial
from typing import Any

from claude_agent_py._base.event_loop import run_anywhere
from claude_agent_py.fleet._engine import FleetEngine
from claude_agent_py.fleet._state import FleetQuestion
from claude_agent_py.permissions import AnswerSource, Interaction, QuestionRecord
from claude_agent_py.wire import JSONObject


class FleetInteraction(Interaction):
    """A question of a fleet session. `await interaction.answer(value)` answers it, from any process."""

    def __init__(self, engine: FleetEngine, session: str, question: FleetQuestion) -> None:
        self._engine = engine
        self._session = session
        self._record = QuestionRecord.from_dict(question.record)
        super().__init__(
            self._record.kind,
            self._record.wire,
            id=question.id,
            created_at=question.created_at,
            session_id=session,
            agent_id=self._record.agent_id,
        )

    @property
    def done(self) -> bool:
        """Whether the question was answered or withdrawn. Asks the fleet, which blocks."""
        return all(
            question.id != self.id for _, question in run_anywhere(partial(self._engine.questions, self._session))
        )

    async def answer(self, value: Any, *, by: str = "") -> bool:
        """Answer the question. Return False if it was already answered. Retries while the database is unavailable."""
        return await self._give(self._record.reply(value), AnswerSource.here(by))

    async def deny(self, message: str = "", *, by: str = "") -> bool:
        """Refuse the question. Return False if it was already answered. Retries while the database is unavailable."""
        return await self._give(self._record.refusal(message), AnswerSource.here(by))

    def _settle(self, reply: JSONObject, source: AnswerSource) -> bool:
        return run_anywhere(partial(self._give, reply, source))

    async def _give(self, reply: JSONObject, source: AnswerSource) -> bool:
        return await self._engine.answer(self._session, self.id, reply, source)

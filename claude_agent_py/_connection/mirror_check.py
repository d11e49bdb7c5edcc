"""`MirrorCheck`: which prompts, answers and tool results of a session the CLI has mirrored.

A CLI that cannot write its transcript continues, and mirrors nothing of what it could not write. Measured with CLI
2.1.328 (tool results: 2.1.332): it mirrors the prompts, the answers and the tool results of a turn before the turn's
result, also of a turn that failed or was interrupted, and of a command. It stores no prompt that a hook blocked or that
no command understands: their turns have no model call.
"""

from collections.abc import Iterable, Mapping

from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage, UserMessage
from claude_agent_py.wire.messages.system import CompactBoundaryMessage, InformationalMessage


class MirrorCheck:
    """Compares the prompts and answers of a session with the entries that the CLI has mirrored."""

    def __init__(self) -> None:
        self._prompts: set[str] = set()
        """The prompts that this process has sent and that have no result."""
        self._answers: set[str] = set()
        """The main agent's answers and tool results since the last result."""
        self._of_subagents: tuple[set[str], set[str]] = set(), set()
        """Those of subagents since the last result, and before it: a subagent in the background may be about to
        write one when a turn of the main agent ends."""
        self._mirrored: tuple[set[str], set[str]] = set(), set()
        """What was mirrored since the last result, and before it."""
        self._is_blocked = False
        """Whether a hook has blocked a prompt of the current turn."""

    def send(self, prompt_uuid: str) -> None:
        """Note a prompt that was sent to the CLI."""
        self._prompts.add(prompt_uuid)

    def mirror(self, entries: Iterable[JSONObject]) -> None:
        """Note entries that the CLI has mirrored."""
        mirrored = self._mirrored[0]
        for entry in entries:
            mirrored.add(entry.get("uuid") or "")
            mirrored.update(entry.get("mergedSendUuids") or ())  # prompts that it sent to the model as one
            attachment = entry.get("attachment")
            if isinstance(attachment, Mapping):  # a prompt that it took into the current turn
                mirrored.add(attachment.get("source_uuid") or "")

    def take(self, message: object) -> None:
        """Note an answer or a tool result."""
        if isinstance(message, AssistantMessage) or (
            isinstance(message, UserMessage) and message.tool_results and not message.is_replay
        ):
            (self._of_subagents[0] if message.is_subagent else self._answers).add(message.uuid)
        elif isinstance(message, InformationalMessage) and message.prompt_submit_outcome is not None:
            self._is_blocked = True
        elif isinstance(message, CompactBoundaryMessage):  # messages that it keeps come again; they were mirrored
            kept = message.compact_metadata.preserved_messages
            self._mirrored[0].update(kept.uuids if kept is not None else ())

    def end_turn(self, result: ResultMessage) -> int:
        """Return how many prompts and answers were not mirrored by the end of a turn."""
        answered = self._prompts.intersection(result.prompt_uuids)
        self._prompts -= answered
        expected = self._answers | self._of_subagents[1]
        if result.num_turns and not self._is_blocked:
            expected |= answered
        lost = expected.difference(*self._mirrored)
        self._answers, self._is_blocked = set(), False
        self._of_subagents = set(), self._of_subagents[0]
        self._mirrored = set(), self._mirrored[0]
        return len(lost)

    def end(self) -> int:
        """Return how many answers were not mirrored by the end of the session."""
        lost = self._answers.union(*self._of_subagents).difference(*self._mirrored)
        self._answers, self._of_subagents = set(), (set(), set())
        return len(lost)

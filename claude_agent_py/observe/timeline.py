"""`Timeline`: the spans of a session and their summary, saved as an HTML page or in other formats."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Self

from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.private_files import open_private
from claude_agent_py._journal.facts import Fact, TaskFinished
from claude_agent_py._journal.fold import Journal, TimedFrame, fold, fold_frames
from claude_agent_py._journal.tasks.spending import read_spent
from claude_agent_py.observe.exports import chrome_trace
from claude_agent_py.observe.fold import MAX_CHARS, SpanFold
from claude_agent_py.observe.open_spans import Texts
from claude_agent_py.observe.page import build_iframe, build_page
from claude_agent_py.observe.sources import message_frames, read_recording, run_frames
from claude_agent_py.observe.spans import MAX_SPANS, Span, SpanLog, Summary
from claude_agent_py.sessions.stored_session import StoredSession
from claude_agent_py.sessions.stored_sessions import StoredSessions
from claude_agent_py.sessions.stores.protocol import SessionStore
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.conversation import UserMessage


class Timeline:
    """The spans of a session or a run. A notebook displays it as a page.

    The constructors take `max_spans`, the maximum number of spans (the shortest are left out, but counted in the
    summary), and `max_chars`, the limit for each text.
    """

    def __init__(self, log: SpanLog, *, title: str = "session", source: str = "messages") -> None:
        self.spans: list[Span] = log.spans
        """The spans, ordered by start time."""
        self.summary: Summary = log.summary
        self.dropped: int = log.dropped
        """How many spans were left out."""
        self.title: str = title
        self.source: str = source
        """The source of the spans: `messages`, `live`, `recording`, `transcript`, `store` or `facts`."""

    def __repr__(self) -> str:
        return f"<Timeline {self.title!r} from {self.source}, {len(self.spans)} spans>"

    # Output -----------------------------------------------------------------------------------------------------

    def to_html(self) -> str:
        """Return the timeline as a page: one HTML file that loads nothing and needs no network."""
        return build_page(self.spans, self.summary, title=self.title, source=self.source, dropped=self.dropped)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline to a file that only this user can read, because it contains the conversation. Blocks.

        The extension decides the format: `.html` is a page, and `.json` is a trace for Perfetto or `chrome://tracing`.

        Raises:
            OptionsError: The extension is unknown, or the file cannot be written.
        """
        name = os.fspath(path)
        text = self._render(name)
        try:
            with open_private(name) as file:
                file.write(text)
        except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
            reason = getattr(error, "strerror", None) or error
            raise OptionsError(f"cannot write the timeline to {name!r}: {reason}") from error

    def _render(self, name: str) -> str:
        if name.endswith((".html", ".htm")):
            return self.to_html()
        if name.endswith(".json"):
            return json.dumps(self.to_chrome_trace())
        raise OptionsError(f"a timeline's file name must end with .html or .json, not {name!r}")

    def _repr_html_(self) -> str:
        return build_iframe(self.to_html())

    def to_chrome_trace(self) -> JSONObject:
        """Return the timeline as a Chrome trace, which Perfetto and `chrome://tracing` open."""
        return chrome_trace(self.spans, self.summary.names, self.title)

    # Constructors ------------------------------------------------------------------------------------------------

    @classmethod
    def from_messages(
        cls,
        messages: Iterable[object],
        sent: Iterable[UserMessage] = (),
        *,
        ends: Iterable[TaskFinished] = (),
        title: str = "run",
        max_spans: int = MAX_SPANS,
        max_chars: int = MAX_CHARS,
    ) -> Self:
        """Create a timeline from messages and the prompts that were sent, with estimated times.

        `ends` are the ends of tasks with the usage that was counted for them, which the messages lack.
        """
        facts = chain(fold(message_frames(messages, sent)), ends)
        return cls.from_facts(facts, title=title, source="messages", max_spans=max_spans, max_chars=max_chars)

    @classmethod
    def of_run(
        cls,
        messages: Iterable[object],
        times: Sequence[float],
        sent: Sequence[tuple[UserMessage, float | None]],
        ends: Iterable[TaskFinished],
        end: TimedFrame | None,
        turns: Mapping[str, str],
        secrets: Mapping[str, str] | None,
    ) -> Self:
        """Create the timeline of a run. Internal: `RunResult.timeline` calls this.

        Args:
            messages: Its messages.
            times: When they arrived; empty if unknown.
            sent: Its prompts, and when they were sent.
            ends: The ends of its tasks.
            end: The end of the process that cut it off, if one did.
            turns: The ids of its turns in the session, and the `run` of each.
            secrets: The secrets of its session; None if they are unknown.
        """

        def read(journal: Journal) -> Iterable[TimedFrame]:
            journal.turns.names.extend(turns.items())
            return chain(run_frames(messages, times, sent), () if end is None else (end,))

        facts = chain.from_iterable(found for _, found in fold_frames(read))
        return cls.from_facts(chain(facts, ends), title="run", source="messages", secrets=secrets)

    @classmethod
    def from_recording(
        cls, path: str | os.PathLike[str], *, max_spans: int = MAX_SPANS, max_chars: int = MAX_CHARS
    ) -> Self:
        """Create a timeline from a recording: JSON Lines of `t` (seconds), `dir` (`in`, `out`) and `m` (the frame), or
        plain frames as printed by `claude --output-format stream-json`. Blocks.

        Raises:
            OptionsError: The file cannot be read, or contains no frames.
        """
        title = os.path.basename(os.fspath(path))
        facts = read_recording(path)
        return cls.from_facts(facts, title=title, source="recording", max_spans=max_spans, max_chars=max_chars)

    @classmethod
    def from_session(
        cls,
        session: "StoredSession",
        *,
        max_spans: int = MAX_SPANS,
        max_chars: int = MAX_CHARS,
        source: str = "transcript",
    ) -> Self:
        """Create a timeline from a session on disk, subagents and tasks included. Blocks.

        Raises:
            SessionError: The transcript cannot be read.
        """
        title = Texts(max_chars).to_line(session.info.summary) or session.id
        facts = session.journal()
        timeline = cls.from_facts(facts, title=title, source=source, max_spans=max_spans, max_chars=max_chars)
        # No entry of a transcript has the cost of a turn.
        timeline.summary.cost_usd = session.usage.cost_usd
        timeline.summary.add_costs(read_spent(session.usage.reported))
        return timeline

    @classmethod
    async def from_store(
        cls,
        store: "SessionStore",
        session_id: str,
        *,
        project_key: str | None = None,
        max_spans: int = MAX_SPANS,
        max_chars: int = MAX_CHARS,
    ) -> Self:
        """Create a timeline from a session in a store. The session is copied to a private temporary folder.

        Cancelling removes the folder.

        Raises:
            SessionNotFoundError: The store does not have the session.
            StoreError: The store failed.
        """
        session = await StoredSessions(store, project_key=project_key).get(session_id)
        return await run_file_work(
            lambda: cls.from_session(session, max_spans=max_spans, max_chars=max_chars, source="store")
        )

    @classmethod
    def from_facts(
        cls,
        facts: Iterable[Fact],
        *,
        title: str = "session",
        source: str = "facts",
        max_spans: int = MAX_SPANS,
        max_chars: int = MAX_CHARS,
        secrets: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a timeline from the facts of one session, in their order: from a journal, or decoded from JSON."""
        log = SpanLog(max_spans)
        spans = SpanFold(log.add, max_chars=max_chars, on_correction=log.revise, secrets=secrets)
        spans.add(facts)
        spans.finish()
        return cls(log, title=title, source=source)

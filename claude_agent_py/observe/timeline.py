"""`Timeline`: the spans of a session and their summary, to save as a page or in other formats."""

import json
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from claude_agent_py._errors import OptionsError
from claude_agent_py.observe.collecting import MAX_SPANS, SpanLog
from claude_agent_py.observe.fold import MAX_CHARS, SpanFold
from claude_agent_py.observe.spans import Span
from claude_agent_py.observe.summary import Summary

if TYPE_CHECKING:
    from claude_agent_py.sessions.session import Session
    from claude_agent_py.sessions.stores.protocol import SessionStore
    from claude_agent_py.wire.messages.conversation import UserMessage


class Timeline:
    """What happened in a session, or a run. In a notebook it shows itself.

    The methods that make one take `max_spans` and `max_chars`: how many spans are kept (the shortest are left out, but
    counted in the summary), and how much of each text.
    """

    def __init__(self, log: SpanLog, *, title: str = "session", source: str = "messages") -> None:
        self.spans: list[Span] = log.spans
        """By their starts."""
        self.summary: Summary = log.summary
        self.dropped: int = log.dropped
        """How many spans were left out."""
        self.title: str = title
        self.source: str = source
        """`messages`, `live`, `recording`, `transcript` or `store`: what the spans were made from."""

    def __repr__(self) -> str:
        return f"<Timeline {self.title!r} from {self.source}, {len(self.spans)} spans>"

    # Showing it --------------------------------------------------------------------------------------------------

    def to_html(self) -> str:
        """Return the timeline as a page: one HTML file that loads nothing and needs no network."""
        from claude_agent_py.observe.page import page_of

        return page_of(self.spans, self.summary, title=self.title, source=self.source, dropped=self.dropped)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline to a file that only this user can read: its conversation is in it. Blocks.

        The name decides the format: `.html` a page, `.otlp.json` OTLP, `.json` a trace for Perfetto or
        `chrome://tracing`, `.mmd` a Gantt chart of Mermaid.

        Raises:
            OptionsError: The name ends otherwise, or the file cannot be written.
        """
        name = os.fspath(path)
        text = self._in_format_of(name)
        try:
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise OptionsError(f"the timeline cannot be written to {name}: {error.strerror or error}") from error

    def _in_format_of(self, name: str) -> str:
        if name.endswith((".html", ".htm")):
            return self.to_html()
        if name.endswith(".otlp.json"):
            return json.dumps(self.to_otlp())
        if name.endswith(".json"):
            return json.dumps(self.to_chrome_trace())
        if name.endswith((".mmd", ".mermaid")):
            return self.to_mermaid()
        raise OptionsError(f"{name}: a timeline is saved as .html, .json, .otlp.json or .mmd")

    def _repr_html_(self) -> str:
        from claude_agent_py.observe.page import frame_of

        return frame_of(self.to_html())

    def to_chrome_trace(self) -> dict[str, Any]:
        """Return the timeline as a Chrome trace, which Perfetto and `chrome://tracing` open."""
        from claude_agent_py.observe.exports import chrome_trace

        return chrome_trace(self.spans, self.summary.names, self.title)

    def to_otlp(self) -> dict[str, Any]:
        """Return the timeline as OTLP JSON, as a collector takes it at `/v1/traces`."""
        from claude_agent_py.observe.exports import otlp

        return otlp(self.spans, self.summary.names)

    def to_mermaid(self, *, most: int = 60) -> str:
        """Return the timeline as a Gantt chart of Mermaid, for a README.

        Args:
            most: How many bars it has at most; the longest are kept.
        """
        from claude_agent_py.observe.exports import mermaid

        return mermaid(self.spans, self.summary.names, self.title, most=most)

    # Making one --------------------------------------------------------------------------------------------------

    @classmethod
    def from_messages(
        cls,
        messages: Iterable[Any],
        sent: "Iterable[UserMessage]" = (),
        *,
        title: str = "run",
        max_spans: int = MAX_SPANS,
        max_chars: int = MAX_CHARS,
    ) -> Self:
        """Make the timeline of messages, and of the prompts that were sent. `RunResult.timeline` calls this."""
        from claude_agent_py.observe.sources import fold_messages

        return cls._folded(lambda fold: fold_messages(fold, messages, sent), title, "messages", max_spans, max_chars)

    @classmethod
    def from_recording(
        cls, path: str | os.PathLike[str], *, max_spans: int = MAX_SPANS, max_chars: int = MAX_CHARS
    ) -> Self:
        """Make the timeline of a recording: JSON Lines of `t` (seconds), `dir` (`in`, `out`) and `m` (the frame), or of
        the frames alone, as `claude --output-format stream-json` prints them. Blocks.

        Raises:
            OptionsError: The file cannot be read, or holds no frames.
        """
        from claude_agent_py.observe.sources import fold_recording

        title = os.path.basename(os.fspath(path))
        return cls._folded(lambda fold: fold_recording(fold, path), title, "recording", max_spans, max_chars)

    @classmethod
    def from_session(
        cls, session: "Session", *, max_spans: int = MAX_SPANS, max_chars: int = MAX_CHARS, source: str = "transcript"
    ) -> Self:
        """Make the timeline of a session on disk, subagents and tasks included. Blocks.

        Raises:
            SessionError: The transcript cannot be read.
        """
        from claude_agent_py.observe.sources import fold_session

        title = session.info.summary or session.id
        made = cls._folded(lambda fold: fold_session(fold, session), title, source, max_spans, max_chars)
        made.summary.cost_usd = session.usage.cost_usd if made.summary.cost_usd is None else made.summary.cost_usd
        return made

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
        """Make the timeline of a session in a store, which is copied to a private folder meanwhile.

        Raises:
            SessionNotFoundError: The store does not have the session.
            StoreError: The store failed.

        Cancelling removes the folder.
        """
        from claude_agent_py._event_loop import run_file_work
        from claude_agent_py.sessions.stores.queries import SECONDS, find_place, open_temporarily

        place = await find_place(store, session_id, None, project_key, SECONDS)
        async with open_temporarily(store, place, SECONDS) as (session, _):
            return await run_file_work(
                lambda: cls.from_session(session, max_spans=max_spans, max_chars=max_chars, source="store")
            )

    @classmethod
    def _folded(cls, run: Callable[[SpanFold], None], title: str, source: str, max_spans: int, max_chars: int) -> Self:
        log = SpanLog(max_spans)
        run(SpanFold(log.add, max_chars=max_chars))
        return cls(log, title=title, source=source)

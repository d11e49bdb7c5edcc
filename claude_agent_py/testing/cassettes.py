"""`Cassette`: record the model's answers once, and replay them offline.

A cassette records requests and answers of the Messages API, not the lines of the CLI. So a replay runs the real CLI:
tools, hooks, permission handlers and subagents do their work, and a request that differs from the recording fails the
test. A recording of the pipe would replay the CLI's messages whatever the program answers.
"""

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher, unified_diff
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from typing_extensions import override

from claude_agent_py._base import redaction
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.private_files import open_private
from claude_agent_py.options import ClientOptions, find_secrets
from claude_agent_py.testing.requests import RecordedRequest, extract_lines, name_conversation
from claude_agent_py.testing.script import Answer, Failure, RawBlock, Reply, Usage
from claude_agent_py.testing.scripted_model import DEFAULT_REPLY, ScriptedModel
from claude_agent_py.testing.scrubbing import Places, build_path_placeholders, find_ids, map_texts, mask_times
from claude_agent_py.testing.upstream import LOGIN_STANDIN, Upstream
from claude_agent_py.wire import JSONObject

FACTS: Final = ("model", "tools", "system")
SHOWN_CHARS: Final = 2000
"""The maximum length of a line in a diff."""


class CassetteMismatch(AssertionError):
    """A program made a request that differs from the recording. The text has a diff."""


@dataclass
class CassetteEntry:
    """A request and its answer. Every text has placeholders instead of secrets, paths and ids."""

    conversation: str
    """`main`, `side`, or the type and prompt of a subagent."""
    history: str
    """A digest of the model's answers so far."""
    lines: list[str]
    """The new lines of the request: prompts, results of tools, notifications."""
    facts: JSONObject
    """The other compared fields, such as `model`."""
    answer: JSONObject = field(default_factory=dict)
    """`{"message": ...}` of the Messages API, or `{"status": ..., "error": ...}`."""
    asked: int = 0
    """When the request arrived, as a step of the recording; each request and each answer is one step."""
    answered: int = 0
    """The step at which the answer arrived."""


class Matching:
    """Compares requests with entries."""

    def __init__(self, match: Sequence[str], ignore: Sequence[str]) -> None:
        if unknown := set(match) - set(FACTS):
            raise OptionsError(f"must be some of {', '.join(FACTS)}, not {sorted(unknown)}", option="match")
        self._facts = [name for name in FACTS if name in match]
        self._ignored = [re.compile(pattern) for pattern in ignore]

    def facts(self, request: RecordedRequest) -> JSONObject:
        """Return the fields of a request that must equal the recording, without the conversation."""
        return {name: sorted(request.tool_names) if name == "tools" else getattr(request, name) for name in self._facts}

    def normalize(self, line: str) -> str:
        """Return a line with placeholders for ignored texts and times."""
        for pattern in self._ignored:
            line = pattern.sub("<ignored>", line)
        return mask_times(line)

    def find(self, asked: CassetteEntry, entries: Sequence[CassetteEntry], played: Collection[int]) -> int | None:
        """Return the position of the matching entry, or None.

        Entries that have not been played yet come first. If all have been, the request is a retry of the last one.
        """
        matching = [at for at, entry in enumerate(entries) if self._matches(asked, entry)]
        for at in matching:
            if at not in played:
                return at
        return matching[-1] if matching else None

    def _matches(self, asked: CassetteEntry, entry: CassetteEntry) -> bool:
        return (
            self.normalize(asked.conversation) == self.normalize(entry.conversation)
            and asked.history == entry.history
            and self._normalize_lines(asked) == self._normalize_lines(entry)
            and not self.find_different_facts(asked, entry)
        )

    def find_different_facts(self, asked: CassetteEntry, entry: CassetteEntry) -> list[str]:
        """Return the names of the facts that differ. Facts that the entry lacks do not count."""
        return [name for name in self._facts if name in entry.facts and entry.facts[name] != asked.facts[name]]

    def compute_similarity(self, asked: CassetteEntry, entry: CassetteEntry) -> float:
        """Return the similarity of an entry and a request, for the diff."""
        same = (entry.conversation == asked.conversation) + (entry.history == asked.history)
        return same + SequenceMatcher(None, "\n".join(asked.lines), "\n".join(entry.lines)).quick_ratio()

    def _normalize_lines(self, entry: CassetteEntry) -> list[str]:
        # Results of parallel work come in any order.
        return sorted(self.normalize(line) for line in entry.lines)


def describe_mismatch(asked: CassetteEntry, left: Sequence[CassetteEntry], matching: Matching, path: Path) -> str:
    """Describe a request that is not in the cassette as a diff from the most similar entry."""
    sender = "the main agent" if asked.conversation == "main" else asked.conversation
    head = f"{sender} sent a request that is not in {path}"
    nearest = max(left, key=lambda entry: matching.compute_similarity(asked, entry), default=None)
    if nearest is None:
        return "\n".join([f"{head}: all recorded answers were used", *_prefix_lines(asked.lines, "+ ")])
    parts = [f"{head} (- recorded, + now):"]
    parts += [
        f"  {name}: {nearest.facts[name]!r:.300} -> {asked.facts[name]!r:.300}"
        for name in matching.find_different_facts(asked, nearest)
    ]
    if nearest.conversation != asked.conversation:
        parts += _prefix_lines([nearest.conversation], "- ") + _prefix_lines([asked.conversation], "+ ")
    diff = list(unified_diff(_split_lines(nearest.lines), _split_lines(asked.lines), n=2, lineterm=""))[3:]
    parts += [line[:SHOWN_CHARS] for line in diff]
    if not diff and nearest.history != asked.history:
        parts.append("  the new messages are the same, but the conversation before them differs")
    return "\n".join([*parts, "If this change is intended, record the cassette again with --cassette-mode=all."])


def _split_lines(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in line.splitlines()]


def _prefix_lines(lines: Sequence[str], prefix: str) -> list[str]:
    return [prefix + part[:SHOWN_CHARS] for part in _split_lines(lines)]


# Answers ----------------------------------------------------------------------------------------------------------


def build_answer(answer: JSONObject) -> Answer:
    """Convert an answer of the Messages API to an answer of a scripted model."""
    if "message" not in answer:
        error = answer.get("error") or {}
        return Failure(
            int(answer.get("status", 500)),
            str(error.get("message", "")),
            type=error.get("type"),
            retry_after=answer.get("retry_after"),
        )
    message = answer["message"]
    usage = message.get("usage") or {}
    counts = {name: int(usage.get(name) or 0) for name in Usage.__dataclass_fields__}
    return Reply(
        [RawBlock(block) for block in message["content"]],
        stop_reason=message.get("stop_reason"),
        usage=Usage(**counts),
    )


CassetteMode: TypeAlias = Literal["none", "once", "all"]
"""`none` only replays, `once` records a missing cassette, `all` records it again."""

FORMAT: Final = 1
REFUSED: Final = (401, 403)
"""The statuses for a rejected API key; nothing is saved then."""
HOLD: Final = 60.0
"""Seconds for which an answer waits for the requests that preceded it in the recording."""


class Cassette(ScriptedModel):
    """A model whose script is a file of requests and answers, which it records or replays.

    Use it with `with` or `async with`. A recording is saved when the block ends, unless the API could not be
    reached, refused the key, or sent something else than an answer. What is not answered by then is left out.

    Args:
        path: The file.
        mode: Whether to record.
        upstream: The URL of the Messages API to record. None means `ANTHROPIC_BASE_URL`, or Anthropic's API if the
            variable is unset. The key comes from `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN`,
            `CLAUDE_CODE_OAUTH_TOKEN` or the CLI's login. The recorded CLI does not get it.
        match: The fields that must equal the recording: `"model"`, `"tools"` (their names), `"system"`. The
            conversation must always equal it.
        ignore: Regular expressions for parts of the conversation that may differ, such as a count or a date.
        scrub: Additional texts to replace in the file, each with its placeholder.
        cwd: The working directory of the sessions; None makes a temporary one.

    Raises:
        OptionsError: The cassette is missing and `mode` is `none`, the file is not a cassette, or there is neither an
            API key nor a login.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: CassetteMode = "none",
        upstream: str | None = None,
        match: Sequence[str] = ("model",),
        ignore: Sequence[str] = (),
        scrub: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(self._answer, agents={lambda _: True: self._answer}, side=self._answer)
        self.path: Path = Path(path)
        exists = self.path.exists()
        self.is_recording: bool = mode == "all" or not exists
        """Whether requests go to the real model."""
        self._entries: list[CassetteEntry] = []
        self.mismatches: list[str] = []
        """The requests that differ from the recording, each with a diff."""
        if not exists and mode == "none":
            raise OptionsError(
                f"no recording at {self.path}; run pytest with --cassette-mode=once to record it", option="cassette"
            )
        self._matching = Matching(match, ignore)
        self._upstream = Upstream.from_environment(upstream) if self.is_recording else None
        self._has_login = self._upstream is not None and self._upstream.is_login
        """Whether the CLI acts as if logged in with a subscription, which changes its default models."""
        if not self.is_recording:
            self._entries, self._has_login = _load(self.path)
        self._cwd = Path(cwd).resolve() if cwd is not None else None
        own = {self._upstream.secret: "<key>"} if self._upstream is not None else {}
        self._scrub = {**own, **redaction.find_secrets(os.environ), **(scrub or {})}
        self._closing = False
        self._steps = 0
        """The number of requests and answers so far."""
        self._asked: set[int] = set()
        """The positions of the requested entries."""
        self._is_unusable = False
        """Whether the API could not be reached, refused the key, or sent something else than an answer."""

    def __repr__(self) -> str:
        does = "records" if self.is_recording else "replays"
        return f"<Cassette {does} {self.path}, {len(self._entries)} answers>"

    @override
    def start(self) -> Self:
        paths = build_path_placeholders(self._cwd or self.sandbox.cwd, self.sandbox.home, self.sandbox.root)
        self._places = Places(self._scrub, paths)
        return super().start()

    @override
    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        try:
            if self.is_recording and self._entries and not self._is_unusable:
                self._save()
        finally:
            super().close()

    @override
    def options(self, **overrides: Any) -> "ClientOptions":
        """Return options for a session that is recorded or replayed, as `ScriptedModel.options` does."""
        defaults: JSONObject = {} if self._cwd is None else {"cwd": self._cwd}
        if self._has_login:
            defaults["env"] = {**LOGIN_STANDIN, **overrides.pop("env", {})}
        options = super().options(**(defaults | overrides))
        self._scrub = find_secrets(options) | self._scrub
        self._places.add_secrets(self._scrub)
        return options

    def check(self) -> None:
        """Raise `CassetteMismatch` if a request differed from the recording."""
        if self.mismatches:
            raise CassetteMismatch("\n\n".join(self.mismatches))

    # Answering

    def _answer(self, request: RecordedRequest) -> Answer:
        entry, ids = self._build_entry(request)
        return self._record(request, entry, ids) if self.is_recording else self._replay(entry, ids)

    def _build_entry(self, request: RecordedRequest) -> tuple[CassetteEntry, dict[str, str]]:
        """Convert a request to an entry without an answer. Also return its ids with their placeholders."""
        answers, lines = extract_lines(request)
        texts: list[str] = []
        map_texts(request.messages, texts.append)
        ids = find_ids(texts)
        hidden = self._places.hide
        history = "\n".join(hidden(answers, ids))
        entry = CassetteEntry(
            conversation=hidden(name_conversation(request), ids),
            history=sha256(history.encode()).hexdigest()[:16] if answers else "",
            lines=hidden(lines, ids),
            facts={name: hidden(value) for name, value in self._matching.facts(request).items()},
        )
        return entry, ids

    def _record(self, request: RecordedRequest, entry: CassetteEntry, ids: Mapping[str, str]) -> Answer:
        assert self._upstream is not None  # noqa: S101 - for the type checker
        with self._changed:
            self._steps += 1
            entry.asked = self._steps
        try:
            answer = self._upstream.send(request.body, request.headers)
            given = build_answer(answer)
        except Exception:
            self._is_unusable = True
            raise
        self._is_unusable = self._is_unusable or answer.get("status") in REFUSED
        with self._changed:
            self._steps += 1
            entry.answered = self._steps
            entry.answer = self._places.hide(answer, ids)
            self._entries.append(entry)
        return given

    def _replay(self, asked: CassetteEntry, ids: Mapping[str, str]) -> Answer:
        with self._changed:
            found = self._matching.find(asked, self._entries, self._asked)
            if found is None:
                return self._report_mismatch(asked)
            self._asked.add(found)
            self._changed.notify_all()
            entry = self._entries[found]
            # Wait for the requests that preceded this answer in the recording, so that the replay has the same order.
            before = {at for at, other in enumerate(self._entries) if other.asked < entry.answered}
            self._changed.wait_for(lambda: self._closing or before <= self._asked, HOLD)
        return build_answer(self._places.restore(entry.answer, ids))

    def _report_mismatch(self, asked: CassetteEntry) -> Answer:
        if asked.conversation == "side":
            return DEFAULT_REPLY
        left = [entry for at, entry in enumerate(self._entries) if at not in self._asked]
        text = describe_mismatch(asked, left, self._matching, self.path)
        self.mismatches.append(text)
        return Failure(410, text)

    def _save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        entries = [asdict(entry) for entry in sorted(self._entries, key=lambda entry: entry.asked)]
        head = {"cassette": FORMAT} | ({"login": True} if self._has_login else {})
        text = json.dumps({**head, "entries": entries}, indent=1, ensure_ascii=False)
        for value in self._scrub:
            if value in text:
                raise RuntimeError(f"the recording was not saved because it contains a secret: {self._scrub[value]}")
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        with open_private(partial) as file:  # a recording may have secrets that nothing recognises
            file.write(text + "\n")
        partial.replace(self.path)


def _load(path: Path) -> tuple[list[CassetteEntry], bool]:
    """Return the entries of a file, and whether the CLI had a login when they were recorded."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["cassette"] != FORMAT:
            raise OptionsError(f"{path} has the format {found['cassette']!r}, not {FORMAT}", option="cassette")
        return [CassetteEntry(**entry) for entry in found["entries"]], found.get("login") is True
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionsError(f"{path} is not a cassette: {error!r}", option="cassette") from None

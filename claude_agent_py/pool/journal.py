"""`Journal`: the outcomes of `map_runs` in a JSONL file, so that another call continues an interrupted one.

The first line names the prompts by a digest; each further line is one outcome. Lines are on disk before an outcome is
reported. All methods block.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from claude_agent_py._errors import OptionsError
from claude_agent_py._runtime.runs.prompts import Prompt, prompt_message
from claude_agent_py.pool.outcome import RunOutcome
from claude_agent_py.wire.base import dump

if sys.platform != "win32":
    import fcntl

KIND: Final = "claude_agent_py.map_runs"
VERSION: Final = 1
OPTION: Final = "journal"


def digest_prompts(prompts: Sequence[Prompt]) -> str:
    """Return a digest of these prompts, in this order."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(hashlib.sha256(to_json(dump(prompt_message(prompt, verbatim=False).message))).digest())
    return digest.hexdigest()


class Journal:
    """The file, opened and locked for one call (locked on POSIX only).

    Raises:
        OptionsError: The file belongs to other prompts, is not a journal, is damaged, in use, or cannot be written.
    """

    def __init__(self, path: str | Path, prompts: Sequence[Prompt]) -> None:
        self.path: Path = Path(path)
        self._prompts = prompts
        self._header = {"journal": KIND, "version": VERSION, "prompts": len(prompts), "digest": digest_prompts(prompts)}
        self.outcomes: dict[int, dict[str, Any]] = {}
        """The last recorded line of each prompt."""
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise OptionsError(f"cannot be written: {error}", option=OPTION) from error
        try:
            self._lock()
            self._load()
        except BaseException:
            os.close(self._file)
            raise

    def _lock(self) -> None:
        if sys.platform != "win32":
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise OptionsError(f"{self.path} is in use by another call", option=OPTION) from error

    def _load(self) -> None:
        """Read the lines. Drops the last one if it is incomplete."""
        content = self.path.read_bytes()
        complete, newline, rest = content.rpartition(b"\n")
        lines = complete.split(b"\n") if newline else []
        header = _encode_line(self._header)
        if not lines:
            if rest and not header.startswith(rest):
                raise OptionsError(f"{self.path} is not a journal of map_runs", option=OPTION)
            os.ftruncate(self._file, 0)
            self._write(header)
            return
        self._check_header(lines[0])
        for number, line in enumerate(lines[1:], 2):
            self._read_entry(number, line)
        os.ftruncate(self._file, len(complete) + 1)
        os.lseek(self._file, 0, os.SEEK_END)

    def _check_header(self, line: bytes) -> None:
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and found.get("journal") == KIND:
                if found == self._header:
                    return
                raise OptionsError(
                    f"{self.path} is the journal of {found.get('prompts')} other prompts (or of another order, or of "
                    "another version): name another file, or delete it to start over",
                    option=OPTION,
                )
        raise OptionsError(f"{self.path} is not a journal of map_runs", option=OPTION)

    def _read_entry(self, number: int, line: bytes) -> None:
        try:
            entry = json.loads(line)
            index = entry["index"]
            if not isinstance(entry["ok"], bool) or not 0 <= index < len(self._prompts):
                raise ValueError
        except (ValueError, TypeError, KeyError):
            raise OptionsError(f"{self.path} is damaged in line {number}", option=OPTION) from None
        self.outcomes[index] = entry

    def load_answers(self, adapter: TypeAdapter[Any] | None) -> dict[int, RunOutcome]:
        """Return the recorded answers by index. Failures are left out: their prompts run again.

        Args:
            adapter: Validates the structured output, if it has a type.

        Raises:
            OptionsError: A structured output does not match the type.
        """
        return {index: self._build_outcome(entry, adapter) for index, entry in self.outcomes.items() if entry["ok"]}

    def _build_outcome(self, entry: Mapping[str, Any], adapter: TypeAdapter[Any] | None) -> RunOutcome:
        output = entry.get("output")
        if adapter is not None:
            try:
                output = adapter.validate_json(to_json(output))
            except ValidationError:
                problem = f"the output of prompt {entry['index']} in {self.path} does not match this output_type"
                raise OptionsError(problem, option=OPTION) from None
        return RunOutcome(
            index=entry["index"],
            prompt=self._prompts[entry["index"]],
            text=str(entry.get("text", "")),
            output=output,
            session_id=str(entry.get("session_id", "")),
            cost_usd=float(entry.get("cost_usd", 0.0)),
            attempts=int(entry.get("attempts", 1)),
            from_journal=True,
        )

    def record(self, outcome: RunOutcome) -> None:
        """Write an outcome. It is on disk when this returns.

        Raises:
            OSError: The file cannot be written.
        """
        error = outcome.error
        results = [] if outcome.result is None else outcome.result.results
        outputs = [one.structured_output for one in results if one.has_structured_output]
        entry = {
            "index": outcome.index,
            "ok": outcome.ok,
            "text": outcome.text,
            "output": outputs[-1] if outputs and outcome.ok else None,
            "error": None if error is None else {"type": type(error).__name__, "text": str(error)},
            "session_id": outcome.session_id,
            "cost_usd": outcome.cost_usd,
            "attempts": outcome.attempts,
        }
        self._write(_encode_line(entry))

    def _write(self, line: bytes) -> None:
        rest = line
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _encode_line(value: Mapping[str, Any]) -> bytes:
    return to_json(dict(value)) + b"\n"

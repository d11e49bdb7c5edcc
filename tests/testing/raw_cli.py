"""Talk to the real CLI in raw frames, without the library's session code."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from installed_cli import find_cli

from claude_agent_py.testing import ScriptedModel

Frame = dict[str, Any]

ARGUMENTS = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")


class RawCLI:
    """A process of the real CLI."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.frames: list[Frame] = []

    def send(self, *frames: Frame | str) -> None:
        assert self.process.stdin is not None
        for frame in frames:
            body = {"type": "user", "message": {"role": "user", "content": frame}} if isinstance(frame, str) else frame
            self.process.stdin.write(json.dumps(body).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, results: int) -> list[Frame]:
        """Read until `count` results have arrived in all, and return all frames."""
        return self.until_true(lambda: len(self.results) >= results)

    def until_true(self, condition: Callable[[], bool]) -> list[Frame]:
        """Read until a condition holds, checked after each frame, and return all frames."""
        assert self.process.stdout is not None
        while not condition():
            line = self.process.stdout.readline()
            assert line, f"the CLI ended after {self.frames}"
            self.frames.append(json.loads(line))
        return self.frames

    @property
    def results(self) -> list[Frame]:
        return [frame for frame in self.frames if frame["type"] == "result"]

    def of_type(self, type: str, subtype: str | None = None) -> list[Frame]:
        return [f for f in self.frames if f["type"] == type and (subtype is None or f.get("subtype") == subtype)]


@contextmanager
def running(model: ScriptedModel, *args: str, timeout: float = 180.0, **env: str) -> Iterator[RawCLI]:
    """Run the real CLI against a model; kill it if it takes longer than `timeout` seconds."""
    with subprocess.Popen(
        [str(find_cli()), *ARGUMENTS, "--permission-mode=bypassPermissions", *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=model.environment(**env),
        cwd=model.sandbox.cwd,
    ) as process:
        watchdog = threading.Timer(timeout, process.kill)
        watchdog.start()
        try:
            yield RawCLI(process)
        finally:
            watchdog.cancel()
            process.kill()
            watchdog.join()


def ask(model: ScriptedModel, *frames: Frame | str, results: int = 1, args: tuple[str, ...] = ()) -> RawCLI:
    """Run one session of the real CLI: send everything, and read until `results` results have arrived."""
    with running(model, *args) as cli:
        cli.send(*frames)
        cli.until(results)
    return cli

"""`FakeCLI`: a scripted replacement of the `claude` program, for faults that the real one does not produce on demand.

`fake_player` plays a scenario of `steps` and `frames`, either in memory as a `Transport`, or in an installed program
that a client starts like the real one.
"""

import json
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio import lowlevel
from typing_extensions import override

from claude_agent_py._base.lines import StderrTail
from claude_agent_py._base.streams import RepeatingEvent
from claude_agent_py._version import CLI_VERSION
from claude_agent_py.testing import fake_player, frames, steps
from claude_agent_py.testing.fake_player import POLL, TERMINATED, Action, Player
from claude_agent_py.testing.frames import JSONObject
from claude_agent_py.testing.steps import LooseStep, Step
from claude_agent_py.transport import Transport


class Start(NamedTuple):
    """One start of an installed fake."""

    argv: list[str]
    """The arguments, without the program."""
    cwd: str
    pid: int
    environment: dict[str, str | None]
    """The variables named in `record_env`; None for one that is not set."""


class FakeCLI:
    """A CLI that plays a scenario.

    `script` lists its actions in order: `steps`, frames and bytes to send, and (nested) lists of these. Afterwards the
    fake waits for the end of its input and exits with 0, like the real CLI.

    Control requests that no step waits for are answered as they arrive: `initialize` like the real CLI, with the
    agents, hooks, managed settings and in-process servers of the request and the permission mode of its flags, or with
    exactly `initialize` if given; others with `answers[subtype]` or `answers["*"]`, by default an empty success. An
    answer is `{"response": {...}}`, `{"error": "..."}` or `{}`; None leaves the request unanswered.

    Any other item raises TypeError. The type checker accepts all objects, because mypy infers `list[object]` for a
    mixed list in a variable.

    An installed fake also mirrors its prompts and answers to a session store, before the result of their turn.

    `transport()` returns a `Transport`; `install()` writes a program. Each use plays the scenario from the start. All
    uses share the gates.
    """

    def __init__(
        self,
        *script: "LooseStep | Sequence[object]",
        initialize: Mapping[str, object] | None = None,
        answers: Mapping[str, object] | None = None,
        version: str = CLI_VERSION,
        ignore_eof: bool = False,
        ignore_sigterm: bool = False,
        record_env: Sequence[str] = (),
    ) -> None:
        self._steps = _flatten_script(script)
        self._gates = list({id(step.gate): step.gate for step in self._steps if step.gate is not None}.values())
        greeting: JSONObject = {"response": frames.initialize_response(claude_code_version=version), "echo": True}
        if initialize is not None:
            greeting = {"response": dict(initialize)}
        self.scenario: JSONObject = {
            "steps": [self._as_json(step) for step in self._steps],
            "answers": {"initialize": greeting, "*": {}} | dict(answers or {}),
            "version": version,
            "ignore_eof": ignore_eof,
            "ignore_sigterm": ignore_sigterm,
            "record_env": list(record_env),
        }
        # Raise for a value that JSON cannot hold here, not in the installed program.
        json.dumps(self.scenario)
        self._transports: list[FakeTransport] = []
        self._folders: list[Path] = []

    def __repr__(self) -> str:
        return f"<FakeCLI {len(self._steps)} steps>"

    def transport(self) -> "FakeTransport":
        """Return a new transport, for `Client(transport=...)`."""
        made = FakeTransport(self.scenario, lambda gate: self._gates[gate].is_open)
        self._transports.append(made)
        return made

    def install(self, directory: str | Path) -> Path:
        """Write the fake as a program into a directory and return its path, for `cli_path=`. POSIX only.

        The program needs this Python, but not this package. It writes its log next to itself, so use a temporary
        directory.
        """
        folder = Path(directory).absolute() / "claude.fake"
        folder.mkdir(parents=True)
        (folder / "scenario.json").write_text(json.dumps(self.scenario))
        player = shutil.copy(fake_player.__file__, folder)
        for number, gate in enumerate(self._gates):
            gate.when_open((folder / f"gate-{number}").touch)
        program = folder.parent / "claude"
        command = shlex.join([sys.executable, "-IS", str(player), str(folder)])
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
        self._folders.append(folder)
        return program

    # Recorded

    @property
    def received(self) -> list[JSONObject]:
        """Every frame received by all uses: first in memory, then by installed programs."""
        heard = [frame for transport in self._transports for frame in transport.received]
        return heard + [entry["received"] for entry in self._read_log() if "received" in entry]

    def received_like(self, match: JSONObject) -> list[JSONObject]:
        """Return the frames of `received` that contain `match`, compared recursively."""
        return [frame for frame in self.received if fake_player.contains(frame, match)]

    def requests(self, subtype: str) -> list[JSONObject]:
        """Return the `request` of every control request of a subtype."""
        found = self.received_like({"type": "control_request", "request": {"subtype": subtype}})
        return [frame["request"] for frame in found]

    @property
    def starts(self) -> list[Start]:
        """Every start of the installed program, except with `--version`."""
        return [Start(**entry["start"]) for entry in self._read_log() if "start" in entry]

    @property
    def spawned(self) -> list[int]:
        """The ids of the processes that `steps.spawn` started."""
        return [entry["spawned"] for entry in self._read_log() if "spawned" in entry]

    async def wait_received(self, match: JSONObject, count: int = 1, *, timeout: float = 60.0) -> list[JSONObject]:
        """Wait until `count` frames that contain `match` were received, and return them.

        Raises TimeoutError after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while len(found := self.received_like(match)) < count:
            if time.monotonic() > deadline:
                kinds = [frame.get("type") for frame in self.received]
                raise TimeoutError(
                    f"timed out after {timeout:g} s waiting for {count} frames like {match}; received: {kinds}"
                )
            await anyio.sleep(POLL)
        return found

    def _read_log(self) -> list[JSONObject]:
        files = [folder / "log.jsonl" for folder in self._folders]
        lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
        return [json.loads(line) for line in lines]

    def _as_json(self, step: Step) -> JSONObject:
        gate = {} if step.gate is None else {"gate": self._gates.index(step.gate)}
        return {"do": step.do, **step.values, **gate}


class FakeTransport(Transport):
    """Plays a scenario in memory, without a worker or a process. Each read and write advances it."""

    ignores_options = True

    def __init__(self, scenario: Mapping[str, object], gate_is_open: Callable[[int], bool]) -> None:
        self._player = Player(scenario, gate_is_open)
        self._ignores_end = bool(scenario["ignore_eof"])
        self._ignores_term = bool(scenario["ignore_sigterm"])
        self._out: list[bytes] = []
        self._stderr = StderrTail(sys.maxsize, self._tell)
        self._out_closed = False
        self._started = False
        self._input_ended = False
        self._exit_code: int | None = None
        self._changed = RepeatingEvent()

    def __repr__(self) -> str:
        if not self._started:
            state = "not started"
        elif self._exit_code is None:
            state = "open"
        else:
            state = f"exited {self._exit_code}"
        return f"<FakeTransport {state}>"

    @property
    def received(self) -> list[JSONObject]:
        """Every frame received, in order."""
        return self._player.received

    @override
    async def start(self) -> None:
        self._started = True
        self._advance()
        await lowlevel.checkpoint()

    @override
    async def receive(self) -> bytes:
        await lowlevel.checkpoint()
        while True:
            self._advance()
            if self._out:
                return self._out.pop(0)
            if self._out_closed or self._exit_code is not None:
                return b""
            await self._changed.wait(POLL if self._player.polls else None)

    @override
    async def send(self, data: bytes) -> None:
        await lowlevel.checkpoint()
        if self._input_ended:
            raise anyio.ClosedResourceError
        if self._exit_code is not None:
            raise anyio.BrokenResourceError
        self._player.feed(data)
        self._advance()

    @override
    async def end_input(self) -> None:
        await lowlevel.checkpoint()
        self._end_input()

    @override
    async def close(self, *, grace: float = 5.0) -> None:
        self._end_input()
        if not self._ignores_end:
            await self._play_rest(grace)
        if self._exit_code is None:
            self._exit(-signal.SIGKILL if self._ignores_term else TERMINATED)
        self._changed.set()
        await lowlevel.cancel_shielded_checkpoint()

    async def _play_rest(self, grace: float) -> None:
        """Play the steps that wait for a gate or the clock, for at most `grace` seconds, even if cancelled."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(grace):
            while self._exit_code is None and self._player.polls:
                await anyio.sleep(POLL)
                self._advance()

    @property
    @override
    def exit_code(self) -> int | None:
        return self._exit_code

    @property
    @override
    def stderr_tail(self) -> str:
        return self._stderr.text()

    def _end_input(self) -> None:
        if not self._input_ended:
            self._input_ended = True
            self._player.feed(b"")
            self._advance()

    def _advance(self) -> None:
        if self._started and self._exit_code is None:
            for action in self._player.advance(time.monotonic()):
                self._perform(action)
            self._changed.set()

    def _tell(self, line: str) -> None:
        if self.on_stderr is not None:
            self.on_stderr(line)

    def _perform(self, action: Action) -> None:
        match action.kind:
            case "out" if not self._out_closed:
                self._out.append(action.value)
            case "err":
                self._stderr.feed(action.value)
            case "close_out":
                self._out_closed = True
            case "exit":
                self._exit(action.value)
            case "signal":
                self._exit(-action.value)
            case "spawn":
                raise NotImplementedError("steps.spawn needs an installed FakeCLI")

    def _exit(self, code: int) -> None:
        self._exit_code = code
        self._stderr.feed(b"")


def _flatten_script(script: Sequence[object]) -> list[Step]:
    flat: list[Step] = []
    for loose in script:
        if isinstance(loose, Step):
            flat.append(loose)
        elif isinstance(loose, bytes):
            flat.append(steps.emit_raw(loose))
        elif isinstance(loose, Mapping):
            flat.append(steps.emit(dict(loose)))
        elif isinstance(loose, Sequence) and not isinstance(loose, str):
            flat += _flatten_script(loose)
        else:
            raise TypeError(f"an item of a script must be a step, a frame, bytes or a list of these, not {loose!r}")
    return flat

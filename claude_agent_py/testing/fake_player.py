"""Play the scenario of a `FakeCLI`.

`Player` is sans-IO: bytes and time in, actions out; `main` drives it in a process. Only the standard library is
imported, because `FakeCLI.install` copies this file, so that the program starts in milliseconds.

A scenario is JSON. Its `steps` are played in order; `do` names the method of `Player` for each. `answers` has the
answers to control requests that no step waits for. In a frame, `{"$prompt": "uuid"}` stands for a field of the last
prompt received by a step, and `{"$heard": "response.request_id"}` for a field of the last frame received by a step. If
the field is missing, the entry is left out.
"""

import base64
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

JSONObject: TypeAlias = dict[str, Any]

POLL: Final = 0.005
"""Seconds between two checks of a gate or the clock."""

TERMINATED: Final = 143
"""The exit code of a CLI that SIGTERM ends: 128 and the number of the signal."""

READ_BYTES: Final = 65536
MCP_PROTOCOL: Final = "2025-11-25"
GONE: Final = object()


class Action(NamedTuple):
    """An action for the peer to perform."""

    kind: str
    """`out`, `err`, `close_out`, `spawn`, `exit` or `signal`."""
    value: Any = None


def as_line(frame: JSONObject) -> bytes:
    """Encode a frame as a line, like the CLI: JavaScript escapes lone surrogates."""
    return json.dumps(frame, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


class Player:
    """The state of a scenario. Feed it input and perform the actions that `advance` returns."""

    def __init__(
        self, scenario: Mapping[str, Any], gate_is_open: Callable[[int], bool], transcript: "TurnMirror | None" = None
    ) -> None:
        self.ended: bool = False
        self.polls: bool = False
        """Whether it waits for a gate or the clock, so that `advance` must be called again without input."""
        self.received: list[JSONObject] = []
        """Every frame received, in order."""
        self._steps: list[JSONObject] = list(scenario["steps"])
        self._answers: JSONObject = scenario["answers"]
        self._ignores_eof = bool(scenario["ignore_eof"])
        self._gate_is_open = gate_is_open
        self._at = 0
        self._now = 0.0
        self._until: float | None = None
        self._rest = b""
        self._eof = False
        self._unheard: list[JSONObject] = []
        self._heard: JSONObject = {}
        self._prompt: JSONObject = {}
        self._actions: list[Action] = []
        self._transcript = transcript

    def feed(self, data: bytes) -> None:
        """Add data from stdin; `b""` means EOF. Invalid JSON ends the peer, as it ends the real CLI."""
        self._eof = self._eof or not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in filter(None, map(bytes.strip, lines)):
            try:
                frame = json.loads(line)
            except ValueError:
                self._end("err", b"Error parsing streaming input line\n")
                return
            if isinstance(frame, dict):
                self.received.append(frame)
                self._unheard.append(frame)

    def advance(self, now: float) -> list[Action]:
        """Play as many steps as possible and return the resulting actions."""
        self.polls = False
        self._now = now
        while not self.ended:
            self._answer_requests()
            if self._at == len(self._steps):
                self._end_at_eof()
                break
            step = self._steps[self._at]
            if getattr(self, f"_{step['do']}")(step):
                break
            self._at += 1
        actions, self._actions = self._actions, []
        return actions

    # Steps: `do` names the method, which returns whether the step still waits

    def _emit(self, step: JSONObject) -> None:
        if "if_prompt_has" in step and get_field(self._prompt, step["if_prompt_has"]) is GONE:
            return
        frames = [self._resolve(frame) for frame in step["frames"]]
        if self._transcript is not None:
            frames = [each for frame in frames for each in self._transcript.mirror(frame)]
        self._act("out", b"".join(map(as_line, frames)))

    def _emit_raw(self, step: JSONObject) -> None:
        self._act("out", base64.b64decode(step["base64"]))

    def _wait_for(self, step: JSONObject) -> bool:
        for frame in self._unheard:
            if contains(frame, step["match"]):
                self._unheard.remove(frame)
                self._heard = frame
                if frame.get("type") == "user":
                    self._prompt = frame
                    if self._transcript is not None:
                        self._transcript.add(frame)
                return False
        self._end_at_eof()
        return True

    def _answer(self, step: JSONObject) -> None:
        self._act("out", encode_reply(self._heard.get("request_id"), self._resolve(step["answer"])))

    def _wait_gate(self, step: JSONObject) -> bool:
        self.polls = not self._gate_is_open(step["gate"])
        return self.polls

    def _pause(self, step: JSONObject) -> bool:
        until = self._now + step["seconds"] if self._until is None else self._until
        self.polls = self._now < until
        self._until = until if self.polls else None
        return self.polls

    def _hang(self, step: JSONObject) -> bool:
        self._unheard.clear()
        return True

    def _stderr(self, step: JSONObject) -> None:
        self._act("err", step["text"].encode())

    def _close_output(self, step: JSONObject) -> None:
        self._act("close_out")

    def _spawn(self, step: JSONObject) -> None:
        self._act("spawn", step["argv"])

    def _exit(self, step: JSONObject) -> None:
        self._end("signal" if step["signal"] else "exit", step["signal"] or step["code"])

    # Parts

    def _answer_requests(self) -> None:
        """Answer the control requests that no remaining step waits for, unless the peer hangs."""
        rest = self._steps[self._at :]
        if rest and rest[0]["do"] == "hang":
            return
        awaited = [step["match"] for step in rest if step["do"] == "wait_for"]
        for frame in list(self._unheard):
            if frame.get("type") != "control_request" or any(contains(frame, match) for match in awaited):
                continue
            self._unheard.remove(frame)
            subtype = str((frame.get("request") or {}).get("subtype"))
            answer = self._answers.get(subtype, self._answers.get("*"))
            if answer is not None and answer.get("echo"):
                answer = {"response": build_greeting(answer["response"], frame["request"])}
            if answer is not None:
                self._act("out", encode_reply(frame.get("request_id"), answer))

    def _end_at_eof(self) -> None:
        if self._eof and not self._ignores_eof:
            self._end("exit", 0)

    def _end(self, kind: str, value: object) -> None:
        self.ended = True
        self._act(kind, value)
        if kind == "err":
            self._act("exit", 1)

    def _act(self, kind: str, value: object = None) -> None:
        self._actions.append(Action(kind, value))

    def _resolve(self, value: object) -> Any:
        """Replace references, leaving out references to missing fields."""
        if isinstance(value, list):
            items = [item for item in map(self._resolve, value) if item is not GONE]
            return items if items or not value else GONE
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            if "$prompt" in value:
                return get_field(self._prompt, value["$prompt"])
            if "$heard" in value:
                return get_field(self._heard, value["$heard"])
        resolved = {key: self._resolve(item) for key, item in value.items()}
        return {key: item for key, item in resolved.items() if item is not GONE}


class TurnMirror:
    """Mirrors the prompts, answers and tool results of a session, as the real CLI does before the result of a turn."""

    def __init__(self, folder: str, session_id: str | None) -> None:
        self._folder = folder
        self._session_id = session_id
        self._entries: list[JSONObject] = []
        self._last: str | None = None

    def add(self, frame: JSONObject) -> None:
        """Add an entry for a prompt or an answer with a uuid."""
        if "uuid" in frame:
            entry = {"type": frame["type"], "uuid": frame["uuid"], "message": frame["message"]}
            self._entries.append({**entry, "parentUuid": self._last, "isSidechain": False})
            self._last = frame["uuid"]

    def mirror(self, frame: JSONObject) -> list[JSONObject]:
        """Return a frame, after the entries of its turn if it is a result."""
        is_said = frame.get("type") in ("assistant", "user") and not frame.get("isReplay")
        if is_said and not frame.get("parent_tool_use_id"):
            self.add(frame)
        if frame.get("type") != "result" or not self._entries:
            return [frame]
        session_id = self._session_id or frame["session_id"]
        entries = [{**entry, "sessionId": session_id} for entry in self._entries]
        self._entries.clear()
        path = f"{self._folder}/projects/fake/{session_id}.jsonl"
        return [{"type": "transcript_mirror", "filePath": path, "entries": entries}, frame]


def open_transcript(argv: list[str], environment: Mapping[str, str]) -> TurnMirror | None:
    """Return the transcript of a process that has to mirror it, or None."""
    if "--session-mirror" not in argv:
        return None
    given = read_flags(argv)
    folder = environment.get("CLAUDE_CONFIG_DIR") or environment.get("HOME", "") + "/.claude"
    session_id = given.get("--session-id") or given.get("--resume")
    return TurnMirror(folder, None if "--fork-session" in argv else session_id)


def read_flags(argv: list[str]) -> dict[str, str]:
    """Return the flags with their values, which follow after `=` or as the next argument."""
    return dict(itertools.pairwise(part for argument in argv for part in argument.split("=", 1)))


def contains(frame: object, match: object) -> bool:
    """Return whether a frame contains `match`, compared recursively."""
    if isinstance(match, dict):
        return isinstance(frame, dict) and all(key in frame and contains(frame[key], match[key]) for key in match)
    return bool(frame == match)


def build_greeting(plain: JSONObject, request: JSONObject) -> JSONObject:
    """Return the response to `initialize` like CLI 2.1.328, with what the request brings: agents, hooks and the like.

    Agents of the request replace agents of `plain` with the same name. The list is sorted by name.
    """
    response = dict(plain)
    agents = {agent["name"]: agent for agent in plain["agents"]}
    for name, given in (request.get("agents") or {}).items():
        model = {"model": given["model"]} if given.get("model") else {}
        agents[name] = {"name": name, "description": given.get("description"), **model}
    response["agents"] = sorted(agents.values(), key=lambda agent: str(agent["name"]).lower())
    for field, applied in (("hooks", "hooks_applied"), ("managedSettings", "managed_settings_applied")):
        if field in request:
            response[applied] = True
    if manifests := request.get("sdkMcpServerManifests"):
        response["sdk_mcp_manifests_parked"] = {name: get_parking_state(given) for name, given in manifests.items()}
    return response


def get_parking_state(manifest: Mapping[str, object]) -> str:
    """Return the state of a manifest. After `parked`, the CLI does not request the tools from the server again."""
    spoken = get_field(dict(manifest), "initializeResult.protocolVersion")
    return "parked" if spoken == MCP_PROTOCOL else "protocol_version_mismatch"


def get_field(frame: object, path: str) -> Any:
    """Return the value at a dotted path, or `GONE`."""
    for name in path.split("."):
        frame = frame.get(name, GONE) if isinstance(frame, dict) else GONE
    return GONE if frame is None else frame


def encode_reply(request_id: object, answer: Mapping[str, object]) -> bytes:
    """Encode a control response. `answer` has `error` (and optionally `error_code`), `response`, or neither."""
    outcome = {"subtype": "error" if "error" in answer else "success", "request_id": request_id, **answer}
    return json.dumps({"type": "control_response", "response": outcome}).encode() + b"\n"


# The process ------------------------------------------------------------------------------------------------------


def main(folder: Path, argv: list[str]) -> None:
    """Play the scenario in `folder` on stdin and stdout, and write the log there."""
    scenario = json.loads((folder / "scenario.json").read_text())
    if "--version" in argv:
        print(f"{scenario['version']} (Claude Code)")
        return
    greeting = scenario["answers"]["initialize"]
    if greeting is not None and greeting.get("echo") and (mode := read_flags(argv).get("--permission-mode")):
        greeting["response"]["current_permission_mode"] = mode
    process = _Process(folder, scenario, open_transcript(argv, os.environ))
    environment = {name: os.environ.get(name) for name in scenario["record_env"]}
    process.log({"start": {"pid": os.getpid(), "argv": argv, "cwd": os.getcwd(), "environment": environment}})
    process.run()


class _Process:
    """Drives a player on stdin, stdout and stderr."""

    def __init__(self, folder: Path, scenario: Mapping[str, object], transcript: TurnMirror | None) -> None:
        self._log_file = os.open(folder / "log.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._player = Player(scenario, lambda gate: (folder / f"gate-{gate}").exists(), transcript)
        self._logged = 0
        self._eof = False
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGINT, lambda *_: os._exit(0))
        term = signal.SIG_IGN if scenario["ignore_sigterm"] else (lambda *_: os._exit(TERMINATED))
        signal.signal(signal.SIGTERM, term)

    def log(self, entry: Mapping[str, object]) -> None:
        os.write(self._log_file, json.dumps(entry).encode() + b"\n")

    def run(self) -> None:
        while True:
            for action in self._player.advance(time.monotonic()):
                self._perform(*action)
            timeout = POLL if self._player.polls else None
            if self._eof:
                time.sleep(timeout or 3600)
            elif select.select([0], [], [], timeout)[0]:
                self._read()

    def _perform(self, kind: str, value: Any) -> None:
        match kind:
            case "out":
                self._write(1, value)
            case "err":
                self._write(2, value)
            case "close_out":
                os.close(1)
            case "spawn":
                self._spawn(value)
            case "exit":
                os._exit(value)
            case "signal":
                self._signal(value)

    def _read(self) -> None:
        data = os.read(0, READ_BYTES)
        self._eof = not data
        self._player.feed(data)
        for frame in self._player.received[self._logged :]:
            self.log({"received": frame})
        self._logged = len(self._player.received)

    def _write(self, descriptor: int, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError:
            # The reader has closed the pipe. The real CLI ignores this as well.
            pass

    def _spawn(self, argv: list[str]) -> None:
        quiet = subprocess.DEVNULL
        child = subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet)
        self.log({"spawned": child.pid})

    def _signal(self, number: int) -> None:
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

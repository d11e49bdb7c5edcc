"""A CLI in memory that keeps a transcript and runs one tool, and a world in which anything may fail between steps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio

from claude_agent_py.durable import MemoryDesk, TurnStop
from claude_agent_py.errors import StoreError
from claude_agent_py.permissions import QuestionRecord
from claude_agent_py.sessions import MemoryStore, SessionKey, SessionStoreEntry
from claude_agent_py.testing import frames
from claude_agent_py.transport import LaunchPlan, Transport

JSONObject = dict[str, Any]

GREETING: JSONObject = {"commands": [], "agents": [], "models": [], "account": {}, "hooks_applied": True}


def reply(request_id: str, **response: object) -> JSONObject:
    """Return the reply to a control request."""
    body = {"subtype": "success", "request_id": request_id, "response": response}
    return {"type": "control_response", "response": body}


class World:
    """The store, the effects of the tool, and the next fault."""

    is_called_again: anyio.Event
    """Set once another call of `run_turn` begins, or this one has ended."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.ran: list[str] = []
        """The prompts whose command ran."""

    def begin(self, fault: str, after: int, interrupt: int) -> None:
        """Begin a call of `run_turn`, in which something fails and a person interrupts, each after some steps."""
        self.fault, self.left, self.left_to_interrupt = fault, after, interrupt
        self.is_dead = False
        """Whether the process of the call has been killed."""
        self.scope = anyio.CancelScope()
        self.stop = TurnStop()
        self.clis: list[ToyCLI] = []

    def step(self) -> None:
        """Note a step of the call."""
        self.left_to_interrupt -= 1
        if self.left_to_interrupt == 0:
            self.stop.interrupt()
        self.left -= 1
        if self.left != 0:
            return
        if self.fault == "killed":
            self.is_dead = True
            self.scope.cancel()
        if self.fault in ("killed", "CLI died"):
            for cli in self.clis:
                cli.end(-9)
        if self.fault in ("release", "abandon"):
            getattr(self.stop, self.fault)()
        if self.fault == "called again":
            self.is_called_again.set()

    @property
    def is_away(self) -> bool:
        """Whether the store is away: for a few steps, or for good."""
        return self.is_dead or (self.fault == "store away" and -3 < self.left <= 0)


class ShakyStore:
    """The store of one call."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._world.store, name)
        return self._wrap(found) if name in ("acquire_lease", "renew_lease", "list_subkeys") else found

    def _wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **more: Any) -> Any:
            self._world.step()
            if self._world.is_away:
                raise StoreError("the store is away")
            return await function(*args, **more)

        return call

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], **more: Any) -> None:
        await self._wrap(self._world.store.append)(key, entries, **more)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        found: list[SessionStoreEntry] | None = await self._wrap(self._world.store.load)(key)
        return found


class ShakyDesk:
    """The desk of one call."""

    def __init__(self, world: World, desk: MemoryDesk) -> None:
        self._world = world
        self._desk = desk

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any) -> Any:
            self._step()
            done = await getattr(self._desk, name)(*args)
            self._step()
            return done

        return call

    async def wait(self, question: QuestionRecord) -> None:
        """Wait for longer than any fault takes to happen."""
        for _ in range(60):
            self._step()
            await anyio.sleep(0)
        await anyio.sleep_forever()

    def _step(self) -> None:
        self._world.step()
        if self._world.is_dead or (self._world.fault == "desk away" and -3 < self._world.left <= 0):
            raise OSError("the desk is away")


class ToyCLI(Transport):
    """A CLI that answers each prompt after one call of a tool, and continues a turn that was cut off."""

    needs_run = False

    def __init__(self, world: World, plan: LaunchPlan) -> None:
        self._world = world
        self._output: list[bytes] = []
        self._has_output = anyio.Event()
        self._exit_code: int | None = None
        self._resumes = plan.env.get("CLAUDE_CODE_RESUME_INTERRUPTED_TURN") not in (None, "", "0")
        flags = ("--resume", "--session-id")
        words = [word for argument in plan.argv for word in argument.split("=", 1)]
        self._session = next(words[at + 1] for at, word in enumerate(words) if word in flags)
        # A new session is in another place, whose files this machine does not see.
        found = [*Path(plan.env["CLAUDE_CONFIG_DIR"]).glob(f"projects/*/{self._session}.jsonl")]
        lines = found[0].read_text().splitlines() if found else []
        self._path = found[0] if found else Path(f"/elsewhere/projects/toy/{self._session}.jsonl")
        self._entries = [entry for entry in map(json.loads, lines) if entry["type"] in ("user", "assistant")]
        self._hooks: list[str] = []
        self._waits: dict[str, Callable[[JSONObject], object]] = {}
        world.clis.append(self)

    # Transport

    async def start(self) -> None:
        self._world.step()

    async def receive(self) -> bytes:
        while not self._output and self._exit_code is None:
            self._has_output = anyio.Event()
            await self._has_output.wait()
        return self._output.pop(0) if self._output else b""

    async def send(self, data: bytes) -> None:
        for line in data.splitlines():
            if self._exit_code is None:
                self._take(json.loads(line))

    async def end_input(self) -> None:
        self.end(0)

    async def close(self, *, grace: float = 5.0) -> None:
        self.end(0)

    @property
    def exit_code(self) -> int | None:
        return self._exit_code

    def end(self, code: int) -> None:
        """Exit."""
        if self._exit_code is None:
            self._exit_code = code
            if self._world.is_dead:
                self._output.clear()
            self._has_output.set()

    # The CLI

    def _emit(self, *found: JSONObject) -> None:
        self._world.step()
        if self._exit_code is None:
            self._output.append(frames.encode(*found))
            self._has_output.set()

    def _write(self, role: str, content: Any, **fields: Any) -> str:
        """Write an entry to the transcript, report it, and return its uuid."""
        if self._exit_code is not None:
            return ""
        message = {"role": role, "content": content, "id": f"m{uuid4()}", **fields.pop("message", {})}
        parent = self._entries[-1]["uuid"] if self._entries else None
        entry = {"type": role, "uuid": str(uuid4()), "parentUuid": parent, "message": message, **fields}
        entry |= {"sessionId": self._session, "timestamp": "2026-01-01T00:00:00.000Z"}
        self._entries.append(entry)
        if self._path.exists():
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")
        self._emit({"type": "transcript_mirror", "filePath": str(self._path), "entries": [entry]})
        return str(entry["uuid"])

    def _take(self, frame: JSONObject) -> None:
        self._world.step()
        if frame["type"] == "control_response":
            response = frame["response"]
            if response["request_id"] in self._waits:
                self._waits.pop(response["request_id"])(response.get("response") or {})
        elif frame["type"] == "user":
            self._begin(frame["uuid"], frame["message"]["content"])
        elif frame["type"] == "control_request":
            request = frame["request"]
            if request["subtype"] == "initialize":
                for matcher in (request.get("hooks") or {}).get("PreToolUse", ()):
                    self._hooks += matcher["hookCallbackIds"]
                self._initialize(frame["request_id"], request)
            elif request["subtype"] == "interrupt":
                self._interrupt(frame["request_id"])
            else:
                self._emit(reply(frame["request_id"]))

    def _interrupt(self, request_id: str) -> None:
        """End the turn, which waits for a hook or a person, if there is one."""
        waits, self._waits = self._waits, {}
        self._emit(*map(frames.control_cancel, waits), reply(request_id, still_queued=[]))
        if not waits:
            return
        prompt, call = self._current
        refused = {"type": "tool_result", "tool_use_id": call["id"], "content": "rejected", "is_error": True}
        self._write("user", [refused])
        self._write("user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}])
        named: JSONObject = {"user_message_uuid": prompt, "user_message_uuids": [prompt]}
        named |= {"session_id": self._session, "is_error": True, "terminal_reason": "aborted_tools"}
        self._emit(frames.result("", subtype="error_during_execution", **named))

    def _initialize(self, request_id: str, request: JSONObject) -> None:
        prompts = [entry for entry in self._entries if entry.get("promptSource") == "sdk"]
        last = self._entries[-1] if self._entries else {}
        is_cut_off = bool(prompts) and last["message"].get("stop_reason") != "end_turn"
        if self._resumes and is_cut_off:
            prompt = prompts[-1]["uuid"]
            for block in last["message"]["content"] if last["type"] == "assistant" else ():
                unknown = {"type": "tool_result", "tool_use_id": block["id"], "content": "its outcome is unknown"}
                self._write("user", [unknown])
            self._emit(frames.system("session_state_changed", state="running"))
            self._emit(frames.init(session_id=self._session) | {"user_message_uuids": [prompt]})
            self._emit(reply(request_id, **GREETING))
            self._continue(prompt, prompts[-1]["message"]["content"])
        else:
            self._emit(reply(request_id, **GREETING))

    def _begin(self, uuid: str, text: str) -> None:
        assert uuid not in [entry["uuid"] for entry in self._entries], "the CLI ignores a uuid that it has seen"
        self._write("user", text, uuid=uuid, promptSource="sdk")
        self._emit(frames.init(session_id=self._session) | {"user_message_uuids": [uuid]})
        self._continue(uuid, text)

    def _continue(self, prompt: str, text: str) -> None:
        """Ask the model. It calls the tool unless that has run, as a real one checks if it does not know."""
        if text in self._world.ran:
            self._answer(prompt, text)
            return
        call = {"type": "tool_use", "id": f"t{uuid4()}", "name": "Pay", "input": {}}
        uuid = self._write("assistant", [call], message={"stop_reason": "tool_use"})
        self._emit(frames.assistant([call], session_id=self._session, uuid=uuid))
        if self._exit_code is not None:
            return
        self._current = prompt, call
        [hook] = self._hooks
        request = str(uuid4())
        self._waits[request] = lambda given: self._ask(prompt, text, call)
        given = {"hook_event_name": "PreToolUse", "tool_name": "Pay", "tool_input": {}, "tool_use_id": call["id"]}
        self._emit(frames.hook_callback(request, hook, given))

    def _ask(self, prompt: str, text: str, call: JSONObject) -> None:
        """Ask a person if the prompt says so, and run the tool."""
        if not text.startswith("ask"):
            self._run(prompt, text, call)
            return
        request = str(uuid4())

        def decide(given: JSONObject) -> None:
            if given.get("behavior") == "allow":
                self._run(prompt, text, call)

        self._waits[request] = decide
        self._emit(frames.can_use_tool(request, "Pay", input={}, tool_use_id=call["id"]))

    def _run(self, prompt: str, text: str, call: JSONObject) -> None:
        stored = json.dumps([*self._world.store.entries({"project_key": "durable", "session_id": self._session})])
        assert call["id"] in stored, "a tool runs before the store has its call"
        self._world.ran.append(text)
        uuid = self._write("user", [{"type": "tool_result", "tool_use_id": call["id"], "content": "paid"}])
        self._emit(frames.tool_result(call["id"], "paid", session_id=self._session, uuid=uuid))
        self._answer(prompt, text)

    def _answer(self, prompt: str, text: str) -> None:
        answer = [{"type": "text", "text": f"done: {text}"}]
        uuid = self._write("assistant", answer, message={"stop_reason": "end_turn"})
        self._emit(frames.assistant(f"done: {text}", session_id=self._session, uuid=uuid))
        named: JSONObject = {"user_message_uuid": prompt, "user_message_uuids": [prompt]}
        self._emit(frames.result(f"done: {text}", session_id=self._session, **named))

"""A stand-in CLI that answers a prompt by sending control requests, one after another, and times the responses.

    python -I -S benchmarks/asking_cli.py <folder>

`initialize.json` in the folder answers the first request. The environment variable `ASK` is the kind of request
(`hook`, `permission` or `tool`), `ASKS` their number. The time runs from writing a request to reading its response.
Every response is checked: a wrong one ends the program with a traceback. The result of the prompt lists the times, in
seconds.
"""

import gc
import json
import os
import sys
import time
from typing import Any

SERVER = "tools"
TOOL = "check"
SESSION = {"session_id": "5e55107d-0000-4000-8000-000000000001"}


class Host:
    """The process at the other end of the pipes."""

    def __init__(self, initialize: dict[str, Any]) -> None:
        self.initialize = initialize

    def ask(self, number: int, request: dict[str, Any]) -> tuple[dict[str, Any], float]:
        """Send a request and return the payload of its response and the time it took, in seconds."""
        request_id = f"ask-{number}"
        line = encode({"type": "control_request", "request_id": request_id, "request": request})
        begin = time.perf_counter()
        os.write(1, line)
        line = sys.stdin.buffer.readline()
        took = time.perf_counter() - begin
        frame = json.loads(line)
        response = frame["response"]
        assert frame["type"] == "control_response", line
        assert (response["subtype"], response["request_id"]) == ("success", request_id), line
        return response["response"], took

    def tell_server(self, number: int, **message: Any) -> tuple[Any, float]:
        """Send a JSON-RPC request to the in-process MCP server and return its result and its time, in seconds."""
        request = {"subtype": "mcp_message", "server_name": SERVER, "message": {"jsonrpc": "2.0", **message}}
        payload, took = self.ask(number, request)
        reply = payload["mcp_response"]
        assert "error" not in reply, reply
        return reply.get("result"), took

    def ask_hook(self, number: int) -> float:
        ((callback_id,),) = (matcher["hookCallbackIds"] for matcher in self.initialize["hooks"]["PreToolUse"])
        data = {
            **SESSION,
            "transcript_path": "/work/transcript.jsonl",
            "cwd": "/work",
            "prompt_id": "p1",
            "permission_mode": "default",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": f"echo {number}", "description": "Say it"},
            "tool_use_id": f"toolu_{number:08d}",
        }
        request = {"subtype": "hook_callback", "callback_id": callback_id, "tool_use_id": data["tool_use_id"]}
        payload, took = self.ask(number, request | {"input": data})
        expected = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
        assert payload["hookSpecificOutput"] == expected | {"permissionDecisionReason": f"echo {number}"}, payload
        return took

    def ask_permission(self, number: int) -> float:
        command = {"command": f"echo {number}", "description": "Say it"}
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "display_name": "Bash", "permission_suggestions": []}
        payload, took = self.ask(number, {**request, "input": command, "tool_use_id": f"toolu_{number:08d}"})
        assert payload["behavior"] == "allow", payload
        assert payload.get("updatedInput", command) == command, payload
        return took

    def ask_tool(self, number: int) -> float:
        meta: dict[str, Any] = {"claudecode/toolUseId": f"toolu_{number:08d}", "progressToken": number}
        params = {"name": TOOL, "arguments": {"number": number}, "_meta": meta}
        result, took = self.tell_server(number, id=number, method="tools/call", params=params)
        assert not result.get("isError"), result
        assert result["content"] == [{"type": "text", "text": f"{number} is fine"}], result
        return took

    def shake_hands(self) -> None:
        """Initialize the MCP server, as the CLI does unless the reply to `initialize` has its manifest."""
        if SERVER not in self.initialize.get("sdkMcpServerManifests", {}):
            client = {"name": "claude-code", "version": "2.1.328"}
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
            self.tell_server(-1, id=-1, method="initialize", params=params)
            self.tell_server(-2, method="notifications/initialized")
            tools, _ = self.tell_server(-3, id=-3, method="tools/list")
            assert [tool["name"] for tool in tools["tools"]] == [TOOL], tools


def main(folder: str) -> None:
    host = Host({})
    for line in sys.stdin.buffer:
        frame = json.loads(line)
        if frame["type"] == "control_request":
            response = {}
            if frame["request"]["subtype"] == "initialize":
                host = Host(frame["request"])
                with open(os.path.join(folder, "initialize.json"), encoding="utf-8") as file:
                    response = json.load(file)
            body = {"subtype": "success", "request_id": frame["request_id"], "response": response}
            os.write(1, encode({"type": "control_response", "response": body}))
        elif frame["type"] == "user":
            os.write(1, encode(result(frame.get("uuid"), times(host, os.environ["ASK"], int(os.environ["ASKS"])))))


def times(host: Host, what: str, asks: int) -> list[float]:
    ask = {"hook": host.ask_hook, "permission": host.ask_permission, "tool": host.ask_tool}[what]
    if what == "tool":
        host.shake_hands()
    gc.disable()
    return [ask(number) for number in range(1, asks + 1)]


def result(prompt: str | None, times: list[float]) -> dict[str, Any]:
    asked = {"user_message_uuid": prompt, "user_message_uuids": [prompt]} if prompt else {}
    about = {"subtype": "success", "is_error": False, "num_turns": 1, "duration_ms": 1, "duration_api_ms": 1}
    more = {"uuid": "9a09f7f7-0000-4000-8000-000000000001", "total_cost_usd": 0.0, "usage": {}}
    return {"type": "result", **SESSION, **about, **more, **asked, "result": json.dumps(times)}


def encode(frame: dict[str, Any]) -> bytes:
    return json.dumps(frame).encode() + b"\n"


if __name__ == "__main__":
    main(sys.argv[1])

"""Build frames as the CLI sends them, for a `FakeCLI` and for tests of readers.

Frames are plain JSON objects, so that a test can send what the wire models would reject. Keyword arguments add or
replace fields. The shapes follow CLI 2.1.328.
"""

import itertools
import uuid
from collections.abc import Mapping, Sequence

from claude_agent_py._version import CLI_VERSION
from claude_agent_py.testing import fake_player
from claude_agent_py.wire import JSONObject as JSONObject

SESSION_ID = "5e55107d-0000-4000-8000-000000000001"
MODEL = "claude-scripted"

_numbers = itertools.count(1)


def prompt_field(path: str) -> JSONObject:
    """Return a reference to a field of the last prompt heard, such as `uuid`; left out if missing."""
    return {"$prompt": path}


def heard_field(path: str) -> JSONObject:
    """Return a reference to a field of the last frame heard, such as `request_id`; left out if missing."""
    return {"$heard": path}


PROMPT_FIELDS: JSONObject = {
    "user_message_uuid": prompt_field("uuid"),
    "user_message_uuids": [prompt_field("uuid")],
}
"""The fields that name the prompts answered by a frame: here the last prompt received by a step."""


def encode(*frames: JSONObject) -> bytes:
    """Encode frames as lines."""
    return b"".join(fake_player.as_line(frame) for frame in frames)


def of_prompt(frame: JSONObject) -> JSONObject:
    """Mark a frame of the main conversation as part of the answer to the last prompt heard, like the CLI."""
    return frame | PROMPT_FIELDS


# The conversation -------------------------------------------------------------------------------------------------


def init(**fields: object) -> JSONObject:
    """Return a `system/init` message, which begins every turn."""
    body = {
        "cwd": "/work",
        "tools": ["Task", "Bash", "Read", "Write"],
        "mcp_servers": [],
        "model": MODEL,
        "permissionMode": "bypassPermissions",
        "slash_commands": [],
        "apiKeySource": "ANTHROPIC_API_KEY",
        "claude_code_version": CLI_VERSION,
        "output_style": "default",
        "agents": ["general-purpose"],
        "skills": [],
        "plugins": [],
    }
    return system("init", **(body | fields))


def assistant(content: str | Sequence[JSONObject] = "ok", **fields: object) -> JSONObject:
    """Return an assistant message with a text or content blocks. The CLI sends one block per message."""
    message = {
        "id": f"msg_{next(_numbers):08d}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [text_block(content)] if isinstance(content, str) else list(content),
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE,
    }
    return _frame("assistant", {"message": message, "parent_tool_use_id": None, **fields})


def user(content: str | Sequence[JSONObject], **fields: object) -> JSONObject:
    """Return a user message: a subagent's prompt, or tool results."""
    message = {"role": "user", "content": content if isinstance(content, str) else list(content)}
    return _frame("user", {"message": message, "parent_tool_use_id": None, **fields})


def tool_result(tool_use_id: str, content: object = "", *, is_error: bool = False, **fields: object) -> JSONObject:
    """Return a user message with the result of a tool. `tool_use_result=` adds the structured result."""
    failed = {"is_error": True} if is_error else {}
    return user([{"type": "tool_result", "tool_use_id": tool_use_id, "content": content, **failed}], **fields)


def result(text: str = "ok", *, subtype: str = "success", is_error: bool = False, **fields: object) -> JSONObject:
    """Return a result message that answers the last prompt heard.

    `user_message_uuid(s)=` names other prompts; with `origin=`, the origin of the turn, it names none. Every subtype
    but `success` has `errors` instead of `result`.
    """
    if subtype == "success":
        outcome: JSONObject = {"result": text}
    else:
        outcome = {"errors": [text] if text else []}
    own = {} if "origin" in fields else PROMPT_FIELDS
    body = {
        "subtype": subtype,
        "is_error": is_error or subtype != "success",
        "duration_ms": 100,
        "duration_api_ms": 80,
        "num_turns": 1,
        "stop_reason": "end_turn",
        "total_cost_usd": 0.01,
        "usage": USAGE,
        "modelUsage": {},
        "permission_denials": [],
        "terminal_reason": "completed",
    }
    return _frame("result", body | outcome | own | fields)


def api_error(text: str, kind: str = "unknown", status: int | None = 500) -> list[JSONObject]:
    """Return the two frames of a turn that failed with an API error.

    These are a synthetic assistant message and a result with `is_error`, whose subtype is nevertheless `success`.
    """
    spoken = assistant(text, error=kind, is_api_error_message=True, api_error_status=status)
    spoken["message"] |= {"model": "<synthetic>", "stop_reason": "stop_sequence"}
    ended = result(
        text, is_error=True, stop_reason="stop_sequence", terminal_reason="api_error", api_error_status=status
    )
    return [spoken, ended]


def stream_event(event: JSONObject, **fields: object) -> JSONObject:
    """Return a partial message with one event of the API's stream."""
    return _frame("stream_event", {"event": event, "parent_tool_use_id": None, **fields})


def text_stream(*parts: str, index: int = 0) -> list[JSONObject]:
    """Return the stream events of a text block: start, one delta per part, stop."""
    start = {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
    deltas = [
        {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": part}} for part in parts
    ]
    return [stream_event(event) for event in (start, *deltas, {"type": "content_block_stop", "index": index})]


# Content blocks ---------------------------------------------------------------------------------------------------

USAGE: JSONObject = {
    "input_tokens": 100,
    "output_tokens": 10,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def text_block(text: str) -> JSONObject:
    """Return a text block."""
    return {"type": "text", "text": text}


def tool_use_block(name: str, input: Mapping[str, object] | None = None, *, id: str | None = None) -> JSONObject:  # noqa: A002
    """Return a tool use block."""
    return {"type": "tool_use", "id": id or f"toolu_{next(_numbers):08d}", "name": name, "input": dict(input or {})}


# Tasks ------------------------------------------------------------------------------------------------------------


def task_started(task_id: str, description: str = "a task", **fields: object) -> JSONObject:
    """Return the start of a task: a background subagent, unless `task_type`, `is_backgrounded`, ... override it."""
    body = {
        "description": description,
        "subagent_type": "general-purpose",
        "is_backgrounded": True,
        "spawn_depth": 1,
        "task_type": "local_agent",
        "prompt": description,
    }
    return _about_task("task_started", task_id, body | fields)


def task_progress(task_id: str, description: str = "Running", **fields: object) -> JSONObject:
    """Return a progress message: the task called a tool."""
    body = {
        "description": description,
        "usage": {"total_tokens": 110, "tool_uses": 1, "duration_ms": 50},
        "last_tool_name": "Bash",
    }
    return _about_task("task_progress", task_id, body | fields)


def task_updated(task_id: str, status: str | None = "completed", **patch: object) -> JSONObject:
    """Return an update of a task. The status `killed` here corresponds to `stopped` in a notification."""
    changed = patch if status is None else {"status": status, **patch}
    return system("task_updated", task_id=task_id, run_id=f"0-{task_id}", patch=changed)


def task_notification(task_id: str, status: str = "completed", summary: str = "done", **fields: object) -> JSONObject:
    """Return the notification that a task ended: `completed`, `failed` or `stopped`."""
    body = {"status": status, "output_file": "", "summary": summary}
    return _about_task("task_notification", task_id, body | fields)


def background_tasks(*task_ids: str, **fields: object) -> JSONObject:
    """Return the list of all tasks that run in the background."""
    tasks = [{"task_id": id, "task_type": "local_agent", "description": "a task"} for id in task_ids]  # noqa: A001
    return system("background_tasks_changed", **({"tasks": tasks} | fields))


def task_end(task_id: str, status: str = "completed", summary: str = "done", **fields: object) -> list[JSONObject]:
    """Return the three frames that the CLI sends when the last background task ends, in order."""
    updated = task_updated(task_id, "killed" if status == "stopped" else status)
    return [updated, task_notification(task_id, status, summary, **fields), background_tasks()]


def task_origin(task_id: str) -> JSONObject:
    """Return the `origin` of a turn that the CLI began because a task ended."""
    return {"kind": "task-notification", "producer": "session-task", "runId": f"0-{task_id}"}


# Others -----------------------------------------------------------------------------------------------------------


def system(subtype: str, **fields: object) -> JSONObject:
    """Return a system message."""
    return _frame("system", {"subtype": subtype, **fields})


def session_state(state: str) -> JSONObject:
    """Return the session state: `idle`, `running` or `requires_action`."""
    return system("session_state_changed", state=state)


def lifecycle(state: str, command_uuid: object = None) -> JSONObject:
    """Return the state of a prompt with a uuid: `queued`, `started`, `completed` or `cancelled`.

    The prompt is the last one heard, unless `command_uuid` names another.
    """
    return _frame("command_lifecycle", {"command_uuid": command_uuid or prompt_field("uuid"), "state": state})


def control_request(request_id: str, subtype: str, **fields: object) -> JSONObject:
    """Return a control request of the CLI."""
    return {"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}}


def control_cancel(request_id: str) -> JSONObject:
    """Return the cancellation of a control request."""
    return {"type": "control_cancel_request", "request_id": request_id}


def can_use_tool(request_id: str, tool_name: str = "Bash", **fields: object) -> JSONObject:
    """Return a permission request for a tool."""
    body = {"tool_name": tool_name, "input": {"command": "ls"}, "tool_use_id": "toolu_1", "permission_suggestions": []}
    return control_request(request_id, "can_use_tool", **(body | fields))


def hook_callback(request_id: str, callback_id: str, input: Mapping[str, object], **fields: object) -> JSONObject:  # noqa: A002
    """Return a hook callback. `input` needs `hook_event_name` and the fields of that event."""
    common = {"session_id": SESSION_ID, "transcript_path": "/tmp/transcript.jsonl", "cwd": "/work"}  # noqa: S108
    return control_request(request_id, "hook_callback", callback_id=callback_id, input=common | dict(input), **fields)


def mcp_message(request_id: str, server_name: str, method: str, **params: object) -> JSONObject:
    """Return a JSON-RPC request to an in-process MCP server. `request_id` is also its JSON-RPC id."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return control_request(request_id, "mcp_message", server_name=server_name, message=message)


def initialize_response(**fields: object) -> JSONObject:
    """Return the response to `initialize`."""
    body = {
        "commands": [],
        "agents": [{"name": "general-purpose", "description": "General-purpose agent."}],
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": [],
        "account": {"tokenSource": "none", "apiKeySource": "ANTHROPIC_API_KEY", "apiProvider": "firstParty"},
        "pid": 1,
        "claude_code_version": CLI_VERSION,
        "current_permission_mode": "default",
        "hook_on_failure_supported": True,
        "session_state": "idle",
        "capabilities": ["mcp_call_result_not_for_model_v1", "mcp_call_check_permissions_v1"],
    }
    return body | fields


def _about_task(subtype: str, task_id: str, fields: JSONObject) -> JSONObject:
    ids = {"task_id": task_id, "run_id": f"0-{task_id}", "tool_use_id": f"toolu_{task_id}"}
    return system(subtype, **(ids | fields))


def _frame(kind: str, fields: JSONObject) -> JSONObject:
    return {"type": kind, "uuid": str(uuid.uuid4()), "session_id": SESSION_ID} | fields

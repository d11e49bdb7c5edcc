"""Frames that are documented (CLI 2.1.328, SDK 0.3.328) and that no recording has: one full example of each."""

import json
from typing import Any, get_args

from recordings_loader import all_frames
from wire_values import SUBTYPES, TYPES

from claude_agent_py import MalformedFrame, UnknownMessage
from claude_agent_py.control import RequestFromCLI
from claude_agent_py.wire import decode, encode

IDS = {"uuid": "u", "session_id": "s"}

SYSTEM: dict[str, dict[str, Any]] = {
    "control_request_progress": {
        "request_id": "r",
        "status": "api_retry",
        "attempt": 1,
        "max_retries": 10,
        "retry_delay_ms": 500,
        "error_status": None,
    },
    "model_refusal_fallback": {
        "trigger": "refusal",
        "direction": "retry",
        "scope": "session",
        "original_model": "a",
        "fallback_model": "b",
        "request_id": None,
        "api_refusal_category": "cyber",
        "api_refusal_explanation": None,
        "retracted_message_uuids": ["m"],
        "refused_user_message_uuid": None,
        "content": "text",
    },
    "model_refusal_no_fallback": {"original_model": "a", "request_id": None, "content": "text"},
    "local_command_output": {"content": "text"},
    "hook_progress": {
        "hook_id": "h",
        "hook_name": "n",
        "hook_event": "Stop",
        "stdout": "a",
        "stderr": "",
        "output": "a",
        "backgrounded": True,
    },
    "plugin_install": {"status": "failed", "name": "p", "error": "e"},
    "worker_shutting_down": {"reason": "r"},
    "commands_changed": {"commands": [{"name": "a", "description": "b", "argumentHint": "c", "aliases": ["d"]}]},
    "files_persisted": {
        "files": [{"filename": "a", "file_id": "f"}],
        "failed": [{"filename": "b", "error": "e"}],
        "processed_at": "2026-01-01T00:00:00Z",
    },
    "memory_recall": {"mode": "select", "memories": [{"path": "a", "scope": "team", "content": "c"}]},
    "bridge_state": {
        "state": "failed",
        "detail": "the account changed",
        "failure_kind": "terminal",
        "recovered": True,
        "bridge_epoch": 1,
    },
    "elicitation_complete": {"mcp_server_name": "m", "elicitation_id": "e"},
    "mirror_error": {"error": "e", "key": {"projectKey": "p", "sessionId": "s", "subpath": "x"}},
    "session_writes_lost": {
        "error_code": "ENOSPC",
        "lost": ["transcript", "global_config"],
        "transcript_session_ids": ["s"],
    },
    "task_notification": {
        "task_id": "k",
        "run_id": "r",
        "tool_use_id": "t",
        "status": "completed",
        "output_file": "",
        "summary": "text",
        "usage": {"total_tokens": 1, "tool_uses": 2, "duration_ms": 3},
        "resource_links": [{"uri": "u", "name": "n", "mimeType": "text/plain", "size": 1, "annotations": {"a": 1}}],
        "handback": "flagged",
        "handback_report": {"text": "t", "warning": "w", "toolUseId": "t"},
        "skip_transcript": True,
        "ambient": True,
    },
}

TOP_LEVEL: dict[str, dict[str, Any]] = {
    "tool_progress": {
        "tool_use_id": "t",
        "tool_name": "Agent",
        "parent_tool_use_id": None,
        "elapsed_time_seconds": 3,
        "task_id": "k",
        "description": "d",
        "subagent_type": "a",
        "subagent_retry": {
            "agent_id": "a",
            "attempt": 1,
            "max_retries": 10,
            "retry_delay_ms": 5,
            "error_status": None,
            "error_category": "c",
        },
    },
    "tool_use_summary": {"summary": "a", "preceding_tool_use_ids": ["t"]},
    "auth_status": {"isAuthenticating": True, "output": ["a"], "error": "e"},
    "prompt_suggestion": {"suggestion": "a"},
    "active_goal": {
        "value": {"condition": "c", "iterations": 1, "set_at": 2, "tokens_at_start": 3, "last_reason": "r"}
    },
    "assistant": {
        "message": {"role": "assistant", "content": []},
        "parent_tool_use_id": "t",
        "supersedes": ["m"],
        "resumed_from_incomplete_thinking": True,
        "context_usage": {
            "model": "m",
            "total_tokens": 1,
            "raw_max_tokens": 2,
            "percentage": 50,
            "over_limit": {"tokens_over": 1, "kind": "hard_limit"},
            "categories": [{"name": "a", "tokens": 1, "kind": "used"}],
            "mcp_tools": [{"name": "a", "server_name": "s", "tokens": 1}],
            "memory_files": [{"path": "p", "type": "t", "tokens": 1}],
            "agents": [{"agent_type": "a", "source": "s", "tokens": 1}],
            "skills": [{"name": "a", "source": "s", "plugin_name": "p", "tokens": 1}],
        },
        "usage_report": {
            "session": {"total_cost_usd": 0.1, "model_usage": {"m": {"inputTokens": 1, "costUSD": 0.1}}},
            "rate_limits": {
                "limits": [
                    {
                        "kind": "k",
                        "group": "g",
                        "percent": 1.5,
                        "resets_at": None,
                        "scope": {"model": {"display_name": "m"}, "surface": None},
                        "severity": "s",
                        "is_active": True,
                    }
                ],
                "extra_usage": {"is_enabled": True, "monthly_limit": None, "used_credits": 1.0, "utilization": None},
            },
        },
    },
    "result": {
        "subtype": "error_during_execution",
        "is_error": True,
        "errors": ["e"],
        "startup_failure_reason": "config_file_invalid",
        "invalid_config_file": {"path": "p", "is_global": True, "backup_searched": True, "backup_path": "b"},
    },
}

DOCUMENTED = [
    *({"type": "system", "subtype": subtype, **fields, **IDS} for subtype, fields in SYSTEM.items()),
    *({"type": kind, **fields, **IDS} for kind, fields in TOP_LEVEL.items()),
]

REQUESTS: list[dict[str, Any]] = [
    {
        "subtype": "elicitation",
        "mcp_server_name": "m",
        "message": "a",
        "mode": "form",
        "requested_schema": {"type": "object"},
        "property_order": ["a"],
    },
    {"subtype": "request_user_dialog", "dialog_kind": "refusal_fallback_prompt", "payload": {"a": 1}},
]


def key(frame: dict[str, Any]) -> tuple[str, str | None]:
    return frame["type"], frame.get("subtype")


CONTROL_REQUESTS = {model.subtype for model in get_args(RequestFromCLI)}


def test_every_documented_frame_has_a_model() -> None:
    for frame in DOCUMENTED:
        decoded = decode(json.dumps(frame))
        assert not isinstance(decoded, UnknownMessage | MalformedFrame), decoded
        assert json.loads(encode(decoded)) == decoded.raw == frame


def test_every_documented_request_has_a_model() -> None:
    for request in REQUESTS:
        frame = {"type": "control_request", "request_id": "r", "request": request}
        decoded = decode(json.dumps(frame))
        assert not isinstance(decoded, UnknownMessage | MalformedFrame), decoded
        assert request["subtype"] in CONTROL_REQUESTS
        assert json.loads(encode(decoded)) == frame


def test_every_model_was_tried() -> None:
    recorded = [frame for _, _, frame in all_frames()]
    tried = {key(frame) for frame in [*recorded, *DOCUMENTED]}
    assert {kind for kind, _ in tried} >= {"system", *TYPES}
    assert {subtype for kind, subtype in tried if kind == "system"} >= {*SUBTYPES}
    bodies = [frame["request"] for frame in recorded if frame["type"] == "control_request" and "request" in frame]
    assert {body.get("subtype") for body in [*bodies, *REQUESTS]} >= CONTROL_REQUESTS

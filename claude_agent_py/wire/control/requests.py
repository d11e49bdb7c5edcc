"""The control requests that methods of `Client` send, and the types of their arguments.

They need no models, because each is sent by one method, which describes it. `asks` has the requests of the CLI.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from claude_agent_py.wire.base import JSONObject, Number
from claude_agent_py.wire.messages.modes import PermissionMode

ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    # The session
    "interrupt": {"cancel_queued": bool},
    "end_session": {},
    "rename_session": {"title": str, "source": Literal["remote", "host"] | str, "session_id": str},
    "cancel_async_message": {"message_uuid": str},
    "rewind_files": {"user_message_id": str, "dry_run": bool},
    "side_question": {"question": str, "history": list[JSONObject]},
    "generate_session_title": {"description": str, "persist": bool},
    "export_conversation": {},
    # Model, permissions, settings
    "set_model": {"model": str | None},
    "set_permission_mode": {"mode": PermissionMode},
    "set_max_thinking_tokens": {
        "max_thinking_tokens": Number | None,
        "thinking_display": Literal["summarized", "omitted", "highlights"] | str | None,
    },
    "list_models": {},
    "list_permission_rules": {},
    "apply_flag_settings": {"settings": JSONObject},
    "get_settings": {},
    "update_settings": {"source": Literal["localSettings", "userSettings"] | str, "settings": JSONObject},
    "get_hooks_listing": {},
    "set_mcp_permission_mode_override": {
        "serverName": str,
        "mode": PermissionMode | None,
        "askForTools": list[JSONObject],
    },
    # Status and usage
    "get_context_usage": {"detail": Literal["summary", "full"] | str},
    "get_session_cost": {},
    "get_usage": {"skip_behaviors": bool},
    "get_binary_version": {},
    "get_status": {},
    "get_plan": {},
    "get_workspace_diff": {},
    # MCP servers
    "mcp_status": {},
    "mcp_set_servers": {"servers": dict[str, JSONObject]},
    "mcp_reconnect": {"serverName": str},
    "mcp_toggle": {"serverName": str, "enabled": bool},
    "mcp_call": {
        "tool": str,
        "arguments": JSONObject,
        "expires_at": str,
        "timeout_ms": Number,
        "result_not_for_model": bool,
        "check_permissions": bool,
        "input_files": list[JSONObject],
        "output_files": list[JSONObject],
    },
    "mcp_read_resource": {"serverName": str, "uri": str},
    "mcp_authenticate": {"serverName": str, "redirectUri": str, "redirectUriOnly": bool},
    "mcp_oauth_callback_url": {"serverName": str, "callbackUrl": str},
    "mcp_clear_auth": {"serverName": str},
    # Files, plugins, skills
    "read_file": {"path": str, "max_bytes": Number, "encoding": Literal["utf-8", "base64"] | str},
    "file_suggestions": {"query": str},
    "seed_read_state": {"path": str, "mtime": Number},
    "register_repo_root": {
        "directory": str,
        "reload_claude_md": bool,
        "reload_plugins": bool,
        "reload_skills": bool,
    },
    "set_cwd": {"path": str, "trust_accepted": bool, "trusted_directory": str},
    "reload_plugins": {"hold_on_cache_impact": bool, "add_plugins": list[JSONObject], "refuse_if_busy": bool},
    "reload_skills": {},
    "reload_output_styles": {},
}
"""By the subtype of the request and the name of the argument on the wire."""

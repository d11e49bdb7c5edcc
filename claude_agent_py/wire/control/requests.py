"""The requests that methods of `Client` send, with the types of their fields; `asks` has the other direction.

Fields are named as on the wire. `Annotated[str, Literal[...]]` lists known words of a field, for `scripts/drift.py`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from claude_agent_py.wire.base import JSONObject, Number
from claude_agent_py.wire.fitting import Misfit, fit, refuse
from claude_agent_py.wire.messages.modes import PermissionMode

REQUESTS: Final[Mapping[str, Mapping[str, Any]]] = {
    # The session
    "interrupt": {"cancel_queued": bool},
    "end_session": {},
    "rename_session": {"title": str, "source": Annotated[str, Literal["remote", "host"]], "session_id": str},
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
        "thinking_display": Annotated[str | None, Literal["summarized", "omitted", "highlights"]],
    },
    "list_models": {},
    "list_permission_rules": {},
    "apply_flag_settings": {"settings": JSONObject},
    "get_settings": {},
    "update_settings": {"source": Annotated[str, Literal["localSettings", "userSettings"]], "settings": JSONObject},
    "get_hooks_listing": {},
    "set_mcp_permission_mode_override": {
        "serverName": str,
        "mode": PermissionMode | None,
        "askForTools": list[JSONObject],
    },
    # Status and usage
    "get_context_usage": {"detail": Annotated[str, Literal["summary", "full"]]},
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
    "read_file": {"path": str, "max_bytes": Number, "encoding": Annotated[str, Literal["utf-8", "base64"]]},
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
"""The types of the fields that a request may have, by subtype."""


def request_fields(subtype: str, fields: Mapping[str, Any]) -> JSONObject:
    """Return the fields of a request as JSON.

    Raises:
        Misfit: A field has a value of the wrong type.
    """
    sent: JSONObject = {}
    for name, value in fields.items():
        try:
            sent[name] = msgspec.to_builtins(value, enc_hook=refuse)
            fit(REQUESTS[subtype][name], sent[name])
        except Misfit as error:
            raise Misfit((name, *error.place), error.what) from None
    return sent

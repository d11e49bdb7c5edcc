"""`ClaudeAgentOptions` as the options of this package, with adapters for its callbacks."""

import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from typing import Any, Final
from uuid import UUID

from claude_agent_py import Allow, ClientOptions, Deny
from claude_agent_py._base.log import get_logger
from claude_agent_py.agents import AgentDefinition
from claude_agent_py.compat import types
from claude_agent_py.control import CanUseToolRequest
from claude_agent_py.options import Limits, OptionsWarning, Timeouts
from claude_agent_py.permissions import PermissionContext, PermissionRequest
from claude_agent_py.wire import JSONObject

_logger = get_logger("claude_agent_py.compat")

_SAME: Final = (
    *("tools", "mcp_servers", "strict_mcp_config", "permission_mode", "continue_conversation", "resume"),
    *("session_id", "max_turns", "max_budget_usd", "model", "fallback_model", "betas", "permission_prompt_tool_name"),
    *("cwd", "cli_path", "settings", "user", "include_partial_messages", "include_hook_events", "max_thinking_tokens"),
    *("forward_subagent_text", "verbatim_prompts", "fork_session", "resume_session_at", "resume_drops_turn", "skills"),
    *("sandbox", "plugins", "thinking", "effort", "enable_file_checkpointing", "session_store", "task_budget"),
    *("session_store_flush", "client_app", "allowed_tools", "disallowed_tools"),
)
"""The options with the same name and values. Those that are empty or False are left out."""

_EVEN_IF_EMPTY: Final = frozenset({"tools", "skills", "session_store"})

STATE_EVENTS: Final = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"
"""Set by a program that wants to see the states of the session."""

_READS_STATE: Final = "CLAUDE_CODE_SDK_READS_SESSION_STATE"
"""Makes the CLI send the states marked as `sdk_host_only`."""

_WHOLE_TOOL: Final = re.compile(r"(?=.*\S)([^(]+)(?:\((?:\*)?\))?")
"""A rule that allows all calls of a tool."""

_MIN_CONNECT_SECONDS: Final = 60.0
_HOOK_SECONDS: Final = 600.0
"""How long the CLI waits for a hook that sets no timeout."""


def convert_options(given: types.ClaudeAgentOptions) -> ClientOptions:
    """Return the options for a `Client`.

    Warns with `CanUseToolShadowedWarning` if other options decide before `can_use_tool` does.

    Raises:
        OptionsError: The options are invalid.
        ValueError: `can_use_tool` and `permission_prompt_tool_name` are both set.
    """
    if given.can_use_tool and given.permission_prompt_tool_name:
        raise ValueError("can_use_tool and permission_prompt_tool_name both answer permission prompts; use only one")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "can_use_tool", OptionsWarning)
        options = ClientOptions(**_fields(given))
    shadows = _find_shadows(given)
    if given.can_use_tool and shadows:
        text = f"can_use_tool is not asked about {shadows}; to decide about each call, use a PreToolUse hook"
        warnings.warn(text, types.CanUseToolShadowedWarning, stacklevel=3)
    return options


def _find_shadows(given: types.ClaudeAgentOptions) -> str:
    """Return what other options allow before `can_use_tool` is asked."""
    if given.permission_mode == "bypassPermissions":
        return "any call: permission_mode='bypassPermissions' allows everything"
    rules = [*given.allowed_tools, *(["Skill"] if given.skills == "all" else [])]
    tools = [found[1] for rule in rules if (found := _WHOLE_TOOL.fullmatch(rule))]
    names = ", ".join(dict.fromkeys(tools))
    return names and f"{names}: allowed_tools, and rules in settings, allow whole tools"


def _fields(given: types.ClaudeAgentOptions) -> JSONObject:
    values = {name: getattr(given, name) for name in _SAME}
    fields = {name: value for name, value in values.items() if value or (name in _EVEN_IF_EMPTY and value is not None)}
    extra_args = {**given.extra_args, **_take_unchecked(fields)}
    if given.skills is not None:
        fields["setting_sources"] = given.setting_sources or ["user", "project"]
    elif given.setting_sources is not None:
        fields["setting_sources"] = given.setting_sources
    if given.thinking is not None:
        fields.pop("max_thinking_tokens", None)
    if given.max_buffer_size:
        fields["limits"] = Limits(max_line_bytes=given.max_buffer_size)
    if given.output_format and given.output_format.get("type") == "json_schema" and given.output_format.get("schema"):
        fields["output_format"] = given.output_format
    if given.agents:
        fields["agents"] = {name: _agent(agent) for name, agent in given.agents.items()}
    if given.hooks:
        fields["hooks"] = {event: list(_matchers(each)) for event, each in given.hooks.items()}
    if given.can_use_tool is not None:
        callback = PermissionCallback(given.can_use_tool)
        fields |= {"can_use_tool": callback.decide, "on_question": callback.decide}
    return fields | {
        "system_prompt": "" if given.system_prompt is None else given.system_prompt,
        "additional_directories": given.add_dirs,
        "env": _environment(given.env),
        "extra_args": extra_args,
        "on_stderr": given.stderr or _print_to_stderr,
        "load_timeout": given.load_timeout_ms / 1000,
        "per_task_stop_affordance": False,
        "timeouts": Timeouts(connect=_connect_seconds()),
    }


def _take_unchecked(fields: JSONObject) -> dict[str, str | None]:
    """Move options that the CLI shall refuse itself to flags, as the official SDK sends them."""
    flags: dict[str, str | None] = {}
    if "session_id" in fields and not _is_uuid(fields["session_id"]):
        flags["session-id"] = fields.pop("session_id")
    continues = "resume" in fields or "continue_conversation" in fields
    if "fork_session" in fields and not continues:
        del fields["fork_session"]
        flags["fork-session"] = None
    if "resume_session_at" in fields and "resume" not in fields:
        flags["resume-session-at"] = fields.pop("resume_session_at")
    if "resume_drops_turn" in fields and "resume_session_at" not in fields:
        flags["resume-drops-turn"] = fields.pop("resume_drops_turn")
    return flags


def _is_uuid(value: object) -> bool:
    try:
        UUID(str(value))
    except ValueError:
        return False
    return True


def _agent(agent: types.AgentDefinition) -> AgentDefinition:
    fields = {name: value for name, value in asdict(agent).items() if value is not None}
    if isinstance(fields.get("effort"), int):
        del fields["effort"]  # the CLI ignores numbers
    return AgentDefinition(**fields)


def _environment(env: Mapping[str, str]) -> dict[str, str | None]:
    wanted: dict[str, str | None] = {_READS_STATE: "1", STATE_EVENTS: os.environ.get(STATE_EVENTS)}
    return {**wanted, **env}


def _connect_seconds() -> float:
    given = os.environ.get("CLAUDE_CODE_STREAM_CLOSE_TIMEOUT", "")
    return max(_MIN_CONNECT_SECONDS, int(given) / 1000 if given.isdigit() else 0.0)


def _print_to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


# Permissions ----------------------------------------------------------------------------------------------------------


class PermissionCallback:
    """Calls a `can_use_tool` of the official SDK. If it raises, or returns something else, the call is denied."""

    def __init__(self, callback: types.CanUseTool) -> None:
        self._callback = callback

    async def decide(self, subject: object, context: PermissionContext) -> Allow | Deny:
        """Answer a request to run a tool. Questions of the model are calls of `AskUserQuestion`."""
        assert isinstance(context.request, CanUseToolRequest)  # noqa: S101 - only such requests come here
        request = PermissionRequest(context.request)
        suggestions = [
            types.PermissionUpdate.from_dict(dict(each)) for each in request.wire.permission_suggestions or ()
        ]
        asked = types.ToolPermissionContext(
            suggestions=suggestions,
            tool_use_id=request.tool_use_id,
            agent_id=context.agent_id,
            blocked_path=request.blocked_path,
            decision_reason=request.decision_reason,
            title=request.title,
            display_name=request.display_name,
            description=request.description,
        )
        data = deepcopy(request.raw_input)
        answer = await self._callback(request.tool_name, data, asked)
        return _decision(answer, None if data == request.raw_input else data)


def _decision(answer: object, edited: JSONObject | None) -> Allow | Deny:
    """Return the decision for an answer. `edited` is the input if the callback changed it in place."""
    if isinstance(answer, types.PermissionResultDeny):
        return Deny(answer.message, answer.interrupt)
    if not isinstance(answer, types.PermissionResultAllow):
        raise TypeError(f"can_use_tool must return PermissionResultAllow or PermissionResultDeny, not {type(answer)}")
    try:
        updates = [update.to_dict() for update in answer.updated_permissions or ()]
    except ValueError as error:
        _logger.warning("can_use_tool allowed a call, but its updated_permissions are not applied: %s", error)
        updates = []
    return Allow(edited if answer.updated_input is None else answer.updated_input, updates)


# Hooks ----------------------------------------------------------------------------------------------------------------


def _matchers(matchers: Sequence[types.HookMatcher]) -> Iterator[JSONObject]:
    for matcher in matchers:
        if not hasattr(matcher, "hooks"):
            raise ValueError(f"hooks must be lists of HookMatcher, not of {type(matcher).__name__}")
        if matcher.hooks and matcher.on_failure == "block":
            yield vars(matcher)
        elif matcher.hooks:
            hooks = [_lenient(each) for each in matcher.hooks]
            yield {"matcher": matcher.matcher, "hooks": hooks, "timeout": matcher.timeout or _HOOK_SECONDS}


def _lenient(callback: types.HookCallback) -> Any:
    """Return a hook that decides nothing if it raises. A late guard, or one with an invalid output, still blocks."""

    async def call(data: Any, tool_use_id: str | None, context: Any) -> Any:
        try:
            return {**await callback(data, tool_use_id, context)}
        except Exception:
            _logger.exception("the hook %s failed, so it decides nothing", call.__qualname__)
            return {}

    call.__qualname__ = getattr(callback, "__qualname__", type(callback).__qualname__)
    call.__module__ = str(getattr(callback, "__module__", ""))
    return call

"""The environment that the CLI starts with.

Owns what of the surrounding one is passed on. A program that itself runs inside of a session (in a tool, a hook) has
that session's marks around it; a CLI that inherits them takes itself for a part of that session.
"""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from claude_agent_py.configuration import Unshown
from claude_agent_py.launch.table import ALWAYS_VARIABLES, DEFAULT_CLIENT_APP, TABLE, Variable
from claude_agent_py.options.checks import HOOKS_OFF
from claude_agent_py.options.client_options import ClientOptions

logger: logging.Logger = logging.getLogger("claude_agent_py")

MARKS: Final = frozenset(
    {
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_LAUNCHED_BY_SESSION_IDS",
        "CLAUDE_CODE_SESSION_ATTENDED",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_PID",
        "CLAUDE_EFFORT",
        "CLAUDE_AGENT_SDK_VERSION",
        "AI_AGENT",
    }
)
"""What the CLI (2.1.328) puts into the environment of what it starts. By name, and no prefix: variables such as
CLAUDE_CODE_OAUTH_TOKEN are the user's."""


def environment(options: ClientOptions, surrounding: Mapping[str, str]) -> Mapping[str, str]:
    """Give the whole environment. The user's own `env` has the last word."""
    env = _inherited(surrounding) if options.inherit_env else {}
    if options.hooks is not None:
        env.pop(HOOKS_OFF, None)
    env |= ALWAYS_VARIABLES
    env.setdefault("CLAUDE_AGENT_SDK_CLIENT_APP", DEFAULT_CLIENT_APP)
    if options.cwd is not None and "PWD" in env:
        env["PWD"] = os.path.abspath(options.cwd)
    for row in TABLE:
        if isinstance(row, Variable) and (value := row.value(options)) is not None:
            env[row.name] = "1" if value is True else str(value)
    for name, value in options.env.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return Unshown(env)


def _inherited(surrounding: Mapping[str, str]) -> dict[str, str]:
    traced = _trace_context()
    stale = {"TRACEPARENT", "TRACESTATE"} if "TRACEPARENT" in traced else set()
    left_out = MARKS | stale
    return {name: value for name, value in surrounding.items() if name not in left_out} | traced


def _trace_context() -> dict[str, str]:
    """Give the variables by which the CLI's own OpenTelemetry spans become part of the caller's trace.

    Only where this program has loaded OpenTelemetry: there is no span otherwise.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    carrier: dict[str, str] = {}
    try:
        from opentelemetry import propagate

        propagate.inject(carrier)
    except Exception:
        logger.warning("the trace context cannot be passed on to the CLI", exc_info=True)
        return {}
    return {name.upper().replace("-", "_"): value for name, value in carrier.items()}


def config_directory(env: Mapping[str, str]) -> Path:
    """Give the directory in which a CLI with this environment keeps its sessions, transcripts and to-do lists."""
    given = env.get("CLAUDE_CONFIG_DIR")
    return Path(given) if given else Path(env.get("HOME") or Path.home()) / ".claude"

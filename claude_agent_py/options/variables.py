"""The environment of the CLI.

If this program itself runs in a session (in a tool or a hook), its environment has the variables of that session. They
are removed, because a CLI that inherits them takes itself for a part of that session.
"""

import os
import sys
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from claude_agent_py._base.configuration import Unshown, plain_copy
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.log import logger
from claude_agent_py.observe.telemetry import resolve_telemetry
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.conflicts import HOME_VARIABLES, HOOKS_OFF, TRUE_WORDS
from claude_agent_py.options.table import ALWAYS_VARIABLES, DEFAULT_CLIENT_APP, rows_with_values

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
"""The variables that the CLI (2.1.328) sets for its child processes. By name and not by prefix, because variables such
as CLAUDE_CODE_OAUTH_TOKEN are the user's."""


EXPORTERS: Final = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "ANT_OTEL_TRACES_EXPORTER",
    "ANT_OTEL_METRICS_EXPORTER",
    "ANT_OTEL_LOGS_EXPORTER",
)
"""The variables that name exporters of the CLI's own telemetry, in lists."""


HOMES: Final = frozenset({"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"})
"""Variables that name directories of the user; without them, programs use those in `HOME`."""


_last_copy: tuple[dict[object, object], Mapping[str, str]] = ({}, {})
"""The variables of this process as `os.environ` holds them, and decoded."""


def surroundings() -> Mapping[str, str]:
    """Return the environment of this process, which must not be changed.

    `os.environ` decodes each variable whenever it is read. Here that happens once, and again after a change.
    """
    global _last_copy
    held = getattr(os.environ, "_data", None)
    if held is None:  # replaced, or another Python
        return Unshown(dict(os.environ))
    if held != _last_copy[0]:
        _last_copy = dict(held), Unshown(dict(os.environ))
    return _last_copy[1]


def environment(
    options: ClientOptions, surrounding: Mapping[str, str], *, new_home: Path | None = None
) -> Mapping[str, str]:
    """Return the environment of the CLI. The option `env` takes precedence.

    `new_home` is the home directory of a session with `home=True`.
    """
    env = _inherit(surrounding) if options.inherit_env else {}
    if not options.inherit_env and resolve_telemetry(options.telemetry) is not None:
        env |= _trace_context()
    if options.hooks is not None:
        env.pop(HOOKS_OFF, None)
    env |= ALWAYS_VARIABLES
    env.setdefault("CLAUDE_AGENT_SDK_CLIENT_APP", DEFAULT_CLIENT_APP)
    if options.home is not None:
        env = {name: value for name, value in env.items() if name not in HOMES | HOME_VARIABLES}
        env |= _home_variables(private_home(options, new_home), options.login)
    if options.cwd is not None and "PWD" in env:
        env["PWD"] = os.path.abspath(options.cwd)
    for row, value in rows_with_values("variable", options):
        env[row.name] = "1" if value is True else str(value)
    for name, value in options.env.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return Unshown(env)


def variable(options: ClientOptions, name: str) -> str | None:
    """Return a variable of the CLI's environment, one that only the user sets."""
    if name in options.env:
        return options.env[name]
    return os.environ.get(name) if options.inherit_env else None


def _inherit(surrounding: Mapping[str, str]) -> dict[str, str]:
    traced = _trace_context()
    stale = MARKS | {"TRACEPARENT", "TRACESTATE"} if "TRACEPARENT" in traced else MARKS
    env = plain_copy(surrounding)
    for name in env.keys() & stale:
        del env[name]
    return env | traced


def private_home(options: ClientOptions, new_home: Path | None) -> Path | None:
    """Return the private home of a session, or None for the user's; `new_home` is the one to use for `home=True`."""
    if options.home is None or isinstance(options.home, bool):
        return new_home if options.home else None
    return Path(unicodedata.normalize("NFC", str(Path(options.home).absolute())))  # as the CLI names its folder


def _home_variables(home: Path | None, login: str | Path | None) -> dict[str, str]:
    if home is None:
        return {}
    directory = str(home)
    variables = {"HOME": directory, "USERPROFILE": directory, "CLAUDE_CONFIG_DIR": os.path.join(directory, ".claude")}
    if login is not None:
        variables["CLAUDE_SECURESTORAGE_CONFIG_DIR"] = os.path.abspath(login)
    return variables


def _trace_context() -> dict[str, str]:
    """Return the variables that make the CLI's OpenTelemetry spans part of the caller's trace.

    Empty unless this program has loaded OpenTelemetry.
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


def check_exporters(env: Mapping[str, str], options: ClientOptions) -> None:
    """Refuse exporters of the CLI's own telemetry that print to stdout, where its messages are.

    Raises:
        OptionsError: There is one.
    """
    if isinstance(options.settings, Mapping):
        settings = options.settings.get("env")
        if isinstance(settings, Mapping) and settings:
            _check_exporters({**env, **settings}, option="settings")
    _check_exporters(env, option="env")


def _check_exporters(variables: Mapping[str, object], *, option: str) -> None:
    is_enabled = str(variables.get("CLAUDE_CODE_ENABLE_TELEMETRY", "")).strip().lower() in TRUE_WORDS
    if not is_enabled:
        return
    for name in EXPORTERS:
        if "console" in str(variables.get(name, "")).lower().split(","):
            problem = f"{name}=console would make the CLI print telemetry among its messages; use otlp"
            raise OptionsError(problem, option=option)


def config_directory(env: Mapping[str, str]) -> Path:
    """Return the directory in which a CLI with this environment stores sessions, transcripts and to-do lists."""
    given = env.get("CLAUDE_CONFIG_DIR")
    return _path(given) if given else _path(env.get("HOME") or str(Path.home()), ".claude")


_path = lru_cache(Path)  # a path takes a while to parse, and all sessions have the same

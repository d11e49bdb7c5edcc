"""`plan_launch`: builds the command line, environment and `initialize` fields of a CLI from options.

Nothing long or secret goes on the command line, and no value can become a flag (`--flag=value` is one argument).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from claude_agent_py._base.bounded_reading import read_bytes, read_json
from claude_agent_py._base.configuration import Unshown
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.json_object import JSONObject
from claude_agent_py._base.private_files import find_account, temporary_folder
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.table import ALWAYS_FLAGS, AWAITED, TABLE, Awaited, rows_with_values
from claude_agent_py.options.values import PluginConfig, SystemPromptFile
from claude_agent_py.options.variables import check_exporters, config_directory, environment, private_home, surroundings
from claude_agent_py.transport.launch_plan import CONFIG, FORCE, NEW_HOME, PREFIX, SETTINGS_FILE, LaunchPlan
from claude_agent_py.transport.locate import home as home_of
from claude_agent_py.wire.settings.rule_lists import split_rules

LOGIN_FILE: Final = ".credentials.json"


def check_home(options: ClientOptions, environ: Mapping[str, str], cwd: Path | None) -> None:
    """Refuse a private home that would not keep the user's configuration out, and a login that is missing.

    The CLI looks for a project's `.claude` in `cwd` and all directories above it (2.1.328), and ends that search in its
    home, which is another one now. Without project settings it does not look.

    Raises:
        OptionsError: The CLI would treat `.claude` in the user's home as a project's, or there is no login.
    """
    if options.home is None:
        return
    user_home = home_of(environ).resolve()
    place = (cwd or Path.cwd()).resolve()
    is_project_read = {"project", "local"} & set(options.setting_sources or ())
    if is_project_read and place.is_relative_to(user_home) and (user_home / CONFIG).exists():
        raise OptionsError(
            f"cannot have project or local settings in {place}: the CLI would also read {user_home / CONFIG}, which "
            "is above it; work in a directory outside of your home, or leave these sources out",
            option="setting_sources",
        )
    # On macOS the login is in the Keychain, under a name that depends on the folder.
    if options.login is not None and sys.platform != "darwin" and not Path(options.login, LOGIN_FILE).is_file():
        raise OptionsError(f"there is no {LOGIN_FILE} in {options.login}", option="login")


def join_settings(options: ClientOptions, allowed: Sequence[str] = ()) -> JSONObject | Path | None:
    """Return the settings, the path of a file that can be used unchanged, or None if there are no settings.

    `allowed` are allow rules that are too long for the command line.

    Raises:
        OptionsError: The file of `settings` cannot be read, or its contents cannot be merged.
    """
    given = options.settings
    if isinstance(given, Path):
        path = given.absolute()
        if options.spawn is None and not path.is_file():
            raise OptionsError(f"{path} does not exist", option="settings")
        if options.sandbox is None and not allowed:
            return path
        given = _read(path)
    joined = dict(given) if isinstance(given, Mapping) else {}
    if options.sandbox is not None:
        joined["sandbox"] = options.sandbox.merged_into(_object(joined, "sandbox"))
    if allowed:
        permissions = dict(_object(joined, "permissions"))
        permissions["allow"] = [*permissions.get("allow", ()), *allowed]
        joined["permissions"] = permissions
    return joined or None


def _read(path: Path) -> JSONObject:
    try:
        value = read_json(read_bytes(path)[0])
    except (OSError, ValueError) as error:
        raise OptionsError(f"{path} cannot be read: {error}", option="settings") from error
    if not isinstance(value, dict):
        raise OptionsError(f"{path} must hold a JSON object", option="settings")
    return value


def _object(settings: Mapping[str, object], name: str) -> Mapping[str, Any]:
    value = settings.get(name, {})
    if not isinstance(value, Mapping):
        raise OptionsError(f"{name} must be an object, not {type(value).__name__}", option="settings")
    return value


LONG_LIST_CHARS: Final = 8 * 1024
"""Longer lists are not passed on the command line."""

MAX_ARGUMENT_BYTES: Final = 131_071
"""The longest argument on Linux (MAX_ARG_STRLEN, 128 KiB with its NUL)."""

MAX_COMMAND_CHARS: Final = 32_766 if sys.platform == "win32" else 1024 * 1024
"""The longest command line: on Windows the system's limit, elsewhere half of the usual limit with the environment."""


FORCE_SHARE: Final = 0.5
"""The largest part of `Timeouts.close` that killing the CLI may take."""


def _check_machine(options: ClientOptions, environ: Mapping[str, str], cwd: Path | None) -> None:
    """Check what has to exist on the machine of the CLI."""
    check_home(options, environ, cwd)
    _check_files(options)
    if isinstance(options.user, str) and sys.platform != "win32" and find_account(options.user) is None:
        raise OptionsError(f"user {options.user!r} does not exist on this system", option="user")


def plan_launch(
    options: ClientOptions,
    *,
    cli: Path,
    environ: Mapping[str, str] | None = None,
    scratch: Path | None = None,
) -> LaunchPlan:
    """Return the plan to start the CLI with these options. Starts and writes nothing.

    Args:
        options: The options.
        cli: The path of the program.
        environ: The environment to inherit; None means this process's.
        scratch: A directory that does not exist yet, for the files of the plan; None chooses one.

    Raises:
        OptionsError: A directory, file or user is missing, or something is too long for a command line. With `spawn`,
            nothing has to exist here.
    """
    environ = surroundings() if environ is None else environ
    is_elsewhere = options.spawn is not None
    cwd = _cwd(options)
    if not is_elsewhere:
        _check_machine(options, environ, cwd)
    flags, too_long = _flags(options)
    settings = join_settings(options, too_long.pop("settings", []))
    initialize = {row.name: value for row, value in rows_with_values("field", options)} | too_long
    if scratch is None and (options.home is True or isinstance(settings, dict)):
        scratch = temporary_folder() / f"{PREFIX}{os.urandom(8).hex()}"
    settings_flags, files = _settings(settings, scratch)
    awaited = {name: AWAITED[name] for name in AWAITED if name in initialize}
    flags += [*settings_flags, *_waiting_flags(awaited)]
    argv = (str(cli), *ALWAYS_FLAGS, *flags, *_read_extra_args(options, flags))
    _check_length(argv)
    home = private_home(options, None if scratch is None else scratch / NEW_HOME)
    env = environment(options, environ, new_home=home)
    check_exporters(env, options)
    return LaunchPlan(
        argv=argv,
        env=env,
        cwd=cwd,
        initialize=Unshown(initialize),
        user=options.user,
        files=files,
        home=home,
        is_new_home=options.home is True,
        is_elsewhere=is_elsewhere,
        force=min(FORCE, options.timeouts.close * FORCE_SHARE),
        stderr_bytes=options.limits.stderr_bytes,
        config_dir=config_directory(env),
        confirmations={field.confirmed_by: _find_option(name) for name, field in awaited.items()},
    )


def _waiting_flags(awaited: Mapping[str, Awaited]) -> list[str]:
    """Return the flags that make the CLI wait for these fields of `initialize` before it starts."""
    if not awaited:
        return []
    flags = ["--await-initialize"]
    for field in awaited.values():
        flags += field.flags
    return flags


def _cwd(options: ClientOptions) -> Path | None:
    if options.cwd is None or options.spawn is not None:
        return None if options.cwd is None else Path(options.cwd)
    cwd = Path(options.cwd).absolute()
    if not cwd.is_dir():
        raise OptionsError(f"{cwd} {'is not a directory' if cwd.exists() else 'does not exist'}", option="cwd")
    return cwd


def _check_files(options: ClientOptions) -> None:
    """Check that the files for the CLI exist, because it silently ignores most of those that do not."""
    for option, path, is_there, problem in _paths_to_check(options):
        if not is_there(path):
            raise OptionsError(f"{problem}: {path.absolute()}", option=option)


def _paths_to_check(options: ClientOptions) -> Iterator[tuple[str, Path, Callable[[Path], bool], str]]:
    prompt, servers = options.system_prompt, options.mcp_servers
    if isinstance(prompt, SystemPromptFile):
        yield "system_prompt", Path(os.path.expanduser(prompt.path)), os.path.isfile, "no such file"
    if isinstance(servers, Path):
        yield "mcp_servers", servers, os.path.isfile, "no such file"
    for plugin in cast("Sequence[PluginConfig]", options.plugins):  # the option reads other values
        yield "plugins", Path(os.path.expanduser(plugin.path)), os.path.exists, "no such plugin"
    for directory in options.additional_directories:
        yield "additional_directories", Path(options.cwd or os.curdir, directory), os.path.isdir, "no such directory"
    if options.project_config_root is not None:
        yield "project_config_root", Path(options.project_config_root), os.path.isdir, "no such directory"
    if options.debug_file is not None:
        yield "debug_file", Path(options.debug_file), _can_be_written, "cannot create"


def _can_be_written(file: Path) -> bool:
    """Return whether a file can be created, including its parent directories, which the CLI creates."""
    if os.path.exists(file):
        return os.path.isfile(file) and os.access(file, os.W_OK)
    nearest = next(parent for parent in file.absolute().parents if os.path.exists(parent))
    return os.path.isdir(nearest) and os.access(nearest, os.W_OK)


def _flags(options: ClientOptions) -> tuple[list[str], dict[str, list[str]]]:
    """Return the flags, and the lists that are too long for a flag, by their destination."""
    flags: list[str] = []
    too_long: dict[str, list[str]] = {}
    for row, value in rows_with_values("flag", options):
        if row.when_long is not None and len(value) > LONG_LIST_CHARS:
            too_long[row.when_long] = split_rules(value)
        else:
            flags += _format_flag(row.name, value)
    return flags, too_long


def _format_flag(name: str, value: object) -> list[str]:
    if value is True:
        return [name]
    items = value if isinstance(value, list) else [value]
    return [f"{name}={item}" for item in items]


def _settings(settings: JSONObject | Path | None, scratch: Path | None) -> tuple[list[str], dict[Path, str]]:
    if settings is None:
        return [], {}
    if scratch is None or isinstance(settings, Path):
        return [f"--settings={settings}"], {}
    path = scratch / SETTINGS_FILE
    return [f"--settings={path}"], {path: json.dumps(settings)}


def _read_extra_args(options: ClientOptions, flags: list[str]) -> list[str]:
    """Return the flags of `extra_args`. Raises OptionsError if an option sets the same flag."""
    taken = {flag.partition("=")[0] for flag in flags}
    own = []
    for name, value in options.extra_args.items():
        if f"--{name}" in taken:
            raise OptionsError(f"--{name} is already set by the option {_find_option(f'--{name}')}",
                               option="extra_args")  # fmt: skip
        own.append(f"--{name}" if value is None else f"--{name}={value}")
    return own


def _check_length(argv: tuple[str, ...]) -> None:
    for argument in argv:
        problem = _argument_problem(argument)
        if problem is not None:
            raise OptionsError(problem, option=_find_option(argument.partition("=")[0]))
    total = sum(len(argument) + 1 for argument in argv)
    if total > MAX_COMMAND_CHARS:
        longest = _find_option(max(argv[1:], key=len).partition("=")[0])
        raise OptionsError(
            f"the command line has {total:,} characters; the limit here is {MAX_COMMAND_CHARS:,}",
            option=longest,
        )


def _argument_problem(argument: str) -> str | None:
    if "\0" in argument:
        return "must not contain a NUL character"
    try:
        length = len(os.fsencode(argument))
    except UnicodeEncodeError:
        return "must not contain half a character (a lone surrogate)"
    if length > MAX_ARGUMENT_BYTES:
        return f"is too long for a command line ({len(argument):,} characters)"
    return None


def _find_option(name: str) -> str:
    bare = name.removeprefix("--")
    return next((row.reads[0] for row in TABLE if row.name.removeprefix("--") == bare), "extra_args")

"""Merging the settings of a session: the option `settings`, the sandbox, and lists too long for the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claude_agent_py._errors import OptionsError
from claude_agent_py._untrusted import read_bytes, read_json
from claude_agent_py.options.client_options import ClientOptions

if TYPE_CHECKING:
    from claude_agent_py.wire.base import JSONObject


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


def _object(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = settings.get(name, {})
    if not isinstance(value, Mapping):
        raise OptionsError(f"{name} must be an object, not {type(value).__name__}", option="settings")
    return value

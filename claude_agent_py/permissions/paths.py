"""The policy `within`, which limits file tools to some directories.

Paths are resolved, including links and `..`, before they are compared. The check runs before the tool, so a link that
is created in between is missed: this is not a sandbox. Paths through `/proc` or `/dev` are rejected because they mean
different files in each process.

A tool does not always open the path as written. With CLI 2.1.328, policies see the paths of Read, Write, Edit and
NotebookEdit as they will be opened. The paths of Grep and Glob come as written, and the CLI strips white space around
them and around the directory that starts a pattern. Read tries a screenshot's alternative name if the file is missing.
A search without a path starts in the directory of the last `cd`. Every path that the tool may open must be inside.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from claude_agent_py._errors import OptionsError
from claude_agent_py.permissions.decisions import Allow, Deny
from claude_agent_py.permissions.policies import Opinion, Policy, approved
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest
from claude_agent_py.wire.tools.registry import canonical_name


def within(directory: str | os.PathLike[str], *more: str | os.PathLike[str]) -> Policy:
    """Let file tools work in these directories and deny them elsewhere; no opinion on other tools.

    File tools are Read, Write, Edit, NotebookEdit, Glob, Grep and LSP. Relative paths are denied because the working
    directory may have changed; paths that end with white space are denied because the CLI may strip it. A search
    without a path is made to start in `PermissionContext.cwd` (by `Allow.updated_input`).

    Raises:
        OptionsError: A directory does not exist.
    """
    roots = tuple(_root(one) for one in (directory, *more))

    def policy(request: PermissionRequest, context: PermissionContext) -> Opinion:
        tool = canonical_name(request.tool_name)
        if tool not in _PATHS_OF:
            return None
        starts_nowhere = tool in _SEARCHES and not request.raw_input.get("path")
        data = {**request.raw_input, "path": context.cwd} if starts_nowhere else request.raw_input
        try:
            paths = _PATHS_OF[tool](data)
        except (OSError, RuntimeError, ValueError, TypeError, KeyError) as problem:
            return Deny(f"Path not allowed: {problem}.")
        if not all(any(path.is_relative_to(root) for root in roots) for path in paths):
            return Deny(f"Only files in {', '.join(map(str, roots))} are allowed.")
        opinion = approved(request)
        return Allow(updated_input=data) if starts_nowhere and opinion else opinion

    return policy


def _root(directory: str | os.PathLike[str]) -> Path:
    path = Path(directory).expanduser()
    if not path.is_dir():
        raise OptionsError(f"within: no such directory: {str(path)!r}", option="can_use_tool")
    return path.resolve()


def _resolved(path: Any) -> Path:
    if not isinstance(path, str) or not Path(path).is_absolute():  # on Windows, a path without a drive is ambiguous
        raise ValueError("it must be absolute")
    if path[-1] == " " or not path[-1].isprintable():  # stricter than JavaScript's trim()
        raise ValueError("it must not end with white space")
    _check_steps(path)
    resolved = Path(path).resolve()
    if Path(os.path.normpath(path)).resolve() != resolved:
        raise ValueError("'..' must not follow a link")  # its meaning depends on the program
    return resolved


_PER_PROCESS = (Path("/proc"), Path("/dev"))
_MOST_LINKS = 40


def _check_steps(path: str) -> None:
    """Raise ValueError for a path through `/proc` or `/dev`, directly or by links, or through too many links."""
    reached, steps, links = Path("/"), deque(Path(path).parts), 0
    while steps:
        step = steps.popleft()
        reached = reached.parent if step == ".." else reached / step.replace("//", "/")  # `//` is the same root
        if any(reached.is_relative_to(root) for root in _PER_PROCESS):
            raise ValueError("it leads through /proc or /dev")
        if reached.is_symlink():
            links += 1
            steps.extendleft(reversed(Path(os.readlink(reached)).parts))
            reached = reached.parent
        if links > _MOST_LINKS:
            raise ValueError("it leads through too many links")


_Paths: TypeAlias = tuple[Path, ...]


def _named(field: str) -> Callable[[Mapping[str, Any]], _Paths]:
    return lambda data: (_resolved(data[field]),)


_SPACE_IN_SCREENSHOT = re.compile(r"[ \u202f](?=(?:AM|PM)\.png\Z)")


def _read(data: Mapping[str, Any]) -> _Paths:
    path = data["file_path"]
    named = _resolved(path)
    other = _SPACE_IN_SCREENSHOT.sub(lambda space: "\u202f" if space[0] == " " else " ", path)
    return named, _resolved(other)


def _globbed(data: Mapping[str, Any]) -> _Paths:
    root, pattern = _resolved(data["path"]), data["pattern"]
    if ".." in re.split(r"[/\\{},]", pattern):
        raise ValueError("a pattern must not contain '..'")
    fixed = os.path.join(data["path"], re.split(r"[*?\[{]", pattern, maxsplit=1)[0])
    return root, _resolved(os.path.dirname(fixed)), _resolved(fixed.rstrip())


_PATHS_OF: Mapping[str, Callable[[Mapping[str, Any]], _Paths]] = {
    "Read": _read,
    "Write": _named("file_path"),
    "Edit": _named("file_path"),
    "NotebookEdit": _named("notebook_path"),
    "LSP": _named("filePath"),
    "Grep": _named("path"),
    "Glob": _globbed,
}
_SEARCHES = frozenset({"Grep", "Glob"})

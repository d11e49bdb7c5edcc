"""The policy `within`, which limits file tools to some directories.

Paths are resolved, including links and `..`, before they are compared. The check runs before the tool, so a link that
is created in between is missed: this is not a sandbox. Paths through `/proc` or `/dev` are rejected because they mean
different files in each process.

A tool may open another path than the written one. With CLI 2.1.328, policies see the final paths of Read, Write, Edit
and NotebookEdit. The paths of Grep and Glob come as written, and the CLI strips white space around them and around the
directory that starts a pattern. Read tries a screenshot's alternative name if the file is missing.
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
from claude_agent_py.permissions.policies import Opinion, Policy, allow_unless_ask_rule
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest
from claude_agent_py.wire.tools.registry import canonical_name


def within(directory: str | os.PathLike[str], *more: str | os.PathLike[str]) -> Policy:
    """Allow file tools in these directories and deny them elsewhere; no opinion on other tools.

    File tools are Read, Write, Edit, NotebookEdit, Glob, Grep and LSP. Relative paths are denied because the working
    directory may have changed; paths that end with white space are denied because the CLI may strip it. A search
    without a path starts in `PermissionContext.cwd`, which the policy adds by `Allow.updated_input`.

    Raises:
        OptionsError: A directory does not exist.
    """
    roots = tuple(_resolve_root(one) for one in (directory, *more))

    def policy(request: PermissionRequest, context: PermissionContext) -> Opinion:
        tool = canonical_name(request.tool_name)
        if tool not in _PATH_READERS:
            return None
        starts_nowhere = tool in _SEARCHES and not request.raw_input.get("path")
        data = {**request.raw_input, "path": context.cwd} if starts_nowhere else request.raw_input
        try:
            paths = _PATH_READERS[tool](data)
        except (OSError, RuntimeError, ValueError, TypeError, KeyError) as problem:
            return Deny(f"Path not allowed: {problem}.")
        if not all(any(path.is_relative_to(root) for root in roots) for path in paths):
            return Deny(f"Only files in {', '.join(map(str, roots))} are allowed.")
        opinion = allow_unless_ask_rule(request)
        return Allow(updated_input=data) if starts_nowhere and opinion else opinion

    return policy


def _resolve_root(directory: str | os.PathLike[str]) -> Path:
    path = Path(directory).expanduser()
    if not path.is_dir():
        raise OptionsError(f"within: no such directory: {str(path)!r}", option="can_use_tool")
    return path.resolve()


def _resolve(path: Any) -> Path:
    # On Windows, this also refuses a path without a drive, which is ambiguous.
    if not isinstance(path, str) or not Path(path).is_absolute():
        raise ValueError("the path must be absolute")
    # The CLI strips white space with JavaScript's trim(). This check is stricter.
    if path[-1] == " " or not path[-1].isprintable():
        raise ValueError("the path must not end with white space")
    _check_steps(path)
    resolved = Path(path).resolve()
    # Programs disagree about `..` after a link: its target's parent, or the directory with the link.
    if Path(os.path.normpath(path)).resolve() != resolved:
        raise ValueError("'..' must not follow a link")
    return resolved


_PER_PROCESS = (Path("/proc"), Path("/dev"))
_MOST_LINKS = 40


def _check_steps(path: str) -> None:
    """Raise ValueError for a path through `/proc` or `/dev`, directly or by links, or through too many links."""
    reached = Path("/")
    steps = deque(Path(path).parts)
    links = 0
    while steps:
        step = steps.popleft()
        # `//` at the start of a path is the same root as `/`.
        reached = reached.parent if step == ".." else reached / step.replace("//", "/")
        if any(reached.is_relative_to(root) for root in _PER_PROCESS):
            raise ValueError("the path must not lead through /proc or /dev")
        if reached.is_symlink():
            links += 1
            steps.extendleft(reversed(Path(os.readlink(reached)).parts))
            reached = reached.parent
        if links > _MOST_LINKS:
            raise ValueError("the path leads through too many links")


_Paths: TypeAlias = tuple[Path, ...]


def _read_named_path(field: str) -> Callable[[Mapping[str, Any]], _Paths]:
    return lambda data: (_resolve(data[field]),)


_SPACE_IN_SCREENSHOT = re.compile(r"[ \u202f](?=(?:AM|PM)\.png\Z)")


def _read_read_paths(data: Mapping[str, Any]) -> _Paths:
    path = data["file_path"]
    named = _resolve(path)
    other = _SPACE_IN_SCREENSHOT.sub(lambda space: "\u202f" if space[0] == " " else " ", path)
    return named, _resolve(other)


def _read_glob_paths(data: Mapping[str, Any]) -> _Paths:
    root = _resolve(data["path"])
    pattern = data["pattern"]
    if ".." in re.split(r"[/\\{},]", pattern):
        raise ValueError("a pattern must not contain '..'")
    fixed = os.path.join(data["path"], re.split(r"[*?\[{]", pattern, maxsplit=1)[0])
    return root, _resolve(os.path.dirname(fixed)), _resolve(fixed.rstrip())


_PATH_READERS: Mapping[str, Callable[[Mapping[str, Any]], _Paths]] = {
    "Read": _read_read_paths,
    "Write": _read_named_path("file_path"),
    "Edit": _read_named_path("file_path"),
    "NotebookEdit": _read_named_path("notebook_path"),
    "LSP": _read_named_path("filePath"),
    "Grep": _read_named_path("path"),
    "Glob": _read_glob_paths,
}
_SEARCHES = frozenset({"Grep", "Glob"})

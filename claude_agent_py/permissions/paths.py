"""The policy `within`: file tools may work in some directories and nowhere else.

Owns the question which path a call really means: links are followed and `..` is taken out before anything is compared.
It decides before the tool runs, so a link that is made in between is not seen; this is a fence, no sandbox. What leads
through `/proc` or `/dev` means another file in each process, and is refused.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from claude_agent_py.errors import OptionsError
from claude_agent_py.permissions.decisions import Deny
from claude_agent_py.permissions.policies import Opinion, Policy, approved
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest
from claude_agent_py.wire.tools.registry import canonical_name


def within(directory: str | os.PathLike[str], *more: str | os.PathLike[str]) -> Policy:
    """Let the file tools work inside these directories, and deny them everywhere else; no opinion on other tools.

    File tools are Read, Write, Edit, NotebookEdit, Glob, Grep and LSP. A path that is relative is denied, because the
    directory that it starts from may have changed; a search without a path starts in the session's directory.

    Raises:
        OptionsError: A directory does not exist.
    """
    roots = tuple(_root(one) for one in (directory, *more))

    def policy(request: PermissionRequest, context: PermissionContext) -> Opinion:
        path_of = _PATH_OF.get(canonical_name(request.tool_name))
        if path_of is None:
            return None
        try:
            path = path_of(request.raw_input, context.cwd)
        except (ValueError, TypeError, KeyError) as problem:
            return Deny(f"This path is not allowed: {problem}.")
        if any(path.is_relative_to(root) for root in roots):
            return approved(request)
        return Deny(f"Only files in {', '.join(map(str, roots))} are allowed.")

    return policy


def _root(directory: str | os.PathLike[str]) -> Path:
    path = Path(directory).expanduser()
    if not path.is_dir():
        raise OptionsError(f"within: there is no directory {str(path)!r}", option="can_use_tool")
    return path.resolve()


def _resolved(path: Any) -> Path:
    if not isinstance(path, str) or not os.path.isabs(path):
        raise ValueError("give an absolute one")
    _check_steps(path)
    resolved = Path(path).resolve()
    if Path(os.path.normpath(path)).resolve() != resolved:
        raise ValueError("'..' must not follow a link")  # programs differ in what that means
    return resolved


_PER_PROCESS = (Path("/proc"), Path("/dev"))
_MOST_LINKS = 40


def _check_steps(path: str) -> None:
    """Refuse a path that leads through `/proc` or `/dev`, by links, too: it may mean another file in the CLI.

    Raises:
        ValueError: It does, or there are too many links.
    """
    reached, steps, links = Path("/"), deque(Path(path).parts), 0
    while steps:
        step = steps.popleft()
        reached = reached.parent if step == ".." else reached / step.replace("//", "/")  # two make the same root
        if any(reached.is_relative_to(root) for root in _PER_PROCESS):
            raise ValueError("it leads through /proc or /dev")
        if reached.is_symlink():
            links += 1
            steps.extendleft(reversed(Path(os.readlink(reached)).parts))
            reached = reached.parent
        if links > _MOST_LINKS:
            raise ValueError("it leads through too many links")


def _named(field: str) -> Callable[[Mapping[str, Any], str | None], Path]:
    return lambda data, cwd: _resolved(data[field])


def _searched(data: Mapping[str, Any], cwd: str | None) -> Path:
    return _resolved(data.get("path") or cwd)


def _globbed(data: Mapping[str, Any], cwd: str | None) -> Path:
    pattern = data["pattern"]
    if ".." in re.split(r"[/\\{},]", pattern):
        raise ValueError("a pattern must not contain '..'")
    fixed = re.split(r"[*?\[{]", pattern, maxsplit=1)[0]
    return _resolved(os.path.join(_searched(data, cwd), fixed))


_PATH_OF: Mapping[str, Callable[[Mapping[str, Any], str | None], Path]] = {
    "Read": _named("file_path"),
    "Write": _named("file_path"),
    "Edit": _named("file_path"),
    "NotebookEdit": _named("notebook_path"),
    "LSP": _named("filePath"),
    "Grep": _searched,
    "Glob": _globbed,
}

"""The policy `within`: file tools may work in some directories and nowhere else.

Owns the question which path a call really means: links are followed and `..` is taken out before anything is compared.
It decides before the tool runs, so a link that is made in between is not seen; this is a fence, no sandbox. What leads
through `/proc` or `/dev` means another file in each process, and is refused.

A tool does not always open the path as it is written. Measured with CLI 2.1.328: Read, Write, Edit and NotebookEdit are
shown to a policy as they will be opened; Grep and Glob are shown as written, and cut off white space around the path,
and around the directory that a pattern begins with; Read looks for a screenshot's other name where there is no such
file; a search without a path starts where the last `cd` led. Every path that the tool may open has to be inside.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from claude_agent_py.errors import OptionsError
from claude_agent_py.permissions.decisions import Allow, Deny
from claude_agent_py.permissions.policies import Opinion, Policy, approved
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest
from claude_agent_py.wire.tools.registry import canonical_name


def within(directory: str | os.PathLike[str], *more: str | os.PathLike[str]) -> Policy:
    """Let the file tools work inside these directories, and deny them everywhere else; no opinion on other tools.

    File tools are Read, Write, Edit, NotebookEdit, Glob, Grep and LSP. A path that is relative is denied, because the
    directory that it starts from may have changed, and so is one that ends with white space, which the CLI may cut off.
    A search without a path is told to start in `PermissionContext.cwd` (`Allow.updated_input`), for the same reason.

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
            return Deny(f"This path is not allowed: {problem}.")
        if not all(any(path.is_relative_to(root) for root in roots) for path in paths):
            return Deny(f"Only files in {', '.join(map(str, roots))} are allowed.")
        opinion = approved(request)
        return Allow(updated_input=data) if starts_nowhere and opinion else opinion

    return policy


def _root(directory: str | os.PathLike[str]) -> Path:
    path = Path(directory).expanduser()
    if not path.is_dir():
        raise OptionsError(f"within: there is no directory {str(path)!r}", option="can_use_tool")
    return path.resolve()


def _resolved(path: Any) -> Path:
    if not isinstance(path, str) or not Path(path).is_absolute():  # on Windows not without a drive, which CLIs guess
        raise ValueError("give an absolute one")
    if path[-1] == " " or not path[-1].isprintable():  # more than JavaScript's trim() cuts off
        raise ValueError("it must not end with white space")
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

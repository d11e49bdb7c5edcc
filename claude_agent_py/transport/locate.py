"""Finding the `claude` program on this machine, and reading its version.

Searched in this order: the option, the environment variable, the cache of `install-cli`, the official SDK in this
Python environment (the extra `bundled`), PATH, the usual install locations. An invalid option or variable is an error;
the search does not continue.
"""

import os
import re
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from claude_agent_py._base.errors import CLINotFoundError, CLIStartError, CLIVersionError
from claude_agent_py._version import CLI_VERSION, MINIMUM_CLI_VERSION

CLI_VARIABLE: Final = "CLAUDE_AGENT_CLI"
"""Names the program to use."""

CACHE_VARIABLE: Final = "CLAUDE_AGENT_CACHE_DIR"
"""Names the cache directory of `install-cli`, instead of the platform's."""

BUNDLED_VARIABLE: Final = "CLAUDE_AGENT_BUNDLED_DIR"
"""Names the directory of the program in the official SDK, instead of the one in site-packages."""

WINDOWS: Final = sys.platform == "win32"
PROGRAM: Final = "claude.exe" if WINDOWS else "claude"

USUAL_PLACES: Final = (
    (".local/bin/claude.exe", "AppData/Roaming/npm/claude.cmd")
    if WINDOWS
    else (
        ".local/bin/claude",
        ".claude/local/claude",
        ".npm-global/bin/claude",
        "/usr/local/bin/claude",
        "/opt/homebrew/bin/claude",
        "node_modules/.bin/claude",
        ".yarn/bin/claude",
    )
)
"""Where installers put the program; relative paths are below the home directory."""

NPM_SCRIPT: Final = "claude.cmd"
"""The script that npm writes on Windows. It cannot be started safely; the program is in a package next to it."""

VERSION_PATTERN: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)[0-9A-Za-z.+-]*")


class Candidate(NamedTuple):
    """A candidate path of the program."""

    place: str
    """The source of the path: `the cache`, `PATH`, ..."""
    path: Path
    problem: str | None
    """Why it cannot be used, or None if it looks usable."""

    def __str__(self) -> str:
        return f"{self.place}: {self.path} ({self.problem or 'usable'})"


def find_cli(cli_path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """Find the `claude` program and return its absolute path. Runs nothing, and blocks for less than a millisecond.

    `cli_path` is the user's choice; `environ` is the environment to search with, by default this process's.

    Raises:
        CLINotFoundError: No usable program was found, or the one named by `cli_path` or `CLAUDE_AGENT_CLI` cannot be
            used, in which case nothing else is tried. `tried` lists every place with its problem.
    """
    environ = os.environ if environ is None else environ
    named = _find_named(cli_path, environ)
    tried = []
    for candidate in search(environ) if named is None else [named]:
        if candidate.problem is None:
            return candidate.path
        tried.append(str(candidate))
    if named is None:
        raise CLINotFoundError(tried)
    raise CLINotFoundError(
        tried,
        f"the `claude` program named by {named.place} cannot be used",
        hint="Correct it, or remove it to search for the program.",
    )


def search(environ: Mapping[str, str] | None = None) -> Iterator[Candidate]:
    """Yield every place to search for the program, in order, usable or not."""
    environ = os.environ if environ is None else environ
    yield from _in_cache(environ)
    yield from _in_official_sdk(environ)
    yield from _on_path(environ)
    for place in USUAL_PLACES:
        yield _look("a usual install place", home(environ) / place)


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the directory of installed programs, as `<directory>/cli/<version>/claude`. It may not exist."""
    environ = os.environ if environ is None else environ
    if named := environ.get(CACHE_VARIABLE):
        return Path(named).expanduser().absolute()
    return user_folder(environ, "XDG_CACHE_HOME", macos="Library/Caches", other=".cache")


def user_folder(environ: Mapping[str, str], variable: str, *, macos: str, other: str) -> Path:
    """Return this package's directory below the user's directory that `variable` names. It may not exist."""
    if WINDOWS:
        base = environ.get("LOCALAPPDATA") or home(environ) / "AppData" / "Local"
    else:
        base = environ.get(variable) or home(environ) / (macos if sys.platform == "darwin" else other)
    return Path(base).absolute() / "claude-agent-py"


def cached_cli(version: str, cache: Path) -> Path:
    """Return the path of a version in a cache directory. It may not exist."""
    return cache / "cli" / version / PROGRAM


def home(environ: Mapping[str, str]) -> Path:
    """Return the home directory of an environment, or the user's if it names none."""
    named = environ.get("USERPROFILE" if WINDOWS else "HOME")
    return Path(named).absolute() if named else Path.home()


def read_version(path: str | os.PathLike[str], *, timeout: float = 20.0) -> str:
    """Return the version that a program prints, such as `2.1.328`. Blocks while it runs, for at most `timeout` seconds.

    Raises:
        CLIStartError: The program cannot be started, fails, is too slow, or prints no version.
    """
    command = [str(path), "--version"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise CLIStartError(f"`--version` did not finish within {timeout:g} s", cli_path=str(path)) from None
    except OSError as error:
        raise CLIStartError(f"cannot be started: {error.strerror or error}", cli_path=str(path)) from error
    found = [*VERSION_PATTERN.finditer(done.stdout.decode(errors="replace"))]
    if done.returncode != 0 or not found:
        stderr = done.stderr.decode(errors="replace")[-2000:]
        message = "`--version` printed no version" if done.returncode == 0 else "`--version` failed"
        raise CLIStartError(message, exit_code=done.returncode, stderr_tail=stderr, cli_path=str(path))
    return found[-1].group()  # a wrapper may print other versions before


def require_version(version: str, cli_path: str | os.PathLike[str]) -> None:
    """Refuse a program that is too old.

    Raises:
        CLIVersionError: `version` is below `MINIMUM_CLI_VERSION`. A version that cannot be read passes.
    """
    known = version_key(version)
    if known and known < version_key(MINIMUM_CLI_VERSION):
        raise CLIVersionError(version, MINIMUM_CLI_VERSION, str(cli_path))


@lru_cache
def version_key(version: str) -> tuple[int, ...]:
    """Return the sort key of a version: `2.1.328` is (2, 1, 328). Empty for an invalid version."""
    numbers = VERSION_PATTERN.match(version)
    return tuple(int(number) for number in numbers.groups()) if numbers else ()


def _find_named(cli_path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Candidate | None:
    if cli_path is not None:
        return _look("the option cli_path", Path(os.path.expanduser(cli_path)))
    if variable := environ.get(CLI_VARIABLE):
        return _look(f"the environment variable {CLI_VARIABLE}", Path(os.path.expanduser(variable)))
    return None


def _in_cache(environ: Mapping[str, str]) -> Iterator[Candidate]:
    """Yield the version that this package is tested with, then the others that are supported, newest first."""
    cache = cache_folder(environ)
    yield _look("the cache", cached_cli(CLI_VERSION, cache))
    try:
        others = {entry.name for entry in (cache / "cli").iterdir()} - {CLI_VERSION}
    except OSError:
        return
    new_enough = [version for version in others if version_key(version) >= version_key(MINIMUM_CLI_VERSION)]
    for version in sorted(new_enough, key=version_key, reverse=True):
        yield _look("the cache", cached_cli(version, cache))


def _in_official_sdk(environ: Mapping[str, str]) -> Iterator[Candidate]:
    """Yield the program that the wheel of the official SDK contains, if it is installed here and new enough.

    Only site-packages are searched: other places of Python's path may belong to the directory that the agent works in.
    """
    folders = [Path(sysconfig.get_path(kind)) / "claude_agent_sdk" / "_bundled" for kind in ("platlib", "purelib")]
    if named := environ.get(BUNDLED_VARIABLE):
        folders = [Path(named).absolute()]
    for bundled in dict.fromkeys(folders):
        try:
            version = (bundled / "claude.version").read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        if version_key(version) >= version_key(MINIMUM_CLI_VERSION):
            yield _look("the official SDK", bundled / PROGRAM)


def _on_path(environ: Mapping[str, str]) -> Iterator[Candidate]:
    """Yield programs on PATH, ignoring relative entries, which would run files of the current directory."""
    folders = [folder for folder in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    names = (PROGRAM, NPM_SCRIPT) if WINDOWS else (PROGRAM,)
    missing = Candidate("PATH", Path(PROGRAM), f"in none of its {len(folders)} directories")
    found = [
        candidate
        for candidate in (_look("PATH", Path(folder) / name) for folder in folders for name in names)
        if candidate.problem != MISSING
    ]
    yield from found or [missing]


MISSING: Final = "does not exist"


def _look(place: str, path: Path) -> Candidate:
    path = path.absolute()
    path = _find_behind_script(path) or path
    return Candidate(place, path, _problem(path))


def _find_behind_script(path: Path) -> Path | None:
    """Return the program that npm's script `claude.cmd` starts, or None if the path is not such a script."""
    if not (_is_shell_script(path) and path.is_file()):
        return None
    packages = path.parent.parent if path.parent.name == ".bin" else path.parent / "node_modules"
    package = packages / "@anthropic-ai" / "claude-code"
    inside = "@anthropic-ai/claude-code-win32-*/claude.exe"  # the one in `bin` is a text if npm ran no install scripts
    found = [
        *sorted((package / "node_modules").glob(inside)),
        *sorted(packages.glob(inside)),
        package / "bin/claude.exe",
    ]
    return next((program for program in found if program.is_file()), None)


def _problem(path: Path) -> str | None:
    """Return why a file cannot be the program, or None."""
    if _is_shell_script(path) and path.exists():
        return "a .cmd or .bat script cannot be started safely; name the claude.exe"
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return "is a broken link" if path.is_symlink() else MISSING
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if stat.S_ISDIR(mode):
        return "is a directory"
    return None if os.access(path, os.X_OK) else "is not executable"


def _is_shell_script(path: Path) -> bool:
    return WINDOWS and path.name.rstrip(". ").lower().endswith((".cmd", ".bat"))

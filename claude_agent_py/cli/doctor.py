"""The `doctor` command: check the installation and print a fix for each problem.

One check starts the CLI without sending it a prompt, so no request leaves this machine. The report names the source of
a key or login but never its value, so it is safe to paste into an issue.
"""

import argparse
import importlib.metadata
import json
import logging
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import anyio

from claude_agent_py._errors import ClaudeAgentError, CLIError, CLINotFoundError, CLIVersionError
from claude_agent_py._launch.install import install_cli, platform_name
from claude_agent_py._launch.locate import (
    PROGRAM,
    WINDOWS,
    cache_folder,
    find_cli,
    home,
    read_version,
    require_version,
    search,
)
from claude_agent_py._version import CLI_VERSION, MINIMUM_CLI_VERSION, __version__
from claude_agent_py.client import Client
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.values import Timeouts

if TYPE_CHECKING:
    from claude_agent_py.wire.control.initialize import InitializeReply

DEPENDENCIES: Final = ("anyio", "msgspec", "pydantic", "typing-extensions")
EXTRAS: Final = {
    "pyyaml": "agents, tools",
    "mcp": "mcp",
    "rich": "cli",
    "trio": "trio",
    "opentelemetry-api": "otel",
    "dbos": "fleet",
    "psycopg": "postgres",
    "redis": "redis",
    "boto3": "s3",
}
"""Optional distributions, and the extras that install each."""
START_TIMEOUT: Final = 20.0
"""Time limit of the trial start, in seconds."""
NOWHERE: Final = "http://127.0.0.1:9"
"""The base URL for the trial start, which sends no requests."""
PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
CERTIFICATES: Final = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
SHELLS: Final = ("bash", "zsh")
SHELL_FOLDERS: Final = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
"""Where the CLI looks for a shell besides PATH."""
INSTALL: Final = "claude-agent-py install-cli"
CHMOD: Final = "chmod 600 "
LOG_IN: Final = "set ANTHROPIC_API_KEY, or log in once with `{program} auth login`"


class Check(NamedTuple):
    """The result of one check."""

    name: str
    status: Literal["ok", "note", "problem"]
    found: str
    fix: str | None = None
    """What to do about it, or None."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `doctor`."""
    parser.add_argument("--json", action="store_true", help="print all checks and fixes as JSON")
    parser.add_argument("--fix", action="store_true", help="install the CLI and protect the credentials if needed")


def execute(arguments: argparse.Namespace) -> int:
    """Print the report and return the exit code: 1 if there is a problem, else 0. Takes a second or two.

    With `--fix`, do what can be done about the problems, say so on stderr, and check again.
    """
    checks = [*_packages(), *_program(), *_folders(), *_path(), *_network()]
    if arguments.fix and sum(_repair(check) for check in checks if check.status == "problem"):
        checks = [*_packages(), *_program(), *_folders(), *_path(), *_network()]
    problems = sum(check.status == "problem" for check in checks)
    if arguments.json:
        report = {"ok": not problems, "version": __version__, "checks": [check._asdict() for check in checks]}
        print(json.dumps(report, indent=2))
    else:
        for check in checks:
            _show(check)
        print(f"\nProblems to fix: {problems}" if problems else "\nNo problems found.")
    return 1 if problems else 0


def _repair(check: Check) -> bool:
    """Do what a check advises, if that is safe to do unasked, and return whether it was done."""
    advice = check.fix or ""
    if not advice.startswith(CHMOD) and INSTALL not in advice:
        return False
    print(f"claude-agent-py: {check.name}: {advice}", file=sys.stderr)
    try:
        if advice.startswith(CHMOD):
            os.chmod(advice.removeprefix(CHMOD), 0o600)
        else:
            install_cli(CLI_VERSION, force=True)
    except (ClaudeAgentError, OSError) as error:
        print(f"claude-agent-py: that failed: {error}", file=sys.stderr)
        return False
    return True


def _show(check: Check) -> None:
    first, *more = check.found.splitlines()
    print(f"{check.status:<8} {check.name:<12} {first}")
    for line in more:
        print(f"{'':<22}{line}")
    if check.fix:
        print(f"{'':<22}-> {check.fix}")


# Packages


def _packages() -> Iterator[Check]:
    yield Check("package", "ok", f"claude_agent_py {__version__}")
    yield Check("Python", "ok", f"{platform.python_version()} at {sys.executable} on {platform_name()}")
    versions = {name: _installed(name) for name in DEPENDENCIES}
    missing = [name for name, version in versions.items() if version is None]
    told = ", ".join(f"{name} {version or 'is missing'}" for name, version in versions.items())
    yield Check("needs", "problem" if missing else "ok", told, f"pip install {' '.join(missing)}" if missing else None)
    extras = ", ".join(f"{name} {_installed(name) or f'(extra {extra}) -'}" for name, extra in EXTRAS.items())
    yield Check("extras", "ok", extras)


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


# The CLI


def _program() -> Iterator[Check]:
    try:
        program = find_cli()
    except CLINotFoundError as error:
        told = "\n".join(["no usable `claude` program; tried", *error.tried])
        yield Check("CLI", "problem", told, f"run `{INSTALL}`, or set CLAUDE_AGENT_CLI to the program")
        yield _login_by_variables()
        return
    yield Check("CLI", "ok", str(program))
    others = [c.path for c in search() if c.place == "PATH" and c.problem is None and not _same(c.path, program)]
    if others:
        yield Check("CLI", "note", f"another `claude` is on PATH and is not used: {others[0]}")
    try:
        version = read_version(program, timeout=START_TIMEOUT)
        require_version(version, program)
    except CLIVersionError as error:
        yield Check("version", "problem", f"{error.version}; needs {MINIMUM_CLI_VERSION} or newer", INSTALL)
        return
    except CLIError as error:
        yield Check("version", "problem", str(error), f"{INSTALL} --force")
        return
    yield Check("version", "ok", f"{version} (tested with {CLI_VERSION})")
    yield from _start(program)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _start(program: Path) -> Iterator[Check]:
    """Start the CLI with the user's settings, but without their hooks and MCP servers."""
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="claude-agent-py-", ignore_cleanup_errors=True) as folder:
            info = anyio.run(_greeting, program, folder)
    except (ClaudeAgentError, OSError) as error:
        yield Check("start", "problem", f"the CLI does not start: {error}", f"{INSTALL} --force")
        yield _login_by_variables()
        return
    yield Check("start", "ok", f"it answers after {time.monotonic() - began:.1f} s")
    yield _login(info, program)


async def _greeting(program: Path, folder: str) -> "InitializeReply":
    options = ClientOptions(
        cli_path=program,
        cwd=folder,
        env={
            "ANTHROPIC_BASE_URL": NOWHERE,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        settings={"disableAllHooks": True},
        strict_mcp_config=True,
        persist_session=False,
        timeouts=Timeouts(connect=START_TIMEOUT, close=5.0),
    )
    logger = logging.getLogger("claude_agent_py")
    level = logger.level
    logger.setLevel(logging.ERROR)  # the checks report what it would warn about
    try:
        async with Client(options) as client:
            return client.info
    finally:
        logger.setLevel(level)


def _login(info: "InitializeReply", program: Path) -> Check:
    """Report what the CLI logs in with. Only a request would show whether that is accepted."""
    account = info.account
    said = account.raw if account else {}
    sources = [said.get(key) for key in ("apiKeySource", "tokenSource", "subscriptionType")]
    named = [source for source in sources if source and source != "none"]
    if (provider := said.get("apiProvider", "firstParty")) != "firstParty":
        named.append(provider)
    if not named:
        return Check("login", "problem", "no API key and no login", LOG_IN.format(program=program))
    return Check("login", "ok", f"by {named[0]} (not tried: that would send a request)")


def _login_by_variables() -> Check:
    """Report what the environment says about the login, when there is no CLI to ask."""
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    clouds = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
    if given := [name for name in (*names, *clouds) if os.environ.get(name)]:
        return Check("login", "ok", f"by {given[0]} (not tried)")
    return Check("login", "note", "no key in the environment; only the CLI can tell whether there is a login")


# The machine


def _folders() -> Iterator[Check]:
    config = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home(os.environ) / ".claude").expanduser()
    for name, folder in (("cache", cache_folder()), ("settings", config), ("temporary", Path(tempfile.gettempdir()))):
        exists = next(place for place in (folder, *folder.parents) if place.exists())
        if exists.is_dir() and os.access(exists, os.W_OK | os.X_OK):
            yield Check("folder", "ok", f"{folder} ({name})")
        else:
            yield Check("folder", "problem", f"{folder} ({name}) cannot be written to", f"check the owner of {exists}")
    if not WINDOWS and (secret := config / ".credentials.json").is_file() and secret.stat().st_mode & 0o077:
        yield Check("folder", "problem", f"other users can read {secret}", f"{CHMOD}{secret}")


def _path() -> Iterator[Check]:
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    if not folders:
        yield Check("PATH", "problem", "PATH is empty: tools find no programs", "set PATH")
        return
    yield Check(
        "PATH",
        "ok",
        f"{len(folders)} folders; npm: {shutil.which('npm') or '-'}; {PROGRAM}: {shutil.which(PROGRAM) or '-'}",
    )
    if relative := [folder for folder in folders if not os.path.isabs(folder)]:
        told = f"{relative[0]!r} is relative, so what runs depends on the working directory"
        yield Check("PATH", "note", told, "remove it from PATH")
    if not (shell := _shell()):
        told = "neither bash nor zsh found: the Bash tool does not work"
        fix = "install Git for Windows, or set CLAUDE_CODE_GIT_BASH_PATH" if WINDOWS else "install bash"
        yield Check("shell", "note" if WINDOWS else "problem", told, fix)
    else:
        yield Check("shell", "ok", shell)


def _shell() -> str | None:
    if WINDOWS and (named := os.environ.get("CLAUDE_CODE_GIT_BASH_PATH")):
        return named if Path(named).is_file() else None
    places = os.pathsep.join([os.environ.get("PATH", ""), *SHELL_FOLDERS])
    return next(filter(None, (shutil.which(shell, path=places) for shell in SHELLS)), None)


def _network() -> Iterator[Check]:
    given = {name: value for name in PROXIES if (value := os.environ.get(name) or os.environ.get(name.lower()))}
    for name, value in given.items():
        yield _proxy(name, value)
    if not given:
        yield Check("proxy", "ok", "not set")
    if base := os.environ.get("ANTHROPIC_BASE_URL"):
        yield Check("proxy", "note", f"requests go to {_host(base) or 'no host: ANTHROPIC_BASE_URL is not a URL'}")
    for name in CERTIFICATES:
        if (file := os.environ.get(name)) and not os.access(file, os.R_OK):
            yield Check("proxy", "problem", f"cannot read {file}, set by {name}", f"correct or unset {name}")


def _proxy(name: str, value: str) -> Check:
    if host := _host(value):
        return Check("proxy", "ok", f"{name} is {host}")
    return Check("proxy", "problem", f"{name} is not a URL with a host", f"set it as {name}=http://host:port")


def _host(url: str) -> str | None:
    """Return the scheme, host and port of a URL, without credentials, or None if it has no host."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.hostname}{port}" if parts.hostname else None

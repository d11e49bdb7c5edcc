"""The `doctor` command: check the installation and print a fix for each problem.

One check starts the CLI without sending it a prompt, so no request leaves this machine. The report names the source of
a key or login but never its value, so it is safe to paste into an issue.
"""

import argparse
import importlib.metadata
import logging
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

import anyio

from claude_agent_py._base.display import displayable, displayable_json
from claude_agent_py._base.errors import ClaudeAgentError, CLINotFoundError, CLIVersionError
from claude_agent_py._version import CLI_VERSION, MINIMUM_CLI_VERSION, __version__
from claude_agent_py.client import Client
from claude_agent_py.control import InitializeReply
from claude_agent_py.options import ClientOptions, Timeouts, cache_folder, find_cli, install_cli

WINDOWS: Final = sys.platform == "win32"
DEPENDENCIES: Final = ("anyio", "msgspec", "pydantic", "typing-extensions")
EXTRAS: Final = {
    "pyyaml": "agents, tools",
    "mcp": "mcp",
    "rich": "cli",
    "shtab": "cli",
    "trio": "trio",
    "opentelemetry-api": "otel",
    "croniter": "fleet",
    "temporalio": "temporal",
    "agent-client-protocol": "acp",
    "psycopg": "postgres",
    "redis": "redis",
    "boto3": "s3",
}
"""Optional distributions, and the extras that install each."""
START_TIMEOUT: Final = 20.0
"""Time limit of the trial start, in seconds."""
NOWHERE: Final = "http://127.0.0.1:9"
"""The base URL for the trial start: a closed port, in case the CLI sends a request."""
PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
CERTIFICATES: Final = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
SHELLS: Final = ("bash", "zsh")
SHELL_FOLDERS: Final = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
"""Folders in which the CLI looks for a shell, in addition to PATH."""
INSTALL: Final = "claude-agent-py install-cli"
CHMOD: Final = "chmod 600 "
LOG_IN: Final = "set ANTHROPIC_API_KEY, or log in once with `{program} auth login`"


class Check(NamedTuple):
    """The result of one check."""

    name: str
    status: Literal["ok", "note", "problem"]
    found: str
    fix: str | None = None
    """How to fix the problem, or None."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `doctor`."""
    parser.add_argument("--json", action="store_true", help="print all checks and fixes as JSON")
    parser.add_argument("--fix", action="store_true", help="if needed, install the CLI and protect the credentials")


def execute(arguments: argparse.Namespace) -> int:
    """Print the report and return the exit code: 1 if there is a problem, otherwise 0. Takes a second or two.

    With `--fix`, apply the safe fixes, report them on stderr, and check again.
    """
    checks = _run_checks()
    if arguments.fix and sum(_repair(check) for check in checks if check.status == "problem"):
        checks = _run_checks()
    problems = sum(check.status == "problem" for check in checks)
    if arguments.json:
        report = {"ok": not problems, "version": __version__, "checks": [check._asdict() for check in checks]}
        print(displayable_json(report, indent=2))
    else:
        for check in checks:
            _print_check(check)
        print(f"\nProblems to fix: {problems}" if problems else "\nNo problems found.")
    return 1 if problems else 0


def _run_checks() -> list[Check]:
    return [*_check_packages(), *_check_cli(), *_check_folders(), *_check_path(), *_check_network()]


def _repair(check: Check) -> bool:
    """Apply the fix of a check if it is safe to apply without asking. Return whether it was applied."""
    advice = check.fix or ""
    if not advice.startswith(CHMOD) and INSTALL not in advice:
        return False
    print(f"claude-agent-py: {check.name}: {displayable(advice)}", file=sys.stderr)
    try:
        if advice.startswith(CHMOD):
            os.chmod(advice.removeprefix(CHMOD), 0o600)
        else:
            install_cli(CLI_VERSION, force=True)
    except (ClaudeAgentError, OSError) as error:
        print(f"claude-agent-py: {check.name}: the fix failed: {displayable(str(error))}", file=sys.stderr)
        return False
    return True


def _print_check(check: Check) -> None:
    advice = [f"-> {check.fix}"] if check.fix else []
    first, *more = displayable("\n".join([check.found, *advice]), None).splitlines()
    print(f"{check.status:<8} {check.name:<12} {first}")
    for line in more:
        print(f"{'':<22}{line}")


# Packages


def _check_packages() -> Iterator[Check]:
    yield Check("package", "ok", f"claude_agent_py {__version__}")
    yield Check("Python", "ok", f"{platform.python_version()} at {sys.executable} on {platform.platform()}")
    versions = {name: _find_version(name) for name in DEPENDENCIES}
    missing = [name for name, version in versions.items() if version is None]
    found = ", ".join(f"{name} {version or 'is missing'}" for name, version in versions.items())
    if missing:
        yield Check("needs", "problem", found, f"pip install {' '.join(missing)}")
    else:
        yield Check("needs", "ok", found)
    extras = ", ".join(f"{name} {_find_version(name) or f'(extra {extra}) -'}" for name, extra in EXTRAS.items())
    yield Check("extras", "ok", extras)


def _find_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


# The CLI


def _check_cli() -> Iterator[Check]:
    try:
        program = find_cli()
    except CLINotFoundError as error:
        found = "\n".join(["no usable `claude` program; tried", *error.tried])
        yield Check("CLI", "problem", found, f"run `{INSTALL}`, or set CLAUDE_AGENT_CLI to the program")
        yield _check_login_variables()
        return
    yield Check("CLI", "ok", str(program))
    on_path = shutil.which("claude")
    if on_path and not _is_same_file(Path(on_path), program):
        yield Check("CLI", "note", f"not used: another `claude` on PATH, {on_path}")
    yield from _check_start(program)


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _check_start(program: Path) -> Iterator[Check]:
    """Start the CLI with the user's settings, but without their hooks and MCP servers."""
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="claude-agent-py-", ignore_cleanup_errors=True) as folder:
            info = anyio.run(_connect, program, folder)
    except CLIVersionError as error:
        yield Check("version", "problem", f"{error.version}; the library needs {MINIMUM_CLI_VERSION} or newer", INSTALL)
        return
    except (ClaudeAgentError, OSError) as error:
        yield Check("start", "problem", f"the CLI does not start: {error}", f"{INSTALL} --force")
        yield _check_login_variables()
        return
    yield Check("version", "ok", f"{info.claude_code_version or 'unknown'} (tested with {CLI_VERSION})")
    yield Check("start", "ok", f"the CLI responds after {time.monotonic() - began:.1f} s")
    yield _check_login(info, program)


async def _connect(program: Path, folder: str) -> "InitializeReply":
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
    # The checks report the same problems, so the client's warnings would repeat them.
    logger.setLevel(logging.ERROR)
    try:
        async with Client(options) as client:
            return client.info
    finally:
        logger.setLevel(level)


def _check_login(info: "InitializeReply", program: Path) -> Check:
    """Report the login that the CLI uses. Verifying it would take a request to the API."""
    account = info.account.raw if info.account else {}
    sources = [account.get(key) for key in ("apiKeySource", "tokenSource", "subscriptionType")]
    found = [source for source in sources if source and source != "none"]
    provider = account.get("apiProvider", "firstParty")
    if provider != "firstParty":
        found.append(provider)
    if not found:
        return Check("login", "problem", "no API key and no login", LOG_IN.format(program=program))
    return Check("login", "ok", f"by {found[0]} (not verified: that would send a request)")


def _check_login_variables() -> Check:
    """Report the login set by environment variables, for when no CLI can report it."""
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    clouds = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
    given = [name for name in (*names, *clouds) if os.environ.get(name)]
    if given:
        return Check("login", "ok", f"by {given[0]} (not verified)")
    return Check("login", "note", "no key in the environment; finding a stored login takes a working CLI")


# The machine


def _check_folders() -> Iterator[Check]:
    config = Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser()
    for name, folder in (("cache", cache_folder()), ("settings", config), ("temporary", Path(tempfile.gettempdir()))):
        exists = next(place for place in (folder, *folder.parents) if place.exists())
        if exists.is_dir() and os.access(exists, os.W_OK | os.X_OK):
            yield Check("folder", "ok", f"{folder} ({name})")
        else:
            yield Check("folder", "problem", f"{folder} ({name}) cannot be written to", f"check the owner of {exists}")
    secret = config / ".credentials.json"
    if not WINDOWS and secret.is_file() and secret.stat().st_mode & 0o077:
        yield Check("folder", "problem", f"other users can read {secret}", f"{CHMOD}{secret}")


def _check_path() -> Iterator[Check]:
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    if not folders:
        yield Check("PATH", "problem", "PATH is empty, so tools find no programs", "set PATH")
        return
    yield Check(
        "PATH",
        "ok",
        f"{len(folders)} folders; npm: {shutil.which('npm') or '-'}; claude: {shutil.which('claude') or '-'}",
    )
    relative = [folder for folder in folders if not os.path.isabs(folder)]
    if relative:
        found = f"{relative[0]!r} is relative, so the programs found depend on the working directory"
        yield Check("PATH", "note", found, "remove it from PATH")
    shell = _find_shell()
    missing = "neither bash nor zsh found, so the Bash tool does not work"
    if shell:
        yield Check("shell", "ok", shell)
    elif WINDOWS:
        yield Check("shell", "note", missing, "install Git for Windows, or set CLAUDE_CODE_GIT_BASH_PATH")
    else:
        yield Check("shell", "problem", missing, "install bash")


def _find_shell() -> str | None:
    bash = os.environ.get("CLAUDE_CODE_GIT_BASH_PATH")
    if WINDOWS and bash:
        return bash if Path(bash).is_file() else None
    places = os.pathsep.join([os.environ.get("PATH", ""), *SHELL_FOLDERS])
    return next(filter(None, (shutil.which(shell, path=places) for shell in SHELLS)), None)


def _check_network() -> Iterator[Check]:
    has_proxy = False
    for name in PROXIES:
        value = os.environ.get(name) or os.environ.get(name.lower())
        if value:
            has_proxy = True
            yield _check_proxy(name, value)
    if not has_proxy:
        yield Check("proxy", "ok", "not set")
    if base := os.environ.get("ANTHROPIC_BASE_URL"):
        host = _parse_host(base) or "no host: ANTHROPIC_BASE_URL is not a URL"
        yield Check("proxy", "note", f"requests go to {host}")
    for name in CERTIFICATES:
        file = os.environ.get(name)
        if file and not os.access(file, os.R_OK):
            yield Check("proxy", "problem", f"cannot read {file}, set by {name}", f"correct or unset {name}")


def _check_proxy(name: str, value: str) -> Check:
    if host := _parse_host(value):
        return Check("proxy", "ok", f"{name} is {host}")
    return Check("proxy", "problem", f"{name} is not a URL with a host", f"set it as {name}=http://host:port")


def _parse_host(url: str) -> str | None:
    """Return the scheme, host and port of a URL, without credentials; None if it has no host."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.hostname}{port}" if parts.hostname else None

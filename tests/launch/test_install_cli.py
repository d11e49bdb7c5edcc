"""Fetching the CLI, with an npm of our own on PATH and with the real pip on a folder of wheels: no network."""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from bounds import set_bound

from claude_agent_py.cli import main
from claude_agent_py.errors import CLIInstallError, OptionsError
from claude_agent_py.options import find_cli, install_cli
from claude_agent_py.transport import CLI_VERSION

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs here are shell scripts")

VERSION = "9.9.9"
Environ = dict[str, str]


def cached_cli(version: str, cache: Path) -> Path:
    return cache / "cli" / version / "claude"


def script(version: str) -> bytes:
    return f"#!/bin/sh\necho '{version} (Claude Code)'\n".encode()


@pytest.fixture
def environ(tmp_path: Path) -> Environ:
    """Neither npm nor a wheel anywhere."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "wheels").mkdir()
    return {
        "HOME": str(tmp_path),
        "PATH": str(tmp_path / "bin"),
        "CLAUDE_AGENT_CACHE_DIR": str(tmp_path / "cache"),
        "CLAUDE_AGENT_BUNDLED_DIR": str(tmp_path / "bundled"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
        "PIP_CONFIG_FILE": os.devnull,
    }


def npm(tmp_path: Path, archive: bytes = b"", *, code: int = 0, stderr: str = "") -> Path:
    """Put an npm on PATH that writes this archive and notes its arguments."""
    source = tmp_path / "archive.tgz"
    source.write_bytes(archive)
    program = tmp_path / "bin" / "npm"
    notes = tmp_path / "npm.json"
    program.write_text(
        f"#!{sys.executable} -IS\n"
        "import json, shutil, sys\n"
        f"open({str(notes)!r}, 'w').write(json.dumps(sys.argv[1:]))\n"
        f"sys.stderr.write({stderr!r})\n"
        f"{'' if archive else '# '}shutil.copy({str(source)!r}, 'package.tgz')\n"
        f"sys.exit({code})\n"
    )
    program.chmod(0o755)
    return notes


def tgz(*members: tuple[str, bytes | None]) -> bytes:
    """Make an archive; a member without content is a link to the password file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            member.size = len(content or b"")
            tar.addfile(member, io.BytesIO(content or b""))
    return buffer.getvalue()


LARGE = tgz(("package/claude", hashlib.shake_128(b"x").hexdigest(50_000).encode()))


def wheel(tmp_path: Path, version: str, member: str = "claude_agent_sdk/_bundled/claude") -> None:
    info = f"claude_agent_sdk-{version}.dist-info"
    with zipfile.ZipFile(tmp_path / "wheels" / f"claude_agent_sdk-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(member, script(f"8.8.{version[-1]}"))
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: claude-agent-sdk\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def test_npm_brings_exactly_the_version(tmp_path: Path, environ: Environ) -> None:
    notes = npm(tmp_path, tgz(("package/package.json", b"{}"), ("package/claude", script(VERSION))))
    reports: list[str] = []
    path = install_cli(VERSION, report=reports.append, environ=environ)
    assert path == cached_cli(VERSION, tmp_path / "cache")
    assert os.access(path, os.X_OK)
    command, package = json.loads(notes.read_text())[:2]
    assert command == "pack"
    assert re.fullmatch(rf"@anthropic-ai/claude-code-\w+-\w+(-musl)?@{VERSION}", package)
    assert "170 MB" in reports[0]  # what it costs is said before it begins
    assert str(path) in reports[0]
    assert "with npm" in reports[1]
    assert str(path) in reports[-1]
    assert list((tmp_path / "cache").iterdir()) == [tmp_path / "cache" / "cli"]  # nothing is left of the download
    assert find_cli(environ=environ) == path


PLATFORM = "linux-x64"


@pytest.fixture
def known_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform that has packages."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    set_bound(monkeypatch, "HAS_MUSL", lambda: False)


TRACE = "#!/bin/sh\necho ran >> {}\necho '{} (Claude Code)'\n"


def test_a_program_with_another_checksum_is_not_run(tmp_path: Path, environ: Environ) -> None:
    ran = tmp_path / "ran"
    npm(tmp_path, tgz(("package/claude", TRACE.format(ran, CLI_VERSION).encode())))
    reports: list[str] = []
    with pytest.raises(CLIInstallError) as caught:
        install_cli(report=reports.append, environ=environ)
    by_npm, by_pip = caught.value.tried
    assert re.match(
        r"npm: the program in package\.tgz has the SHA-256 \w{64} instead of \w{64}; it is not used", by_npm
    )
    assert "claude-agent-sdk==" in by_pip  # no other wheel bundles the program with the known checksum
    assert not ran.exists()
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.usefixtures("known_platform")
def test_an_installed_program_with_another_checksum_is_removed_and_fetched_again(
    tmp_path: Path, environ: Environ, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = script(VERSION)
    set_bound(monkeypatch, "CHECKSUMS", {VERSION: {PLATFORM: hashlib.sha256(good).hexdigest()}})
    npm(tmp_path, tgz(("package/claude", good)))
    ran, path = tmp_path / "ran", cached_cli(VERSION, tmp_path / "cache")
    path.parent.mkdir(parents=True)
    path.write_text(TRACE.format(ran, VERSION))
    path.chmod(0o755)
    reports: list[str] = []
    assert install_cli(VERSION, report=reports.append, environ=environ) == path
    assert reports[0].startswith(f"{path} has the SHA-256 ")
    assert path.read_bytes() == good
    assert not ran.exists()
    notes = tmp_path / "npm.json"
    notes.unlink()
    install_cli(VERSION, report=str, environ=environ)
    assert not notes.exists()


@pytest.mark.usefixtures("known_platform")
def test_a_wheel_cannot_pass_its_program_off_as_a_version_with_a_checksum(
    tmp_path: Path, environ: Environ, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "CHECKSUMS", {"8.8.1": {PLATFORM: "0" * 64}})
    wheel(tmp_path, "0.1.1")  # its program says that it is 8.8.1
    with pytest.raises(
        CLIInstallError, match=r"pip: the program in claude_agent_sdk\S+ has the SHA-256 \w{64} instead"
    ):
        install_cli(VERSION, report=str, environ=environ)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_platform_without_a_checksum_gets_no_unchecked_program(
    tmp_path: Path, environ: Environ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "beos")
    ran = tmp_path / "ran"
    npm(tmp_path, tgz(("package/claude", TRACE.format(ran, CLI_VERSION).encode())))
    with pytest.raises(CLIInstallError, match="there is none for beos-"):
        install_cli(report=str, environ=environ)
    assert not ran.exists()


def pip_that_fails(tmp_path: Path, environ: Environ) -> None:
    """Put a pip before the real one that fails at once: the real one takes half a second for it."""
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text("import sys; sys.exit(f'no {sys.argv[-1]}')")
    environ["PYTHONPATH"] = str(tmp_path)


@pytest.mark.parametrize(
    ("system", "machine", "musl", "name"),
    [
        ("linux", "x86_64", False, "linux-x64"),
        ("linux", "aarch64", False, "linux-arm64"),
        ("linux", "x86_64", True, "linux-x64-musl"),
        ("linux", "aarch64", True, "linux-arm64-musl"),
        ("darwin", "x86_64", False, "darwin-x64"),
        ("darwin", "arm64", True, "darwin-arm64"),
        ("win32", "AMD64", False, "win32-x64"),
        ("win32", "ARM64", False, "win32-arm64"),
    ],
)
def test_the_package_of_each_platform_is_fetched_and_has_a_checksum(
    tmp_path: Path,
    environ: Environ,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    machine: str,
    musl: bool,
    name: str,
) -> None:
    notes = npm(tmp_path, tgz(("package/claude", script(CLI_VERSION))))
    pip_that_fails(tmp_path, environ)
    monkeypatch.setattr(shutil, "which", lambda name, **where: str(tmp_path / "bin" / name))
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    set_bound(monkeypatch, "HAS_MUSL", lambda: musl)
    with pytest.raises(CLIInstallError, match=r"has the SHA-256 \w{64} instead of [0-9a-f]{64};"):
        install_cli(report=str, environ=environ)
    assert json.loads(notes.read_text())[1] == f"@anthropic-ai/claude-code-{name}@{CLI_VERSION}"


def test_progress_is_told_and_no_cache_of_the_client_is_filled(
    tmp_path: Path, environ: Environ, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "PROGRESS", 0.05)
    notes = npm(tmp_path, tgz(("package/claude", script(VERSION))))
    seen = tmp_path / "seen"
    program = tmp_path / "bin" / "npm"
    program.write_text(  # downloads 3 MB into its cache, and goes on when that was told
        program.read_text()
        .replace(
            "import json",
            "import os, time; cache = sys.argv[sys.argv.index('--cache') + 1]; os.makedirs(cache)\n"
            "open(cache + '/part', 'wb').write(bytes(3_000_000))\n"
            f"while not os.path.exists({str(seen)!r}): time.sleep(0.01)\n"
            "import json",
        )
        .replace("import os", "import sys, os", 1)
    )
    reports: list[str] = []

    def report(line: str) -> None:
        reports.append(line)
        if line == "3 of about 170 MB":
            seen.touch()

    install_cli(VERSION, report=report, environ=environ)
    assert "3 of about 170 MB" in reports
    arguments = json.loads(notes.read_text())
    cache = Path(arguments[arguments.index("--cache") + 1])
    assert cache.is_relative_to(tmp_path / "cache")
    assert not cache.exists()


def test_a_download_that_takes_too_long_is_ended(
    tmp_path: Path, environ: Environ, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "PROGRESS", 0.05)
    set_bound(monkeypatch, "FETCH_TIMEOUT", 0.2)
    program = tmp_path / "bin" / "npm"
    program.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(CLIInstallError, match=r"did not finish within 0\.2 s"):
        install_cli(VERSION, report=str, environ=environ)


def test_an_installed_program_is_kept_unless_forced(tmp_path: Path, environ: Environ) -> None:
    notes = npm(tmp_path, tgz(("package/claude", script(VERSION))))
    first = install_cli(VERSION, report=str, environ=environ)
    notes.unlink()
    assert install_cli(VERSION, report=str, environ=environ) == first
    assert not notes.exists()
    install_cli(VERSION, report=str, environ=environ, force=True)
    assert notes.exists()


def test_a_broken_program_is_replaced(tmp_path: Path, environ: Environ) -> None:
    npm(tmp_path, tgz(("package/claude", script(VERSION))))
    path = cached_cli(VERSION, tmp_path / "cache")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half a download")
    path.chmod(0o755)
    assert install_cli(VERSION, report=str, environ=environ) == path
    assert path.read_bytes() == script(VERSION)


def test_the_cache_can_be_named(tmp_path: Path, environ: Environ) -> None:
    npm(tmp_path, tgz(("package/claude", script(VERSION))))
    path = install_cli(VERSION, tmp_path / "mine", str, environ=environ)
    assert path == cached_cli(VERSION, tmp_path / "mine")


def test_without_npm_the_newest_wheel_is_taken_and_its_version_said(tmp_path: Path, environ: Environ) -> None:
    wheel(tmp_path, "0.1.1")
    wheel(tmp_path, "0.1.2")
    reports: list[str] = []
    path = install_cli(VERSION, report=reports.append, environ=environ)
    assert path == cached_cli("8.8.2", tmp_path / "cache")
    assert any("version 8.8.2, not 9.9.9" in report for report in reports)
    assert find_cli(environ=environ) == path


def test_when_npm_fails_the_wheel_is_tried(tmp_path: Path, environ: Environ) -> None:
    npm(tmp_path, code=1, stderr="npm error 404 Not Found - GET https://me:hunter2hunter2@registry.example/x")
    wheel(tmp_path, "0.1.1")
    reports: list[str] = []
    install_cli(VERSION, report=reports.append, environ=environ)
    assert any("404 Not Found - GET https://***@registry.example" in report for report in reports)


def test_a_wheel_with_another_version_is_refused_for_an_exact_one(tmp_path: Path, environ: Environ) -> None:
    wheel(tmp_path, "0.1.2")
    with pytest.raises(CLIInstallError, match=r"installed version 8\.8\.2 instead of 9\.9\.9") as caught:
        install_cli(VERSION, environ=environ, exact=True)
    assert [tried.partition(":")[0] for tried in caught.value.tried] == ["npm", "pip"]
    assert not cached_cli("8.8.2", tmp_path / "cache").exists()
    assert install_cli("8.8.2", environ=environ, exact=True) == cached_cli("8.8.2", tmp_path / "cache")


def test_the_command_installs_the_version_that_it_names_or_none(
    tmp_path: Path, environ: Environ, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(tmp_path, "0.1.2")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert main(["install-cli", "--force", "--version", VERSION]) == 1
    assert "installed version 8.8.2 instead of 9.9.9" in capsys.readouterr().err
    assert main(["install-cli", "--force", "--version", "8.8.2"]) == 0


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (b"", "left no archive"),
        (b"no archive at all", "not a gzip file"),
        (LARGE[:20_000], "ended before"),
        (LARGE[:20_000] + b"\xff" * 1000 + LARGE[21_000:], "invalid block type"),
        (tgz(("package/README.md", b"")), "holds no program"),
        (tgz(("package/claude", None)), "holds no program"),
        (tgz(("package/claude", script("1.1.1"))), "installed version 1.1.1 instead of 9.9.9"),
        (tgz(("package/claude", b"#!/bin/sh\nexit 4\n")), "exit code 4"),
        (tgz(("package/claude", b"#!/bin/sh\necho 'it broke' >&2; exit 3\n")), "it broke"),
        (tgz(("package/claude", b"#!/bin/sh\necho hello\n")), "printed no version"),
        (tgz(("package/claude", b"\x7fELF nonsense")), "cannot be started"),
    ],
)
def test_every_way_that_failed_is_named(tmp_path: Path, environ: Environ, archive: bytes, reason: str) -> None:
    npm(tmp_path, archive)
    if archive:  # without one, pip itself fails; the others have one that costs a tenth
        pip_that_fails(tmp_path, environ)
    with pytest.raises(CLIInstallError) as caught:
        install_cli(VERSION, report=str, environ=environ)
    by_npm, by_pip = caught.value.tried
    assert by_npm.startswith("npm: ")
    assert reason in by_npm
    assert by_pip.startswith("pip: ")
    assert "claude-agent-sdk" in by_pip
    assert not (tmp_path / "cache" / "cli").exists()


def test_a_version_before_a_release_is_installed(tmp_path: Path, environ: Environ) -> None:
    npm(tmp_path, tgz(("package/claude", b"#!/bin/sh\necho 3.0.0-beta.1\n")))
    path = install_cli("3.0.0-beta.1", report=str, environ=environ)
    assert path == cached_cli("3.0.0-beta.1", tmp_path / "cache")


def test_archives_write_nowhere_else(tmp_path: Path, environ: Environ) -> None:
    npm(tmp_path, tgz(("../../escaped", b"x"), ("/tmp/escaped-absolutely", b"x"), ("package/claude", script(VERSION))))
    install_cli(VERSION, report=str, environ=environ)
    assert not list(tmp_path.rglob("escaped*"))
    assert not Path("/tmp/escaped-absolutely").exists()


def test_a_wheel_without_the_program(tmp_path: Path, environ: Environ) -> None:
    wheel(tmp_path, "0.1.1", member="claude_agent_sdk/_bundled/../claude")
    with pytest.raises(CLIInstallError, match="bundles no program"):
        install_cli(VERSION, report=str, environ=environ)


@pytest.mark.parametrize("version", ["", "latest", "1.2", "1.2.3; rm -rf /", "--help", "../1.2.3", "1.2.3\n"])
def test_an_invalid_version_is_refused(version: str, environ: Environ) -> None:
    with pytest.raises(OptionsError, match="is not a version"):
        install_cli(version, report=str, environ=environ)

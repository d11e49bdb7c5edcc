"""Finding the CLI: the order of the places, and what an error says about each."""

import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from claude_agent_py.errors import CLINotFoundError, CLIStartError, CLIVersionError
from claude_agent_py.options import find_cli
from claude_agent_py.transport import CLI_VERSION, MINIMUM_CLI_VERSION, locate
from claude_agent_py.transport.locate import PROGRAM, cache_folder, cached_cli, read_version, require_version

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs here are shell scripts")

Environ = dict[str, str]
Place = Callable[[Path, Environ], Path]


def program(path: Path, script: str = "echo '2.1.328 (Claude Code)'") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def environ(tmp_path: Path) -> Environ:
    return {
        "HOME": str(tmp_path / "home"),
        "PATH": "",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "CLAUDE_AGENT_BUNDLED_DIR": str(tmp_path / "bundled"),
    }


def in_variable(tmp_path: Path, environ: Environ) -> Path:
    environ["CLAUDE_AGENT_CLI"] = str(tmp_path / "named")
    return tmp_path / "named"


def in_cache(tmp_path: Path, environ: Environ) -> Path:
    return cached_cli(CLI_VERSION, cache_folder(environ))


def in_cache_newer(tmp_path: Path, environ: Environ) -> Path:
    return cached_cli("99.0.0", cache_folder(environ))


def in_official_sdk(tmp_path: Path, environ: Environ) -> Path:
    folder = Path(environ["CLAUDE_AGENT_BUNDLED_DIR"])
    folder.mkdir()
    (folder / "claude.version").write_text("2.1.332 (Claude Code)")
    return folder / PROGRAM


def on_path(tmp_path: Path, environ: Environ) -> Path:
    environ["PATH"] = os.pathsep.join([str(tmp_path / "nothing"), str(tmp_path / "bin")])
    return tmp_path / "bin" / PROGRAM


def in_home(tmp_path: Path, environ: Environ) -> Path:
    return Path(environ["HOME"]) / ".local" / "bin" / PROGRAM


PLACES: list[Place] = [in_variable, in_cache, in_cache_newer, in_official_sdk, on_path, in_home]


@pytest.mark.parametrize("first", range(len(PLACES)))
def test_the_places_have_an_order(tmp_path: Path, environ: Environ, first: int) -> None:
    programs = [program(place(tmp_path, environ)) for place in PLACES[first:]]
    assert find_cli(environ=environ) == programs[0]


def test_the_option_wins_over_everything(tmp_path: Path, environ: Environ) -> None:
    for place in PLACES:
        program(place(tmp_path, environ))
    named = program(tmp_path / "mine")
    assert find_cli(named, environ) == named
    assert find_cli(str(named), environ) == named


def test_a_relative_path_and_a_tilde_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = program(tmp_path / "here" / "claude")
    monkeypatch.chdir(tmp_path)
    assert find_cli("here/claude", {}) == named
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_cli("~/here/claude", {}) == named


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_named_program_is_never_replaced(tmp_path: Path, environ: Environ, by_variable: bool) -> None:
    program(in_cache(tmp_path, environ))
    wrong = tmp_path / "wrong"
    if by_variable:
        environ["CLAUDE_AGENT_CLI"] = str(wrong)
    with pytest.raises(CLINotFoundError, match="does not exist") as caught:
        find_cli(None if by_variable else wrong, environ)
    assert len(caught.value.tried) == 1
    assert str(wrong) in caught.value.tried[0]
    assert ("CLAUDE_AGENT_CLI cannot be used" if by_variable else "cli_path cannot be used") in str(caught.value)


def not_executable(path: Path) -> None:
    program(path).chmod(stat.S_IRUSR)


def folder(path: Path) -> None:
    path.mkdir(parents=True)


def dangling(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("nowhere")


def test_a_program_whose_name_the_system_refuses_is_named_with_the_problem(environ: Environ) -> None:
    with pytest.raises(CLINotFoundError, match="cannot be read: File name too long"):
        find_cli("/" + "x" * 5000, environ)


@pytest.mark.parametrize(
    ("make", "problem"),
    [(not_executable, "is not executable"), (folder, "is a directory"), (dangling, "is a broken link")],
)
@pytest.mark.parametrize("place", [in_variable, in_cache, on_path, in_home])
def test_an_unusable_program_is_named_with_its_problem(
    tmp_path: Path, environ: Environ, place: Place, make: Callable[[Path], None], problem: str
) -> None:
    path = place(tmp_path, environ)
    make(path)
    with pytest.raises(CLINotFoundError) as caught:
        find_cli(environ=environ)
    assert any(str(path) in tried and problem in tried for tried in caught.value.tried)


def test_an_unusable_program_is_passed_over(tmp_path: Path, environ: Environ) -> None:
    not_executable(on_path(tmp_path, environ))
    usable = program(in_home(tmp_path, environ))
    assert find_cli(environ=environ) == usable


def test_the_error_names_every_place(environ: Environ) -> None:
    with pytest.raises(CLINotFoundError) as caught:
        find_cli(environ=environ)
    tried = "\n".join(caught.value.tried)
    for part in (str(in_cache(Path(), environ)), "PATH", "/usr/local/bin", ".npm-global", ".claude/local"):
        assert part in tried
    assert "install-cli" in str(caught.value)


def test_relative_entries_of_path_are_not_searched(
    tmp_path: Path, environ: Environ, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / PROGRAM)
    monkeypatch.chdir(tmp_path)
    environ["PATH"] = os.pathsep.join(["bin", "", "."])
    with pytest.raises(CLINotFoundError):
        find_cli(environ=environ)


def test_an_old_version_in_the_cache_is_not_used(tmp_path: Path, environ: Environ) -> None:
    program(cached_cli("2.0.0", cache_folder(environ)))
    program(cached_cli("no-version", cache_folder(environ)))
    with pytest.raises(CLINotFoundError):
        find_cli(environ=environ)
    others = [program(cached_cli(version, cache_folder(environ))) for version in ("2.1.999", "2.1.1000")]
    assert find_cli(environ=environ) == others[1]


def test_the_program_of_an_old_official_sdk_is_not_used(tmp_path: Path, environ: Environ) -> None:
    bundled = program(in_official_sdk(tmp_path, environ))
    assert find_cli(environ=environ) == bundled
    (bundled.parent / "claude.version").write_text("2.1.100 (Claude Code)")
    with pytest.raises(CLINotFoundError):
        find_cli(environ=environ)


def test_the_program_of_the_installed_official_sdk_is_found(environ: Environ) -> None:
    found = pytest.importorskip("claude_agent_sdk", reason="the official SDK is not installed").__file__
    del environ["CLAUDE_AGENT_BUNDLED_DIR"]
    assert find_cli(environ=environ) == Path(found).parent / "_bundled" / PROGRAM


def test_an_empty_variable_is_no_variable(tmp_path: Path, environ: Environ) -> None:
    environ |= {"CLAUDE_AGENT_CLI": "", "CLAUDE_AGENT_CACHE_DIR": ""}
    usable = program(in_cache(tmp_path, environ))
    assert find_cli(environ=environ) == usable


@pytest.mark.parametrize(
    ("platform", "windows", "environ", "expected"),
    [
        ("linux", False, {"HOME": "/h"}, "/h/.cache/claude-agent-py"),
        ("linux", False, {"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/x/claude-agent-py"),
        ("darwin", False, {"HOME": "/h"}, "/h/Library/Caches/claude-agent-py"),
        ("win32", True, {"USERPROFILE": "/u", "LOCALAPPDATA": "/l"}, "/l/claude-agent-py"),
        ("win32", True, {"USERPROFILE": "/u"}, "/u/AppData/Local/claude-agent-py"),
        ("linux", False, {"HOME": "/h", "CLAUDE_AGENT_CACHE_DIR": "/mine"}, "/mine"),
    ],
)
def test_the_cache_folder_of_each_platform(
    monkeypatch: pytest.MonkeyPatch, platform: str, windows: bool, environ: Environ, expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(locate, "WINDOWS", windows)
    assert cache_folder(environ) == Path(expected)


@pytest.mark.parametrize("name", ["claude.cmd", "claude.BAT", "claude.cmd. "])
def test_windows_scripts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(locate, "WINDOWS", True)
    with pytest.raises(CLINotFoundError, match="cannot be started safely"):
        find_cli(program(tmp_path / name), {})


PACKAGE = "node_modules/@anthropic-ai/claude-code"


@pytest.mark.parametrize(
    ("script", "inside"),
    [
        ("claude.cmd", f"{PACKAGE}/bin/claude.exe"),
        ("claude.cmd", f"{PACKAGE}/node_modules/@anthropic-ai/claude-code-win32-x64/claude.exe"),
        ("claude.cmd", f"{PACKAGE}-win32-arm64/claude.exe"),
        ("node_modules/.bin/claude.cmd", f"{PACKAGE}/bin/claude.exe"),
    ],
)
def test_the_program_behind_the_script_of_npm_is_found_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, inside: str
) -> None:
    monkeypatch.setattr(locate, "WINDOWS", True)
    monkeypatch.setattr(locate, "PROGRAM", "claude.exe")
    for path in (tmp_path / script, tmp_path / inside):
        path.parent.mkdir(parents=True, exist_ok=True)
        program(path)
    environ = {"PATH": str((tmp_path / script).parent), "USERPROFILE": str(tmp_path / "home"), "LOCALAPPDATA": "/none"}
    assert find_cli(environ=environ) == tmp_path / inside
    assert find_cli(tmp_path / script, {}) == tmp_path / inside


def test_reading_the_version(tmp_path: Path) -> None:
    assert read_version(program(tmp_path / "claude")) == "2.1.328"
    assert read_version(program(tmp_path / "beta", "echo 3.0.0-beta.1")) == "3.0.0-beta.1"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo hello", "printed no version"),
        ("echo 'it broke' >&2; exit 3", "exit code 3"),
        ("echo 'it broke' >&2; exit 3", "it broke"),
    ],
)
def test_a_program_without_a_version(tmp_path: Path, script: str, text: str) -> None:
    with pytest.raises(CLIStartError, match=text):
        read_version(program(tmp_path / "claude", script))


def test_a_program_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(CLIStartError, match=r"did not finish within 0\.2 s"):
        read_version(program(tmp_path / "claude", "exec sleep 60"), timeout=0.2)


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    broken = tmp_path / "claude"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    with pytest.raises(CLIStartError, match="cannot be started"):
        read_version(broken)


def test_a_program_that_is_too_old_is_refused() -> None:
    require_version(MINIMUM_CLI_VERSION, "claude")
    require_version("99.0.0-beta", "claude")
    require_version("who knows", "claude")
    with pytest.raises(CLIVersionError) as caught:
        require_version("2.0.9", "/x/claude")
    with pytest.raises(
        CLIVersionError, match=rf"is version 2\.1\.327; at least {re.escape(MINIMUM_CLI_VERSION)} is needed"
    ):
        require_version("2.1.327", "/x/claude")
    assert (caught.value.version, caught.value.cli_path) == ("2.0.9", "/x/claude")


@pytest.mark.real_cli
def test_the_real_cli_is_found_and_new_enough() -> None:
    found = find_cli()
    require_version(read_version(found), found)

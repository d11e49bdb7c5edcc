"""Finding the CLI: the order of the places, and what an error says about each."""

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bounds import set_bound

from claude_agent_py.errors import CLINotFoundError
from claude_agent_py.options import cache_folder, find_cli
from claude_agent_py.transport import CLI_VERSION

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs here are shell scripts")

PROGRAM = "claude"
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


def cached_cli(version: str, environ: Environ) -> Path:
    return cache_folder(environ) / "cli" / version / PROGRAM


def in_variable(tmp_path: Path, environ: Environ) -> Path:
    environ["CLAUDE_AGENT_CLI"] = str(tmp_path / "named")
    return tmp_path / "named"


def in_cache(tmp_path: Path, environ: Environ) -> Path:
    return cached_cli(CLI_VERSION, environ)


def in_cache_newer(tmp_path: Path, environ: Environ) -> Path:
    return cached_cli("99.0.0", environ)


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
    program(cached_cli("2.0.0", environ))
    program(cached_cli("no-version", environ))
    with pytest.raises(CLINotFoundError):
        find_cli(environ=environ)
    others = [program(cached_cli(version, environ)) for version in ("2.1.999", "2.1.1000")]
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
    set_bound(monkeypatch, "WINDOWS", windows)
    assert cache_folder(environ) == Path(expected)


@pytest.mark.parametrize("name", ["claude.cmd", "claude.BAT", "claude.cmd. "])
def test_windows_scripts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    set_bound(monkeypatch, "WINDOWS", True)
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
    set_bound(monkeypatch, "WINDOWS", True)
    set_bound(monkeypatch, "PROGRAM", "claude.exe")
    for path in (tmp_path / script, tmp_path / inside):
        path.parent.mkdir(parents=True, exist_ok=True)
        program(path)
    environ = {"PATH": str((tmp_path / script).parent), "USERPROFILE": str(tmp_path / "home"), "LOCALAPPDATA": "/none"}
    assert find_cli(environ=environ) == tmp_path / inside
    assert find_cli(tmp_path / script, {}) == tmp_path / inside


@pytest.mark.real_cli
def test_the_real_cli_is_found() -> None:
    assert find_cli().is_file()

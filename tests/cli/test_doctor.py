"""The command `doctor`, on machines with various problems."""

import importlib.metadata
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeAlias

import pytest
from commands import Command, command as command
from installed_cli import CLI_VARIABLE, find_cli

from claude_agent_py.testing import FakeCLI, ScriptedModel, frames, steps

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs here are shell scripts")

Environ = dict[str, str]
Doctor: TypeAlias = Callable[..., "CompletedProcess[str]"]
Problems: TypeAlias = Callable[[Environ], dict[str, dict[str, Any]]]
SECRET = "sk-very-secret"


@pytest.fixture
def environ(tmp_path: Path) -> Environ:
    """A machine with a CLI and a key, without problems."""
    program = FakeCLI(version="99.0.0").install(tmp_path / "bin")
    return {
        "HOME": str(tmp_path),
        "PATH": str(program.parent),
        "CLAUDE_AGENT_BUNDLED_DIR": str(tmp_path / "bundled"),
        "ANTHROPIC_API_KEY": SECRET,
        "TMPDIR": str(tmp_path),
    }


@pytest.fixture
def real(environ: Environ) -> Environ:
    return environ | {CLI_VARIABLE: str(find_cli()), "PATH": os.environ["PATH"]}


@pytest.fixture
def doctor(command: Command) -> Doctor:
    return lambda environ, *args: command("doctor", *args, env=environ)


@pytest.fixture
def problems(doctor: Doctor) -> Problems:
    """Return a function that returns the problems by name, and checks that each has a fix, and the exit code."""

    def look(environ: Environ) -> dict[str, dict[str, Any]]:
        done = doctor(environ, "--json")
        report = json.loads(done.stdout)
        found = {check["name"]: check for check in report["checks"] if check["status"] == "problem"}
        assert done.stderr == ""
        assert done.returncode == int(bool(found))
        assert report["ok"] is not bool(found)
        assert all(check["fix"] for check in found.values())
        assert SECRET not in done.stdout
        return found

    return look


def test_nothing_is_wrong(doctor: Doctor, problems: Problems, environ: Environ) -> None:
    assert problems(environ) == {}
    shown = doctor(environ)
    assert shown.returncode == 0
    assert "99.0.0" in shown.stdout
    assert shown.stdout.endswith("No problems found.\n")
    assert SECRET not in shown.stdout


def test_no_cli(doctor: Doctor, problems: Problems, environ: Environ, tmp_path: Path) -> None:
    environ["PATH"] = str(tmp_path)
    found = problems(environ)
    assert list(found) == ["CLI"]
    assert "install-cli" in found["CLI"]["fix"]
    assert doctor(environ).stdout.count(str(tmp_path / ".local/bin/claude")) == 1  # each place once


def test_an_old_cli(problems: Problems, environ: Environ, tmp_path: Path) -> None:
    FakeCLI(version="2.0.0").install(tmp_path / "old")
    found = problems(environ | {"PATH": str(tmp_path / "old")})
    assert list(found) == ["version"]
    assert "2.0.0" in found["version"]["found"]


def test_a_cli_that_does_not_start(problems: Problems, environ: Environ, tmp_path: Path) -> None:
    FakeCLI(steps.stderr("no such module\n"), steps.exit(3)).install(tmp_path / "broken")
    found = problems(environ | {"PATH": str(tmp_path / "broken")})
    assert list(found) == ["start"]
    assert "no such module" in found["start"]["found"]


@pytest.mark.long
@pytest.mark.real_cli
def test_neither_key_nor_login(problems: Problems, real: Environ) -> None:
    del real["ANTHROPIC_API_KEY"]
    found = problems(real)
    assert list(found) == ["login"]
    assert "ANTHROPIC_API_KEY" in found["login"]["fix"]
    assert "auth login" in found["login"]["fix"]


@pytest.mark.long
@pytest.mark.real_cli
def test_a_login_is_enough_and_is_not_shown(problems: Problems, real: Environ, tmp_path: Path) -> None:
    del real["ANTHROPIC_API_KEY"]
    login = tmp_path / ".claude" / ".credentials.json"
    login.parent.mkdir()
    oauth = {"accessToken": SECRET, "refreshToken": SECRET, "expiresAt": 9999999999999, "scopes": ["user:inference"]}
    login.write_text(json.dumps({"claudeAiOauth": oauth | {"subscriptionType": "max"}}))
    login.chmod(0o600)
    assert problems(real) == {}


@pytest.mark.real_cli
def test_the_trial_start_runs_no_hooks_and_asks_nobody(problems: Problems, real: Environ, tmp_path: Path) -> None:
    hook = {"hooks": [{"type": "command", "command": f"touch {tmp_path}/hooked"}]}
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text(json.dumps({"hooks": {"SessionStart": [hook]}}))
    with ScriptedModel() as model:
        assert problems(real | {"ANTHROPIC_BASE_URL": model.url}) == {}
        assert model.requests == []
    assert not (tmp_path / "hooked").exists()


@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may write everywhere")
def test_folders_that_cannot_be_written_to(problems: Problems, environ: Environ, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    found = problems(environ | {"CLAUDE_CONFIG_DIR": str(tmp_path / "shut" / "config")})
    assert "shut" in found["folder"]["found"]


def test_a_folder_that_is_none(problems: Problems, environ: Environ, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = problems(environ | {"CLAUDE_AGENT_CACHE_DIR": str(tmp_path / "file" / "cache")})
    assert "cannot be written to" in found["folder"]["found"]


def test_an_empty_path(problems: Problems, environ: Environ, tmp_path: Path) -> None:
    assert "PATH" in problems(environ | {"PATH": "", CLI_VARIABLE: str(tmp_path / "bin/claude")})


def test_proxies_and_certificates(doctor: Doctor, problems: Problems, environ: Environ) -> None:
    good = {"HTTPS_PROXY": f"http://me:{SECRET}@proxy:3128"}
    assert problems(environ | good) == {}
    assert "http://proxy:3128" in doctor(environ | good).stdout
    assert SECRET not in doctor(environ | good).stdout
    assert "not a URL" in problems(environ | {"HTTP_PROXY": f"proxy-{SECRET}"})["proxy"]["found"]
    assert "/none.pem" in problems(environ | {"NODE_EXTRA_CA_CERTS": "/none.pem"})["proxy"]["found"]


def test_the_report_has_no_escapes(doctor: Doctor, environ: Environ, tmp_path: Path) -> None:
    folder = tmp_path / "config\x1b[31m"
    folder.mkdir()
    (folder / ".credentials.json").write_text("{}")
    (folder / ".credentials.json").chmod(0o644)
    done = doctor(environ | {"CLAUDE_CONFIG_DIR": str(folder)}, "--fix")
    assert "[31m/.credentials.json" in done.stderr
    assert "config�[31m (settings)" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    (folder / ".credentials.json").chmod(0o644)
    shown = doctor(environ | {"CLAUDE_CONFIG_DIR": str(folder)}).stdout
    assert "-> chmod 600 " in shown
    assert "\x1b" not in shown


def test_fix_protects_the_credentials_and_says_so(
    doctor: Doctor, problems: Problems, environ: Environ, tmp_path: Path
) -> None:
    secret = tmp_path / ".claude" / ".credentials.json"
    secret.parent.mkdir()
    secret.write_text("{}")
    secret.chmod(0o644)
    assert "folder" in problems(environ)
    fixed = doctor(environ, "--fix")
    assert fixed.returncode == 0
    assert f"folder: chmod 600 {secret}" in fixed.stderr
    assert secret.stat().st_mode & 0o777 == 0o600
    assert doctor(environ, "--fix").stderr == ""


def test_fix_that_fails_leaves_the_problem(doctor: Doctor, environ: Environ, tmp_path: Path) -> None:
    offline = {"PATH": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}  # neither npm nor an index
    done = doctor(environ | offline, "--fix")
    assert done.returncode == 1
    assert "the fix failed: " in done.stderr


def test_fix_leaves_what_only_the_user_can_decide(doctor: Doctor, environ: Environ) -> None:
    done = doctor(environ | {"HTTPS_PROXY": "http://proxy:port"}, "--fix")
    assert done.returncode == 1
    assert "HTTPS_PROXY is not a URL with a host" in done.stdout
    assert done.stderr == ""


def test_a_package_that_is_missing_is_named(
    problems: Problems, environ: Environ, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> str:
        if name == "msgspec":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(importlib.metadata, "version", find)
    needs = problems(environ)["needs"]
    assert "msgspec is missing, pydantic 1.0" in needs["found"]
    assert needs["fix"] == "pip install msgspec"


def test_a_cli_that_is_not_used_is_a_note(doctor: Doctor, environ: Environ, tmp_path: Path) -> None:
    used = FakeCLI().install(tmp_path / "used")
    shown = doctor(environ | {CLI_VARIABLE: str(used)})
    assert (
        f"note     CLI          not used: another `claude` on PATH, {tmp_path}/bin/claude" in shown.stdout.splitlines()
    )
    assert shown.returncode == 0


@pytest.mark.parametrize(
    ("account", "login"),
    [
        ({"apiProvider": "bedrock", "tokenSource": "none"}, "by bedrock"),
        ({"apiProvider": "firstParty", "subscriptionType": "max"}, "by max"),
        ({"apiKeySource": "none"}, "no API key and no login"),
    ],
)
def test_the_login_is_the_one_that_the_cli_names(
    account: Any, login: str, doctor: Doctor, environ: Environ, tmp_path: Path
) -> None:
    program = FakeCLI(initialize=frames.initialize_response(account=account)).install(tmp_path / "other")
    shown = doctor(environ | {"PATH": str(program.parent)}).stdout
    assert [line.split(maxsplit=2)[2] for line in shown.splitlines() if " login " in line and "->" not in line] == [
        f"{login} (not verified: that would send a request)" if login.startswith("by") else login
    ]


def test_without_a_cli_the_variables_are_the_login(doctor: Doctor, environ: Environ, tmp_path: Path) -> None:
    environ["PATH"] = str(tmp_path)
    assert "by ANTHROPIC_API_KEY (not verified)" in doctor(environ).stdout
    del environ["ANTHROPIC_API_KEY"]
    assert "no key in the environment" in doctor(environ).stdout


def test_a_relative_folder_on_path_is_a_note(doctor: Doctor, environ: Environ) -> None:
    environ["PATH"] += f"{os.pathsep}tools"
    assert "'tools' is relative" in doctor(environ).stdout

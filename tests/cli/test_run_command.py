"""The commands `run` and `replay`, with the real CLI and a scripted model."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
import recordings_loader as recordings
from forks import Program, run_program
from installed_cli import CLI_VARIABLE, find_cli

import claude_agent_py
from claude_agent_py.cli import main
from claude_agent_py.testing import FakeCLI, Gate, Reply, ScriptedModel, frames, steps, tool_use

pytestmark = pytest.mark.real_cli

Start: TypeAlias = Callable[..., ScriptedModel]

PACKAGE = Path(claude_agent_py.__file__).parent.parent
LAUNCH = {"description": "auth", "prompt": "Review auth", "subagent_type": "general-purpose"}
SHELL = {"command": "echo ok", "description": "tests", "run_in_background": True}


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Return a function that starts a model which the commands of this process ask."""
    models: list[ScriptedModel] = []

    def begin(*script: Any, **more: Any) -> ScriptedModel:
        program = str(find_cli())
        model = ScriptedModel(*script, **more).start()
        models.append(model)
        for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE_"))]:
            monkeypatch.delenv(name)
        for name, value in model.environment(**{CLI_VARIABLE: program}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(model.sandbox.cwd)
        return model

    yield begin
    for model in models:
        model.close()


def test_results_as_json_and_as_a_python_type(
    start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = start([tool_use("StructuredOutput", {"city": "Paris", "people": 2}), "Paris."], on_exhausted="Paris.")
    (model.sandbox.cwd / "places_of_run.py").write_text(
        "import pydantic\nclass Place(pydantic.BaseModel):\n    city: str\n    people: int\n"
    )
    monkeypatch.setattr("sys.path", [*sys.path])
    assert main(["run", "Where?", "--quiet", "--output-type", "places_of_run:Place"]) == 0
    assert json.loads(capsys.readouterr().out) == {"city": "Paris", "people": 2}

    [transcript] = model.sandbox.config_dir.glob("projects/*/*.jsonl")
    assert main(["run", "Once more?", "--json", "--quiet", "--resume", transcript.stem[:8]]) == 0
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert shown.err == ""
    assert (told["text"], told["is_error"], told["error"], told["tasks"]) == ("Paris.", False, None, [])
    assert told["cost_usd"] > 0
    assert told["session_id"] == transcript.stem


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeCLI]:
    """Return a function that makes the fake which the commands of this process start."""

    def install(*scenario: Any) -> FakeCLI:
        made = FakeCLI(*scenario)
        monkeypatch.setenv(CLI_VARIABLE, str(made.install(tmp_path / f"bin-{len(list(tmp_path.iterdir()))}")))
        return made

    monkeypatch.chdir(tmp_path)
    return install


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
def test_exit_codes_and_stdin(
    fake: Callable[..., FakeCLI], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [spoken, _] = frames.api_error("refused", "invalid_request", 400)
    refused = fake(steps.turn([spoken], text="refused", is_error=True, api_error_status=400))
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
    assert main(["run", "--json", "--quiet"]) == 1
    assert refused.received_like({"type": "user", "message": {"content": "from a pipe"}})
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["type"] == "InvalidRequestError"
    assert "InvalidRequestError" in shown.err

    limited = fake(steps.turn([], subtype="error_max_turns", text="Reached 1"))
    assert main(["run", "go", "--quiet", "--max-turns", "1", "--permission-mode", "bypassPermissions"]) == 5
    assert {"--max-turns=1", "--permission-mode=bypassPermissions"} <= set(limited.starts[0].argv)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["run"]) == 2
    assert main(["run", "x", "--max-turns", "0"]) == 2
    assert main(["run", "x", "--output-type", "nothing"]) == 2
    assert main(["run", "x", "--output-type", "json:Nothing"]) == 2
    Path("broken_for_run.py").write_text("1 / 0")
    capsys.readouterr()
    assert main(["run", "x", "--output-type", "broken_for_run:Place"]) == 2
    assert capsys.readouterr().err.endswith(
        "broken_for_run:Place cannot be loaded: ZeroDivisionError: division by zero\n"
    )
    monkeypatch.setenv(CLI_VARIABLE, "/nowhere/claude")
    assert main(["run", "x"]) == 3
    capsys.readouterr()
    assert main(["run", "x", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "CLINotFoundError"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert main(["run"]) == 2
    assert "pass a prompt, or pipe one" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
def test_texts_that_the_encoding_of_a_pipe_lacks_are_no_failure(
    fake: Callable[..., FakeCLI], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = fake(steps.turn("Fünf → 5\ud83d."))
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="utf-8"))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, encoding="latin-1"))
    assert main(["run", "--quiet"]) == 0
    assert printed.getvalue().splitlines() == ["Fünf ? 5?.".encode("latin-1")]
    assert asked.received_like({"type": "user", "message": {"content": "caf\ufffd"}})


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
def test_each_message_is_a_line_of_stdout(fake: Callable[..., FakeCLI], capsys: pytest.CaptureFixture[str]) -> None:
    fake(steps.turn("Hello."))
    assert main(["run", "go", "--jsonl"]) == 0
    messages = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {message["type"] for message in messages} >= {"system", "assistant", "result"}


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
@pytest.mark.parametrize(
    ("is_terminal", "shown"), [(False, "A \x1b[31mred\nanswer."), (True, "A \ufffd[31mred\nanswer.")]
)
def test_a_terminal_gets_no_control_characters_and_a_pipe_what_was_said(
    is_terminal: bool,
    shown: str,
    fake: Callable[..., FakeCLI],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake(steps.turn("A \x1b[31mred\nanswer."))
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    assert main(["run", "go", "--quiet"]) == 0
    assert capsys.readouterr().out == f"{shown}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
def test_the_answer_is_printed_once_if_both_streams_are_one(fake: Callable[..., FakeCLI], tmp_path: Path) -> None:
    fake(steps.turn("The answer."))
    command = [sys.executable, "-m", "claude_agent_py", "run", "go"]
    shown = run_program(command, stderr=subprocess.STDOUT)
    assert shown.returncode == 0
    assert shown.stdout.count("The answer.") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
def test_an_error_of_the_api_is_reported_once(fake: Callable[..., FakeCLI], capsys: pytest.CaptureFixture[str]) -> None:
    [spoken, _] = frames.api_error("Not logged in", "authentication_failed", 401)
    fake(steps.turn([spoken], text="Not logged in", is_error=True, api_error_status=401))
    assert main(["run", "go"]) == 4
    assert capsys.readouterr().err.count("Not logged in") == 1


@pytest.mark.long
def test_a_missing_login_is_reported_once(tmp_path: Path) -> None:
    with ScriptedModel(["never asked"]) as model:
        known = {CLI_VARIABLE: str(find_cli()), "ANTHROPIC_API_KEY": ""}
        command = [sys.executable, "-m", "claude_agent_py", "run", "go"]
        shown = run_program(command, env=model.environment(**known), cwd=tmp_path)
    assert shown.returncode == 4
    [line] = shown.stderr.splitlines()
    assert line.count("ANTHROPIC_API_KEY") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
def test_a_timeout_ends_the_run_with_5(fake: Callable[..., FakeCLI], capsys: pytest.CaptureFixture[str]) -> None:
    fake(steps.wait_for_prompt(), frames.init(), steps.wait_for_prompt())
    assert main(["run", "go", "--timeout", "0.5", "--json"]) == 5
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["type"] == "RunTimeoutError"
    assert "Traceback" not in shown.err


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_ctrl_c_ends_the_run_with_130(tmp_path: Path) -> None:
    gate = Gate()
    with ScriptedModel([Reply("late", after=gate)]) as model:
        environment = {**model.environment(**{CLI_VARIABLE: str(find_cli())}), "PYTHONPATH": str(PACKAGE)}
        command = [sys.executable, "-m", "claude_agent_py", "run", "go"]
        with Program(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            try:
                anyio.run(partial(gate.wait_reached, timeout=60))
                process.send_signal(signal.SIGINT)
                assert process.communicate(timeout=60)[0] == ""
            finally:
                process.kill()
    assert process.returncode == 130


def test_tasks_that_still_run_after_the_answer_are_stopped_and_a_denied_tool_is_reported(
    start: Start, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    shell = {"command": "sleep 600", "description": "a long wait", "run_in_background": True}
    start([tool_use("Bash", shell), tool_use("Bash", {"command": "touch x"}), "Started."])
    assert main(["run", "go", "--until", "result", "--allowed-tools", "Bash(sleep *)"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "Started.\n"
    assert "stopped: a long wait" in shown.err.splitlines()
    assert "denied: Bash; allow with --allowed-tools or --permission-mode" in shown.err
    assert "close(" not in caplog.text


def test_the_answer_is_on_stdout_what_happens_on_stderr_and_both_are_recorded_without_secrets(
    start: Start, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = Reply([tool_use("Agent", LAUNCH), tool_use("Bash", SHELL)])
    start([first, "Started."], agents={"Review auth": "auth is \x1b[31msound"}, on_exhausted="All is well.")
    file = tmp_path / "run.jsonl"
    more = ["--allowed-tools", "Bash", "--max-turns", "9", "--timeout", "120"]
    assert main(["run", "--record", str(file), "Review sk-ant-abcdefghijklmnop", *more]) == 0
    shown = capsys.readouterr()
    assert shown.out == "All is well.\n"
    told = shown.err.splitlines()
    assert "→ Agent auth" in told
    assert any(line.startswith("✓ auth [general-purpose] completed") for line in told)
    assert any(line.startswith("✓ tests [local_bash] completed") for line in told)
    assert any(line.endswith(" USD") and " turns, " in line for line in told[-2:])
    assert "\x1b" not in shown.err
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line["dir"] for line in lines} == {"in", "out"}
    assert "sk-ant-abc" not in file.read_text()
    assert [line["t"] for line in lines] == sorted(line["t"] for line in lines)

    assert main(["replay", str(file)]) == 0
    replayed = capsys.readouterr().out
    assert "All is well.\n" in replayed
    assert re.search(r"✓ auth \[general-purpose\] completed \d+\.\ds", replayed)
    assert "→ Agent auth\n" in replayed
    assert main(["replay", str(file), "--speed", "1000"]) == 0
    assert main(["run", "--record", str(file), "again"]) == 2  # nothing is overwritten
    file.write_text("nothing\n")
    assert main(["replay", str(file)]) == 1
    assert f"{file} is not a recording" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
def test_a_frame_that_is_too_large_or_deep_to_be_recorded_is_noted(
    fake: Callable[..., FakeCLI], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # How deep a frame may be depends on the version of Python.
    deep = [b'{"type": "x", "value": ' + b"[" * levels + b"]" * levels + b"}\n" for levels in (900, 5000)]
    fake(steps.wait_for_prompt(), frames.assistant("x" * 300_000), b"".join(deep), frames.result("Hello."))
    file = tmp_path / "run.jsonl"
    assert main(["run", "--record", str(file), "go", "--quiet"]) == 0
    notes = [line["m"] for line in map(json.loads, file.read_text().splitlines()) if line["dir"] == "note"]
    assert {f"<- x {len(frame) - 1} bytes were not recorded" for frame in deep} & set(notes)
    told = [record.getMessage() for record in caplog.records]
    assert any(re.fullmatch(r"the recording .*run\.jsonl lacks a frame, .*: 300\d\d\d bytes", text) for text in told)


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
def test_half_a_character_is_recorded(fake: Callable[..., FakeCLI], tmp_path: Path) -> None:
    """JavaScript writes a lone surrogate where it cut a text in the middle of a character."""
    fake(steps.turn("A cut \ud83d."))
    file = tmp_path / "run.jsonl"
    assert main(["run", "--record", str(file), "go", "--quiet"]) == 0
    answers = [line["m"] for line in map(json.loads, file.read_text(encoding="utf-8").splitlines())]
    assert "A cut \ud83d." in [frame["result"] for frame in answers if frame["type"] == "result"]
    assert main(["replay", str(file)]) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_recording_that_a_full_disk_ends_costs_no_answer(
    fake: Callable[..., FakeCLI], tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    import resource

    fake(steps.turn([*map(frames.assistant, ["a" * 9000, "b" * 90_000, "c"]), frames.result("Hello.")]))
    file, (soft, hard) = tmp_path / "run.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, hard))
    try:
        assert main(["run", "--record", str(file), "go", "--quiet"]) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert capsys.readouterr().out == "Hello.\n"
    assert caplog.messages == [f"the recording {file} is incomplete: File too large"]
    assert main(["replay", str(file)]) == 0
    shown = capsys.readouterr().out
    assert [letter * 99 in shown for letter in "ab"] == [True, False]
    assert "Hello." not in shown


@pytest.mark.long
def test_a_recording_is_private_and_lacks_the_secrets_that_tools_print(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "echo $SIGNING_PASSPHRASE; printf 'ghp_%s' aB3daB3daB3daB3daB3d; printf 'GH_PAT%s' =of-a-person"
    start([tool_use("Bash", {"command": command, "description": "d"}), "Done."])
    monkeypatch.setenv("SIGNING_PASSPHRASE", "hidden by name")
    file = tmp_path / "run.jsonl"
    assert main(["run", "--record", str(file), "go", "--allowed-tools", "Bash"]) == 0
    recorded = file.read_text()
    assert "<SIGNING_PASSPHRASE>" in recorded
    assert [secret for secret in ("hidden by name", "ghp_aB3d", "GH_PAT=of-a") if secret in recorded] == []
    if os.name == "posix":
        assert file.stat().st_mode & 0o777 == 0o600


def test_plain_frames_of_the_cli_are_replayed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, printed = tmp_path / "session.jsonl", tmp_path / "printed.jsonl"
    frames = recordings.frames("turns/three_agents", "out")
    late = {"t": 0.0, "dir": "out", "m": frames[0]}  # clocks that go back
    lines = [{"t": 1000.0 - number, "dir": "out", "m": frame} for number, frame in enumerate(frames)]
    file.write_text("".join(json.dumps(line) + "\n" for line in [*lines, late]))
    printed.write_text("".join(json.dumps(frame) + "\n" for frame in frames))
    shown = {}
    for path in (file, printed):
        assert main(["replay", str(path)]) == 0
        shown[path] = capsys.readouterr().out
        assert len(re.findall(r"✓ .* completed \d+\.\ds", shown[path])) == 3
        assert not re.search(r"-\d+\.\ds", shown[path])
    untimed = [{key: value for key, value in frame.items() if key != "timestamp"} for frame in frames]
    printed.write_text("".join(json.dumps(frame) + "\n" for frame in untimed[: len(untimed) // 2]))
    assert main(["replay", str(printed), "--speed", "1"]) == 0
    assert not re.search(r"\d\.\ds", capsys.readouterr().out)  # nothing tells the times

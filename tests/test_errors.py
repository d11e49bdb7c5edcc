"""The error hierarchy: one base class, attributes survive pickling, messages are helpful."""

import pickle
from collections.abc import Iterator

import pytest

from claude_agent_py import errors
from claude_agent_py.formatting import Place, Problem, ProblemKind

SAMPLES: list[errors.ClaudeAgentError] = [
    errors.OptionsError("must be positive", option="max_turns"),
    errors.CLINotFoundError(["/usr/bin/claude: missing"]),
    errors.CLIInstallError("2.1.328", ["npm: no network"]),
    errors.CLIVersionError("1.0.0", "2.0.0", "/bin/claude"),
    errors.CLIStartError("the CLI ended", exit_code=3, stderr_tail="boom", cli_path="/bin/claude"),
    errors.CLIExitError("the CLI ended", exit_code=-9),
    errors.LocalProtocolError("closed twice"),
    errors.RemoteProtocolError("no id", raw={"type": "x"}),
    errors.ControlTimeoutError("interrupt", 2.5, "req_1"),
    errors.ControlRejectedError("set_model", "bad model", "invalid", "req_2"),
    errors.MCPNotReadyError(["github", "files"], 2.5),
    errors.ConnectionClosedError("closed", subtype="interrupt"),
    errors.RateLimitedError("limit", resets_at=12.0),
    errors.RunTimeoutError("silence", 3.0, result=None),
    errors.MaxTurnsError("too many turns"),
    errors.TaskNotFoundError("a1"),
    errors.TaskTimeoutError("a1", 0.5),
    errors.StoreError("cannot append", key={"project_key": "p", "session_id": "s"}, session_id="s", kept_in="/tmp/x"),
    errors.SessionLeasedError("written by host-1", session_id="s", holder="host-1", expires_at=12.5),
    errors.StaleLeaseError("taken over by host-2", session_id="s", holder="host-2"),
    errors.BacklogError("No space left on device", 1024),
    errors.TaskOutputError("a1", "/tmp/x", "is a directory"),
    errors.ToolError("no such city"),
    errors.ToolInputError("search", [("limit", "is required")]),
    errors.UnknownToolError("serach", ["search"], ["search"]),
    errors.ToolTimeoutError("search", 2.0),
    errors.TextFormatError([Problem(kind=ProblemKind.MISSING, name="a", place=Place(3, 1, 4), detail="is missing")]),
    errors.HandlerError("on_stop", "ValueError: x"),
    errors.SessionError("missing", session_id="s"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda e: type(e).__name__)
def test_a_pickle_keeps_type_text_and_attributes(error: errors.ClaudeAgentError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def subclasses(cls: type[Exception]) -> Iterator[type[Exception]]:
    """Yield the classes below a class."""
    for below in cls.__subclasses__():
        yield below
        yield from subclasses(below)


def test_every_class_is_in_the_tree_and_drawn_in_the_docstring() -> None:
    classes = [getattr(errors, name) for name in getattr(errors, "__all__")]  # noqa: B009 - type checkers do not see it
    ours = [c for c in subclasses(errors.ClaudeAgentError) if c.__module__.startswith("claude_agent_py.")]
    assert {c for c in ours if not c.__name__.startswith("_")} <= set(classes)
    for cls in classes:
        assert issubclass(cls, errors.ClaudeAgentError) or cls in (errors.EncodingError, errors.FormError)
        if not cls.__name__.startswith("_"):
            assert cls.__name__ in (errors.__doc__ or "")


def test_timeouts_are_builtin_timeouts_too() -> None:
    for cls in (errors.ControlTimeoutError, errors.TaskTimeoutError, errors.RunTimeoutError, errors.ToolTimeoutError):
        assert issubclass(cls, TimeoutError)


def test_a_missing_program_names_every_place_and_the_way_out() -> None:
    text = str(errors.CLINotFoundError(["PATH: no claude", "/opt/claude: not executable"]))
    assert "PATH: no claude" in text
    assert "/opt/claude: not executable" in text
    assert "install-cli" in text


def test_an_ended_process_shows_its_stderr() -> None:
    text = str(errors.CLIStartError("the CLI ended", exit_code=1, stderr_tail="Error: bad flag\n"))
    assert text == "the CLI ended (exit code 1); its stderr ends with:\nError: bad flag"


@pytest.mark.parametrize("exit_code", [-9, 137])
def test_the_error_of_a_killed_process_says_that_memory_may_have_run_out(exit_code: int) -> None:
    text = str(errors.CLIExitError("the CLI ended", exit_code=exit_code))
    assert text == f"the CLI ended (exit code {exit_code}, killed, perhaps because memory ran out)"


def test_the_text_of_an_error_has_stderr_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "q7zRk2Lw93Tn4")
    stderr = "401 for q7zRk2Lw93Tn4\nMY_API_KEY=Kp2Lw93Tn4q7 is wrong"
    for cls in (errors.CLIStartError, errors.CLIExitError):
        error = cls("the CLI ended", stderr_tail=stderr)
        assert str(error).endswith("401 for <MY_SERVICE_TOKEN>\nMY_API_KEY=*** is wrong")
        assert error.stderr_tail == stderr


def test_a_missing_task_is_a_key_error_with_readable_text() -> None:
    error = errors.TaskNotFoundError("a1")
    assert isinstance(error, KeyError)
    assert str(error) == "no task 'a1' is known"

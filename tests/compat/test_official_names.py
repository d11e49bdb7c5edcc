"""The names, shapes and errors of the official SDK, compared with the installed one."""

import dataclasses
import importlib
import inspect
import pickle
import subprocess
import sys
import typing
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from later import Later

import claude_agent_py.compat as compat
from claude_agent_py import errors
from claude_agent_py.compat import (
    ClaudeSDKClient,
    ClaudeSDKError,
    CLIConnectionError,
    CLIJSONDecodeError,
    ProcessError,
    ResultError,
    types,
)
from claude_agent_py.compat.errors import official_errors

if TYPE_CHECKING:
    import claude_agent_sdk as official
else:
    official = Later("claude_agent_sdk")

pytestmark = [pytest.mark.anyio, pytest.mark.each_backend]


def shape(kind: Any) -> Any:
    """Return what programs see of a class or a function."""
    if dataclasses.is_dataclass(kind):
        defaults = [
            f.default if f.default_factory is dataclasses.MISSING else f.default_factory() for f in fields(kind)
        ]
        return [field.name for field in fields(kind)], defaults
    if typing.is_typeddict(kind):
        return kind.__required_keys__, kind.__optional_keys__
    if inspect.isfunction(kind):
        return [(each.name, each.kind, each.default) for each in inspect.signature(kind).parameters.values()]
    if typing.get_origin(kind) is typing.Literal:
        return set(typing.get_args(kind))
    return None


def fields(kind: Any) -> Any:
    return dataclasses.fields(kind)


@pytest.mark.skipif(version("claude-agent-sdk") != compat.__version__, reason="another version of the official SDK")
def test_every_name_of_the_official_sdk_is_here_with_its_shape() -> None:
    assert len(official.__all__) == 159
    assert [name for name in official.__all__ if not hasattr(compat, name)] == []
    assert [name for name in official.__all__ if shape(getattr(compat, name)) != shape(getattr(official, name))] == []
    named = [
        name
        for name, value in vars(official.types).items()
        if getattr(value, "__module__", "") == official.types.__name__
    ]
    left_out = ("_", "SDKControl", "SDKHook", "Control")
    public = [name for name in named if not name.startswith(left_out)]
    assert [name for name in public if shape(getattr(types, name)) != shape(getattr(official.types, name))] == []


def test_methods_of_the_client_have_the_official_arguments() -> None:
    methods = {name: value for name, value in vars(official.ClaudeSDKClient).items() if inspect.isfunction(value)}
    public = [name for name in methods if not name.startswith("_")]
    assert {name: shape(getattr(ClaudeSDKClient, name)) for name in public} == {
        name: shape(methods[name]) for name in public
    }


def test_an_installed_compat_is_what_unchanged_programs_import() -> None:
    program = """
        import claude_agent_py.compat as compat
        compat.install()
        compat.install()
        import claude_agent_sdk
        import claude_agent_sdk._internal.transport
        from claude_agent_sdk import ClaudeAgentOptions, query, types
        from claude_agent_sdk._errors import MessageParseError
        from claude_agent_sdk._internal.message_parser import parse_message
        from claude_agent_sdk._internal.transport import Transport
        from claude_agent_sdk.testing import run_session_store_conformance
        from claude_agent_sdk.types import ClaudeAgentOptions as Options, HookMatcher
        assert claude_agent_sdk is compat
        assert Options is ClaudeAgentOptions is types.ClaudeAgentOptions
        assert Transport is claude_agent_sdk.Transport
        assert "mcp" not in __import__("sys").modules
    """
    subprocess.run([sys.executable, "-W", "error", "-c", inspect.cleandoc(program)], check=True, timeout=240)


def test_compat_is_not_installed_over_an_imported_official_sdk() -> None:
    importlib.import_module("claude_agent_sdk")
    with pytest.raises(RuntimeError, match=r"claude_agent_sdk is already imported, from .*__init__\.py"):
        compat.install()


def test_a_result_error_names_the_reason_and_survives_pickling() -> None:
    result = {"subtype": "success", "errors": ["", "  one "], "api_error_status": 529, "session_id": "s"}
    error: ResultError = pickle.loads(pickle.dumps(ResultError.after(result, 1)))
    assert issubclass(ResultError, ProcessError)
    assert str(error) == "Claude Code returned an error result: one (exit code: 1)"
    assert (error.exit_code, error.errors, error.api_error_status, error.data) == (1, ["one"], 529, result)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (errors.CLIExitError("it ended", exit_code=3, stderr_tail="no room"), ProcessError, "exit code 3.*no room"),
        (errors.ControlTimeoutError("interrupt", 5.0), Exception, "^Control request timeout: interrupt$"),
        (errors.ControlRejectedError("interrupt", "not now"), Exception, "^not now$"),
        (errors.ConnectionClosedError("it is closed"), CLIConnectionError, "it is closed"),
        (errors.OptionsError("is missing", option="cwd"), CLIConnectionError, "cwd"),
        (errors.OptionsError("is wrong", option="model"), ValueError, "model"),
        (errors.TaskError("no task", task_id="a1"), ClaudeSDKError, "no task"),
    ],
)
def test_an_error_of_this_package_is_one_of_the_official_sdk(error: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=f"(?s){says}") as caught, official_errors():
        raise error
    assert type(caught.value) is kind
    assert caught.value.__cause__ is error


def test_the_error_of_a_line_that_is_no_json_has_its_beginning() -> None:
    cause = ValueError("no JSON")
    error = CLIJSONDecodeError("x" * 200, cause)
    assert str(error) == f"Failed to decode JSON: {'x' * 100}..."
    assert (error.line, error.original_error) == ("x" * 200, cause)

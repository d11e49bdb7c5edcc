"""The errors of the official SDK (`claude_agent_sdk._errors`), and which of them an error of this package becomes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from claude_agent_py import errors
from claude_agent_py.wire import JSONObject


class ClaudeSDKError(Exception):
    """The base of the official SDK's errors."""


class CLIConnectionError(ClaudeSDKError):
    """The session is not connected, or cannot be."""


class CLINotFoundError(CLIConnectionError):
    """The `claude` program was not found."""

    def __init__(self, message: str = "Claude Code not found", cli_path: str | None = None) -> None:
        super().__init__(f"{message}: {cli_path}" if cli_path else message)


class ProcessError(ClaudeSDKError):
    """The CLI exited with an error."""

    def __init__(self, message: str, exit_code: int | None = None, stderr: str | None = None) -> None:
        self.exit_code = exit_code
        self.stderr = stderr
        if exit_code is not None:
            message += f" (exit code: {exit_code})"
        if stderr:
            message += f"\nError output: {stderr}"
        super().__init__(message)


class ResultError(ProcessError):
    """The CLI exited with an error after a result that says why."""

    def __init__(self, message: str, data: JSONObject | None = None, exit_code: int | None = None) -> None:
        self.data: JSONObject = data if isinstance(data, dict) else {}
        self.errors: list[str] = _read_errors(self.data.get("errors"))
        self.subtype: str | None = self._read("subtype", str)
        self.result: str | None = self._read("result", str)
        self.api_error_status: int | None = self._read("api_error_status", int)
        self.terminal_reason: str | None = self._read("terminal_reason", str)
        self.session_id: str | None = self._read("session_id", str)
        super().__init__(message, exit_code=exit_code)

    def _read(self, name: str, kind: type) -> Any:
        value = self.data.get(name)
        return value if isinstance(value, kind) else None

    @classmethod
    def after(cls, result: JSONObject, exit_code: int | None) -> "ResultError":
        """Return the error of a process that exited after an error result."""
        error = cls("", result)
        said = error.subtype if error.subtype != "success" else None
        status = None if error.api_error_status is None else f"API error (HTTP {error.api_error_status})"
        reasons = ("; ".join(error.errors), (error.result or "").strip(), said, status, "unknown error")
        reason = next(filter(None, reasons))
        return cls(f"Claude Code returned an error result: {reason}", result, exit_code)


class CLIJSONDecodeError(ClaudeSDKError):
    """The result of a turn is not JSON, or is too long. Other such lines are left out, and the session continues."""

    def __init__(self, line: str, original_error: Exception) -> None:
        self.line = line
        self.original_error = original_error
        super().__init__(f"Failed to decode JSON: {line[:100]}...")


class MessageParseError(ClaudeSDKError):
    """A message of the CLI lacks a part."""

    def __init__(self, message: str, data: JSONObject | None = None) -> None:
        self.data = data
        super().__init__(message)


def _read_errors(value: object) -> list[str]:
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [text.strip() for text in texts if isinstance(text, str) and text.strip()]


@contextmanager
def official_errors() -> Iterator[None]:
    """Raise errors of this package as those of the official SDK. Its cause is the original."""
    try:
        yield
    except errors.ClaudeAgentError as error:
        raise to_official(error) from error


def to_official(error: errors.ClaudeAgentError) -> Exception:
    """Return the error of the official SDK for one of this package."""
    match error:
        case errors.CLINotFoundError():
            return CLINotFoundError(f"Claude Code not found: {error}")
        case errors.OptionsError(option="cwd" | "cli_path"):
            return CLIConnectionError(str(error))
        case errors.OptionsError():
            return ValueError(str(error))
        case errors.CLIStartError(exit_code=int(code)) | errors.CLIExitError(exit_code=code):
            return ProcessError(f"Command failed with exit code {code}", code, error.stderr_tail)
        case errors.SessionNotFoundError() | errors.SessionInUseError():
            return ProcessError(str(error))
        case errors.ControlTimeoutError():
            return Exception(f"Control request timeout: {error.subtype}")
        case errors.ControlRejectedError():
            return Exception(error.error)
        case errors.CLIError() | errors.ConnectionClosedError():
            return CLIConnectionError(str(error))
    return ClaudeSDKError(str(error))

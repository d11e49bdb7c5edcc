"""`ToolContext`: information about a tool's call, and methods to report progress and to log."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, Literal, TypeAlias, TypeVar

from claude_agent_py._base.checks import check_count
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.tools.sampling import SamplingRequest, text_of_message
from claude_agent_py.wire.base import JSONObject

_Form = TypeVar("_Form")

LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class ToolContext(HandlerContext, frozen=True, kw_only=True):
    """The context of a tool call. A tool with a parameter of this type receives it.

    `cancellation` is set when the CLI no longer needs the result (an interrupt or a timeout). An `async` tool is then
    cancelled; a plain one, which runs in a thread, should check `cancelled`.

    `agent_id` and `task` identify the calling subagent, if its messages name it.
    """

    request_id: str = ""
    tool_name: str = ""
    """The tool's name without the server prefix."""
    server_name: str = ""
    """The tool's server; empty in a `ToolChain`."""
    tool_use_id: str | None = None
    """The id of the call and its result in the conversation."""
    cwd: str | None = None
    """The session's absolute start directory; None without a session, as in a `ToolChain`."""
    progress_token: str | int | None = None
    """The token for progress reports; None if the caller did not ask for progress."""

    def notify(self, method: str, params: JSONObject) -> None:
        """Send an MCP notification without blocking. Without a session, as in a `ToolChain`, it is dropped."""

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress without blocking.

        Safe to call from any thread. Ignored if the caller did not ask for progress.

        `progress` must increase with every report. It restarts the CLI's limit for calls without progress
        (`CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT`), but does not extend the call's timeout.
        """
        if self.progress_token is None:
            return
        known = {"total": total, "message": message}
        params = {"progressToken": self.progress_token, "progress": progress}
        self.notify("notifications/progress", params | {name: item for name, item in known.items() if item is not None})

    async def elicit(self, message: str, form: type[_Form]) -> _Form | None:
        """Ask a person to fill in a form, and return the answer; None if the person declines or nobody is there.

        `on_elicitation` gets the question, otherwise the inbox. The time limit of the tool goes on. Cancelling
        withdraws the question. From the thread of a plain tool: `anyio.from_thread.run(context.elicit, ...)`.

        Args:
            message: The question.
            form: A pydantic model, a dataclass or a `TypedDict`, whose fields are texts, numbers, booleans, choices
                of texts (`Literal` or enums) or lists of choices.

        Raises:
            OptionsError: A field has another type.
            ValueError: A validator of the form refuses the answer.
        """
        from claude_agent_py.tools.form_type import FormType  # takes long, and few tools ask

        made = FormType(form)
        reply = await self._ask(message, requested_schema=made.schema)
        return made.read(reply.get("content") or {}) if reply.get("action") == "accept" else None

    async def elicit_url(self, message: str, url: str) -> bool:
        """Ask a person to open a page. Return whether the person agreed. See `elicit`."""
        return (await self._ask(message, url=url)).get("action") == "accept"

    async def sample(
        self, prompt: str | Sequence[JSONObject], *, system_prompt: str | None = None, max_tokens: int = 1024
    ) -> str:
        """Ask a model, and return the text of its message. `on_sampling` of the options calls the model.

        The time limit of the tool goes on. Cancelling cancels the handler. From the thread of a plain tool:
        `anyio.from_thread.run(context.sample, ...)`.

        Args:
            prompt: Text, or messages in MCP form, each with `role` and `content`.
            system_prompt: Instructions for the model.
            max_tokens: The most tokens that the message may have.

        Raises:
            OptionsError: There is no handler, or `max_tokens` is not a positive number.
            HandlerError: The handler failed.
        """
        check_count(max_tokens, "max_tokens", 1)
        messages = (
            [{"role": "user", "content": {"type": "text", "text": prompt}}] if isinstance(prompt, str) else prompt
        )
        request = SamplingRequest(
            server_name=self.server_name, messages=messages, max_tokens=max_tokens, system_prompt=system_prompt
        )
        return text_of_message(await self._sample(request))

    async def _sample(self, request: SamplingRequest) -> JSONObject:
        """Ask a model. Without a session, as in a `ToolChain`, there is none."""
        raise OptionsError("a tool asks for a model's message, and no session answers it", option="on_sampling")

    async def _ask(self, message: str, **fields: object) -> JSONObject:
        """Ask a person. Without a session, as in a `ToolChain`, nobody is there."""
        return {"action": "cancel"}

    def log(self, level: LogLevel, data: object, logger: str | None = None) -> None:
        """Send a log message to the CLI without blocking. Safe to call from any thread."""
        params = {"level": level, "logger": logger or self.tool_name, "data": data}
        self.notify("notifications/message", params)


CURRENT: Final[ContextVar[ToolContext | None]] = ContextVar("claude_agent_py_tool", default=None)
"""The context of the running call, inherited by the tasks and threads that it starts."""


def current_tool() -> ToolContext | None:
    """Return the context of the running tool call, or None outside of a call."""
    return CURRENT.get()

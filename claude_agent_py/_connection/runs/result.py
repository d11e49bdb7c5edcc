"""`RunResult`: the result of a run, built from its messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

import claude_agent_py.messages
from claude_agent_py import observe, tools
from claude_agent_py._base.display import displayable
from claude_agent_py._base.errors import LOGIN_HINT, RunFailed, StoreError
from claude_agent_py._connection import runs
from claude_agent_py._connection.runs.run_state import RunState
from claude_agent_py._journal.fold import ProcessEnd, TimedFrame
from claude_agent_py._journal.run_failure import RunFailure, find_failure
from claude_agent_py._journal.tasks.spending import subtract_costs
from claude_agent_py._journal.tool_calls import ToolCallRecord
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.output_shape import REFUSAL, Output
from claude_agent_py.options.secrets import find_secrets
from claude_agent_py.tasks.task import Task
from claude_agent_py.tasks.tree import add_usage
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage, UserMessage
from claude_agent_py.wire.messages.tasks import TaskUsage
from claude_agent_py.wire.messages.usage import ModelUsage, PermissionDenial, Usage

REPR_CHARS: Final = 80

_ADDED: Final = (
    "input_tokens",
    "output_tokens",
    "thinking_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cache_creation_ephemeral_5m_input_tokens",
    "cache_creation_ephemeral_1h_input_tokens",
    "web_search_requests",
    "cost_usd",
)
"""The fields of a model's usage that are running totals."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunResult(Generic[Output]):
    """The result of a run. It does not change, except for the tasks that are still running."""

    message: ResultMessage | None
    """The result message of the prompt, or of the last one if there are several; None if there is no result."""
    results: Sequence[ResultMessage]
    """All result messages of the run, in order. With `until="idle"` they include results of follow-up turns."""
    messages: Sequence["claude_agent_py.messages.RunMessage"]
    """The messages of the run, in order, without deltas of partial messages."""
    tasks: Sequence[Task] = ()
    """The background tasks started in the run, by the main agent or its subagents."""
    agents: Sequence["claude_agent_py.Subagent"] = ()
    """The subagents and child agents among `tasks`, with their definitions."""
    sent: Sequence[UserMessage] = ()
    """The prompts, as they were sent."""
    was_interrupted: bool = False
    """Whether the run, or one of its turns, was interrupted."""
    late_tasks: frozenset[str] = frozenset()
    """The ids of the tasks that were running when `Timeouts.idle` expired."""
    store_errors: Sequence[StoreError] = ()
    """The errors of turns of which the session store lacks a part, because the CLI could not write its transcript."""
    max_budget_usd: float | None = None
    """The option `max_budget_usd`."""
    spent_before_usd: float = 0.0
    """The cost of earlier processes that `total_cost_usd` lacks because they were killed; only determined with
    `max_budget_usd`."""
    output: Output = None  # type: ignore[assignment]
    """The structured output: an instance of `output_type` if the options set it, otherwise plain JSON."""
    _sent_at: Mapping[str, float] = field(default_factory=dict)
    """When the prompts were sent, by the clock of the event loop, as `messages.times`, and by their uuids."""
    _epoch: float = 0.0
    """When the clock of the event loop was 0, in seconds since the epoch."""
    _turns: Mapping[str, str] = field(default_factory=dict)
    """The ids of its turns in the session, and the `run` of each."""
    _end: TimedFrame | None = None
    """The end of the process that cut the run off, if one did."""
    _options: ClientOptions | None = None
    """The options of the session, which are not pickled: they may have secrets."""

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_options": None}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            where = find_in_result(name)
            hint = f": use result.{where}" if where else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= REPR_CHARS else f"{self.text[:REPR_CHARS]}..."
        kind = "error" if self.is_error else "ok"
        counts = f"{len(self.results)} results, {len(self.messages)} messages, {len(self.tasks)} tasks"
        return f"<RunResult {kind} {text!r}, {counts}, {self.total_cost_usd:.4f} USD so far>"

    @property
    def text(self) -> str:
        """The last answer that is not empty. With `until="idle"` it usually covers the results of the tasks."""
        for result in reversed(self.results):
            if result.result and not result.is_error:
                return result.result
        for result in reversed(self.results):
            if result.result:
                return result.result
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage) and message.text and not message.is_subagent:
                return message.text
        return ""

    @cached_property
    def is_error(self) -> bool:
        """Whether the prompt's own result is an error or missing, or the last follow-up turn failed.

        Also true if a hook ended the run or blocked its prompt, or if the session store lacks a part of the run.
        """
        return self.error() is not None

    @property
    def prompts(self) -> Sequence[str]:
        """The uuids of the prompts. A result message lists those that it answers in `prompt_uuids`."""
        return [prompt.uuid for prompt in self.sent]

    @property
    def is_shared(self) -> bool:
        """Whether the CLI answered prompts of other runs with the same result, as it may for prompts sent during a
        turn.
        """
        return self.message is not None and not set(self.message.prompt_uuids) <= set(self.prompts)

    @property
    def terminal_reason(self) -> str | None:
        """Why the turn ended, in more detail than `stop_reason`: `completed`, `api_error`, `max_turns`, ..."""
        return self.message.terminal_reason if self.message else None

    @property
    def duration(self) -> float:
        """The duration of the run's turns in seconds, without the time between them."""
        return sum(float(r.duration_ms) for r in self.results) / 1000

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped."""
        return self.message.stop_reason if self.message else None

    @property
    def session_id(self) -> str:
        """The id of the session, for the option `resume`."""
        if self.message is not None:
            return self.message.session_id
        for message in reversed(self.messages):
            is_of_child = getattr(message, "agent_id", None) is not None
            session_id: str = getattr(message, "session_id", "")
            if session_id and not is_of_child:
                return session_id
        return ""

    @property
    def num_turns(self) -> int:
        """The number of turns over all results of the run, as counted by the CLI, which includes tool results."""
        return sum(int(r.num_turns) for r in self.results)

    @property
    def total_cost_usd(self) -> float:
        """The cumulative cost of the session so far in US dollars, as estimated by the CLI."""
        return float(self.results[-1].total_cost_usd) if self.results else 0.0

    @property
    def cost_usd(self) -> float:
        """The cost of this run in US dollars, subagents included, as estimated by the CLI.

        What subagents spend between two turns is counted in the next turn.
        """
        return sum(float(usage.cost_usd) for usage in self.usage_by_model.values())

    @property
    def usage(self) -> Usage | None:
        """The token usage of the main agent in the prompt's own turn."""
        return self.message.usage if self.message else None

    @property
    def model_usage(self) -> Mapping[str, ModelUsage]:
        """The token usage by model, cumulative over the session, subagents included."""
        return self.results[-1].model_usage if self.results else {}

    @property
    def usage_by_model(self) -> Mapping[str, ModelUsage]:
        """The usage of this run's turns by model, subagents included: the increase of `model_usage`.

        What subagents use between two turns is counted in the next turn.
        """
        spent: dict[str, ModelUsage] = {}
        for result in self.results:
            for model, usage in (result.model_usage_since_last_result or {}).items():
                spent[model] = _add(spent[model], usage) if model in spent else usage
        return spent

    @property
    def usage_by_agent(self) -> Mapping[str, TaskUsage]:
        """The usage of each agent in this run: the main agent (`""`), and subagents and child agents by name.

        Tokens are counted from messages. The cost of a subagent is derived (`cost_is_derived`), and that of the main
        agent is what it leaves of `cost_usd`; None if a price is unknown. Child agents are not part of `cost_usd`.
        """
        used: dict[str, list[TaskUsage]] = {}
        costs: list[float | None] = []
        for agent in self.agents:
            if agent.usage is not None:
                used.setdefault(agent.name or agent.task.type or agent.id, []).append(agent.usage)
                if not agent.is_child:
                    costs.append(agent.usage.cost_usd)
        rest = subtract_costs(self.cost_usd, costs)
        answers = (m for m in self.messages if isinstance(m, AssistantMessage) and not m.is_subagent)
        main = TaskUsage(
            total_tokens=sum(result.usage.total_tokens for result in self.results if result.usage is not None),
            tool_uses=sum(len(answer.tool_uses) for answer in answers),
            duration_ms=sum(result.duration_ms for result in self.results),
            cost_usd=rest,
            cost_is_derived=bool(costs) and rest is not None,
        )
        return {"": main, **{name: add_usage(parts) for name, parts in used.items()}}

    @property
    def budget_left_usd(self) -> float | None:
        """The remainder of `max_budget_usd` after this run, in US dollars; None without that option."""
        if self.max_budget_usd is None:
            return None
        return max(0.0, self.max_budget_usd - self.spent_before_usd - self.total_cost_usd)

    @property
    def permission_denials(self) -> Sequence[PermissionDenial]:
        """The calls of `tool_calls` that were denied, and those of subagents whose calls the CLI does not forward.

        A call that was cancelled is not among them, although the CLI lists it in its results, and neither is an output
        that `output_type` did not accept.
        """
        calls = self.tool_calls
        known = {call.id for call in calls}
        denied = [call for call in calls if call.status is tools.ToolCallStatus.DENIED and REFUSAL not in call.text]
        listed = [denial for result in self.results for denial in result.permission_denials]
        return [
            *(PermissionDenial(tool_name=call.name, tool_use_id=call.id, tool_input=call.input) for call in denied),
            *(denial for denial in listed if denial.tool_use_id not in known),
        ]

    @property
    def unfinished_tasks(self) -> Sequence[Task]:
        """The tasks that are still running, and the `late_tasks`, stopped or not."""
        return [task for task in self.tasks if not task.done or task.id in self.late_tasks]

    @cached_property
    def tool_calls(self) -> Sequence[ToolCallRecord]:
        """Every tool call of the run with its result, including calls by subagents if the CLI forwards them."""
        traffic = tools.ToolTraffic()
        for message in self.messages:
            traffic.fold(message)
        live = {task.id for task in self.tasks if not task.done}
        return [call if call.done or call.agent_id in live else call.cut_off() for call in traffic.calls]

    @property
    def refused_agents(self) -> Sequence[ToolCallRecord]:
        """The tool calls that failed to start a subagent: nested too deep, too many at once, unknown, or denied.

        The `text` of each has the reason. Calls of subagents are included if the CLI forwards them.
        """
        return runs.find_refused_launches(self.tool_calls, self.tasks)

    def to_api_messages(self) -> list[JSONObject]:
        """Return the prompts of the run and the main agent's answers as `messages` for the Messages API.

        You can extend the list: append a user message, or pass it to `ToolChain.loop`. It does not include earlier runs
        of the session, the system prompt or the CLI's reminders. See `to_api_messages` in `claude_agent_py.messages`
        for what else is left out.

        Raises:
            BacklogError: Messages of the run were dropped for lack of space.
        """
        return claude_agent_py.messages.to_api_messages(self.messages, self.sent)

    def timeline(self) -> "observe.Timeline":
        """Return what happened in the run: an object that shows itself in a notebook, and saves itself as a page.

        Messages do not show hooks and questions to a person; `claude_agent_py.observe.watch` sees those as well.

        Raises:
            BacklogError: Messages of the run were dropped for lack of space.
        """
        ends = [end for task in self.tasks for end in task.list_ends()]
        times = [at + self._epoch for at in getattr(self.messages, "times", ())]
        at = self._sent_at
        sent = [(each, at[each.uuid] + self._epoch if each.uuid in at else None) for each in self.sent]
        secrets = None if self._options is None else find_secrets(self._options)
        return observe.Timeline.of_run(self.messages, times, sent, ends, self._end, self._turns, secrets)

    @property
    def errors(self) -> "Sequence[RunError | StoreError]":
        """The error of the run, if any, and then the `store_errors`."""
        error = self.error()
        return [error, *self.store_errors] if isinstance(error, RunError) else self.store_errors

    def error(self) -> "RunError | StoreError | None":
        """Return the error of the run, with this result attached, or None on success.

        If the run succeeded but the session store lacks a part of it, that is its error.
        """
        if self.message is None and self.was_interrupted:
            return InterruptedRunError("the run was interrupted", result=self)
        if self.message is None:
            return PromptCancelledError("the prompt was taken back before it was answered", result=self)
        for result in (self.message, self.results[-1]):
            failure = find_failure(result, self.messages)
            if failure is not None:
                error = make_error(self._complete(failure))
                error.result = self
                return error
        if not self.store_errors:
            return None
        self.store_errors[0].result = self
        return self.store_errors[0]

    def _complete(self, failure: RunFailure) -> RunFailure:
        """Add the budget of the session: the CLI only names the part of it that its process had."""
        if failure.error != "BudgetExceededError" or self.max_budget_usd is None:
            return failure
        spent = describe_spent(self.spent_before_usd + self.total_cost_usd, self.max_budget_usd)
        return failure._replace(text=f"{failure.text}: {spent}")


OFFICIAL_FIELDS: Final[Mapping[str, str]] = {"result": "text", "structured_output": "output"}
"""The fields of the official SDK's `ResultMessage` that have another name in a `RunResult`."""


def find_in_result(name: str) -> str | None:
    """Return where a `RunResult` has an attribute: under its name, another one, or in the result message; else None."""
    if name in OFFICIAL_FIELDS:
        return OFFICIAL_FIELDS[name]
    if name.startswith("_"):
        return None
    if name in RunResult.__dataclass_fields__ or hasattr(RunResult, name):
        return name
    return f"message.{name}" if hasattr(ResultMessage, name) else None


def make_result(
    run: RunState, tasks: Sequence[Task], agents: Sequence["runs.Subagent"], options: ClientOptions
) -> RunResult:
    """Return the result of a finished run.

    Raises:
        StructuredOutputError: The structured output is missing or does not match `output_type`.
    """
    result = RunResult(
        message=run.own_result,
        results=run.results,
        messages=run.mailbox.recorded,
        tasks=tuple(tasks),
        agents=agents,
        sent=run.sent,
        _sent_at=run.sent_at,
        _epoch=run.session.intake.clock() - run.session.now(),
        _turns=run.turns,
        _end=_read_end(run),
        _options=options,
        was_interrupted=run.was_interrupted,
        late_tasks=run.late_tasks,
        store_errors=run.store_errors,
        max_budget_usd=options.max_budget_usd,
        spent_before_usd=run.session.reported.spent_before_usd,
    )
    if isinstance(result.error(), RunError):
        return result
    if options.output_type is None and options.output_format is None:
        return replace(result, output=structured_output(run.results, is_expected=False))
    shape = options.output_shape
    try:
        output = structured_output(run.results, shape.adapter if shape is not None else None)
    except StructuredOutputError as error:
        error.result = result
        raise
    return replace(result, output=output)


def _read_end(run: RunState) -> TimedFrame | None:
    """Return the end of the process that cut a run off, or None. The tasks tell their ends themselves."""
    if run.reason != "closed":
        return None
    why = None if run.session.went_well else str(run.session.error).splitlines()[0]
    return ProcessEnd(why, has_successor=True), run.ended_at, False


def _add(earlier: ModelUsage, later: ModelUsage) -> ModelUsage:
    """Add up what a model used in two turns."""
    pairs = ((name, getattr(earlier, name), getattr(later, name)) for name in _ADDED)
    return later.replace(**{name: (old or 0) + (new or 0) for name, old, new in pairs if (old, new) != (None, None)})


def structured_output(
    results: Sequence[ResultMessage], adapter: TypeAdapter[Any] | None = None, *, is_expected: bool = True
) -> Any:
    """Return the structured output of a run, validated with the adapter, if any.

    Raises:
        StructuredOutputError: The structured output is missing, although it is expected, or does not match
            `output_type`. (The CLI reports success even if the model produced no structured output.)
    """
    found = next((r for r in reversed(results) if r.has_structured_output), None)
    if found is None and is_expected:
        raise StructuredOutputError(
            "the model produced no structured output, although the CLI reports success; its answer is in .result.text"
        )
    if found is None or adapter is None:
        return found.structured_output if found else None
    try:
        return adapter.validate_json(to_json(found.structured_output))  # JSON rules: text to dates, lists to sets
    except ValidationError as error:
        raise StructuredOutputError(f"the structured output does not match output_type: {error}") from error


# Errors ----------------------------------------------------------------------------------------------------------


class RunError(RunFailed):
    """A run ended with an error. `result` holds its partial result."""

    def __init__(self, message: str, *, result: "RunResult | None" = None) -> None:
        self.result: RunResult = result  # type: ignore[assignment] # every error that a run raises has one
        """The result of the run, messages included."""
        super().__init__(message)


class AuthenticationError(RunError):
    """The API key or login is missing, invalid, or lacks permission. The message says how to set one up."""

    def __init__(self, message: str, *, result: "RunResult | None" = None) -> None:
        super().__init__(f"{message}. {LOGIN_HINT}", result=result)


class BillingError(RunError):
    """The account cannot pay for the request, or is on hold."""


class RateLimitedError(RunError):
    """A rate limit or a usage limit was hit."""

    is_retryable = True

    def __init__(self, message: str, *, result: "RunResult | None" = None, resets_at: float | None = None) -> None:
        self.resets_at = resets_at
        """When the limit resets, in seconds since the epoch; None if unknown."""
        super().__init__(message, result=result)


class OverloadedError(RunError):
    """The API is overloaded (HTTP 529)."""

    is_retryable = True


class ServerError(RunError):
    """The API failed (HTTP 5xx) or could not be reached."""

    is_retryable = True


class InvalidRequestError(RunError):
    """The API refused the request as invalid (HTTP 400, 413)."""


class ModelNotFoundError(RunError):
    """The model does not exist or is not available to this account."""


class PromptTooLongError(RunError):
    """The conversation does not fit into the model's context."""


class MaxTurnsError(RunError):
    """`max_turns` was reached."""


class BudgetExceededError(RunError):
    """`max_budget_usd` was reached."""


def describe_spent(spent_usd: float, limit_usd: float) -> str:
    """Return the text of a `BudgetExceededError`: what a session has spent of `max_budget_usd`."""
    return f"the session has spent {spent_usd:.4f} of {limit_usd:g} USD (max_budget_usd)"


class MaxOutputTokensError(RunError):
    """The model repeatedly hit its output limit."""


class RefusalError(RunError):
    """The model refused to answer."""


class UnreadableResultError(RunError):
    """The CLI ended the turn with a malformed result. `raw` is the frame as received."""

    def __init__(self, message: str, *, raw: Any = None, result: "RunResult | None" = None) -> None:
        self.raw = raw
        super().__init__(message, result=result)


class StructuredOutputError(RunError):
    """The structured output is missing or does not match `output_type`."""


class InterruptedRunError(RunError):
    """The run was interrupted."""


class PromptCancelledError(RunError):
    """The prompt was removed from the queue before it was answered."""


class HookStoppedError(RunError):
    """A hook ended the run."""


class RunTimeoutError(RunError, TimeoutError):
    """A time limit of the run expired; the run was interrupted."""

    def __init__(self, kind: str, timeout: float, *, result: "RunResult | None" = None) -> None:
        self.kind = kind
        """Which limit: `run`, `first_message` or `silence`."""
        self.timeout = timeout
        """The limit, in seconds."""
        self.waiting_for: tuple[str, ...] = ()
        """What the CLI was waiting for, such as `the tool Bash`, `the MCP server 'db'` or `the API, which answered with
        HTTP 529 (retry 3 of 10)`; empty if unknown."""
        what = {"first_message": "brought no message", "silence": "made no progress"}.get(kind, "did not end")
        super().__init__(f"the run {what} within {timeout:g} s", result=result)

    def __str__(self) -> str:
        waiting = displayable(", ".join(self.waiting_for))
        return f"{super().__str__()}; the CLI was waiting for {waiting}" if waiting else super().__str__()


ERRORS: Final[Mapping[str, type[RunError]]] = {
    "RunError": RunError,
    **{cls.__name__: cls for cls in RunError.__subclasses__()},
}
"""The classes of run errors by name."""


def make_error(failure: RunFailure) -> RunError:
    """Return the error of a failure, without its result."""
    if failure.error == "RateLimitedError":
        return RateLimitedError(failure.text, resets_at=failure.resets_at)
    return ERRORS[failure.error](failure.text)

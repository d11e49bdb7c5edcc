"""What a run brought: `RunResult`, and the errors that stand for a bad one.

Owns how a result is put together from the messages of a run. Knows nothing of how they arrived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from claude_agent_py.errors import InterruptedRunError, PromptCancelledError, RunError, StructuredOutputError
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.output_shape import Output
from claude_agent_py.protocol.verdict import error_of
from claude_agent_py.runtime.run_mailbox import RunMailbox
from claude_agent_py.tasks.task import Task
from claude_agent_py.tools.traffic import ToolCallRecord, ToolTraffic
from claude_agent_py.wire.messages import AssistantMessage, ResultMessage
from claude_agent_py.wire.usage import ModelUsage, PermissionDenial, Usage

if TYPE_CHECKING:
    from claude_agent_py.runtime.message_types import RunMessage
    from claude_agent_py.runtime.subagents import Subagent

REPR_CHARS: Final = 80


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunResult(Generic[Output]):
    """Everything that a run brought. A value: it does not change any more, except for the tasks that still run."""

    message: ResultMessage | None
    """The result of the prompt itself; of the last one where the run had several. None if none came."""
    results: Sequence[ResultMessage]
    """All results of the run, in order: with `until="idle"` also those of the turns that finished tasks caused."""
    messages: Sequence["RunMessage"]
    """Every message of the run, in order. Deltas of partial messages are not kept."""
    tasks: Sequence[Task] = ()
    """The background tasks that were started in the run, by the main agent or by its subagents."""
    agents: Sequence["Subagent"] = ()
    """Those of `tasks` that are subagents or child agents, with their definitions."""
    prompts: Sequence[str] = ()
    """The uuids under which the prompts were sent; a result names those that it answers in `prompt_uuids`."""
    was_interrupted: bool = False
    """Whether `Run.interrupt` stopped the CLI's work on it."""
    late_tasks: frozenset[str] = frozenset()
    """The ids of those of `tasks` that still ran when `Timeouts.idle` ran out."""
    output: Output = None  # type: ignore[assignment]
    """The structured output: an instance of `output_type` where the options name one, else the plain JSON value."""

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= REPR_CHARS else f"{self.text[:REPR_CHARS]}..."
        kind = "error" if self.is_error else "ok"
        counts = f"{len(self.results)} results, {len(self.messages)} messages, {len(self.tasks)} tasks"
        return f"<RunResult {kind} {text!r}, {counts}, {self.total_cost_usd:.4f} USD so far>"

    @property
    def text(self) -> str:
        """The last answer that is not empty; after `until="idle"` usually the synthesis of what the tasks brought."""
        answers = (r.result for r in reversed(self.results) if r.result and not r.is_error)
        failures = (r.result for r in reversed(self.results) if r.result and r.is_error)
        return next(answers, None) or next(failures, None) or self._last_spoken

    @property
    def _last_spoken(self) -> str:
        spoken = (m.text for m in reversed(self.messages) if isinstance(m, AssistantMessage) and not m.is_subagent)
        return next((text for text in spoken if text), "")

    @cached_property
    def is_error(self) -> bool:
        """Whether the prompt's own result is an error, or none came, or the last follow-up turn failed.

        A run that a hook ended, or whose prompt a hook kept from the model, is one, too.
        """
        return self.error() is not None

    @property
    def is_shared(self) -> bool:
        """Whether the CLI answered prompts of other runs with the same result (it folds what is sent during a turn)."""
        return self.message is not None and not set(self.message.prompt_uuids) <= set(self.prompts)

    @property
    def terminal_reason(self) -> str | None:
        """Why the turn ended, more exactly than `stop_reason`: `completed`, `api_error`, `max_turns`, ..."""
        return self.message.terminal_reason if self.message else None

    @property
    def duration(self) -> float:
        """How long the turns of the run took, in seconds; the time between them is not counted."""
        return sum(float(r.duration_ms) for r in self.results) / 1000

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped."""
        return self.message.stop_reason if self.message else None

    @property
    def session_id(self) -> str:
        """The session that the run belongs to; pass it as `resume` to go on later."""
        own = (m for m in reversed(self.messages) if getattr(m, "agent_id", None) is None)  # not of child agents
        named = (getattr(m, "session_id", "") for m in own)
        return self.message.session_id if self.message else next(filter(None, named), "")

    @property
    def num_turns(self) -> int:
        """How many steps the CLI counts, over all results of the run (it counts every tool result, too)."""
        return sum(int(r.num_turns) for r in self.results)

    @property
    def total_cost_usd(self) -> float:
        """What the session has cost so far, in US dollars, as the CLI estimates it: cumulative over all its runs."""
        return float(self.results[-1].total_cost_usd) if self.results else 0.0

    @property
    def cost_usd(self) -> float:
        """What the turns of this run have cost, in US dollars, subagents included, as the CLI estimates it.

        What subagents spend between two turns counts to the turn that follows.
        """
        spent = [usage for r in self.results for usage in (r.model_usage_since_last_result or {}).values()]
        return sum(float(usage.cost_usd) for usage in spent)

    @property
    def usage(self) -> Usage | None:
        """The tokens of the prompt's own turn (the main agent's only)."""
        return self.message.usage if self.message else None

    @property
    def model_usage(self) -> Mapping[str, ModelUsage]:
        """The tokens by model, cumulative over the session, subagents included."""
        return self.results[-1].model_usage if self.results else {}

    @property
    def permission_denials(self) -> Sequence[PermissionDenial]:
        """The tool calls that were denied."""
        return [denial for result in self.results for denial in result.permission_denials]

    @property
    def unfinished_tasks(self) -> Sequence[Task]:
        """Those of `tasks` that are still not over (as of now), and the `late_tasks`, stopped or not."""
        return [task for task in self.tasks if not task.done or task.id in self.late_tasks]

    @cached_property
    def tool_calls(self) -> Sequence[ToolCallRecord]:
        """Every tool call of the run, paired with its result; subagents' included where the CLI forwards them."""
        traffic = ToolTraffic()
        for message in self.messages:
            traffic.fold(message)
        return traffic.calls

    @property
    def refused_agents(self) -> Sequence[ToolCallRecord]:
        """The tool calls that were to start a subagent and did not: too deep, too many at once, unknown, denied.

        `text` of each says why. Calls of subagents are among them where the CLI forwards them.
        """
        from claude_agent_py.runtime.subagents import refused_launches

        return refused_launches(self.tool_calls, self.tasks)

    def error(self) -> RunError | None:
        """Return the error that this result stands for, with the result attached; None for a good one."""
        if self.message is None and self.was_interrupted:
            return InterruptedRunError("the run was interrupted", result=self)
        if self.message is None:
            return PromptCancelledError("the prompt was taken back before it was answered", result=self)
        for result in (self.message, self.results[-1]):
            error = error_of(result, self.messages[:])  # those that were kept, where the disk was full
            if error is not None:
                error.result = self
                return error
        return None


def make_result(
    mailbox: RunMailbox, tasks: Sequence[Task], agents: Sequence["Subagent"], options: ClientOptions
) -> RunResult:
    """Return what a run that is over has brought.

    Raises:
        StructuredOutputError: An `output_type` was asked for, and no output came or it does not fit.
    """
    result = RunResult(
        message=mailbox.own_result,
        results=mailbox.results,
        messages=mailbox.messages,
        tasks=tuple(tasks),
        agents=agents,
        prompts=mailbox.prompts,
        was_interrupted=mailbox.was_interrupted,
        late_tasks=mailbox.late_tasks,
    )
    if result.is_error:
        return result
    shape = options.output_shape
    try:
        output = structured_output(mailbox.results, shape.adapter if shape is not None else None)
    except StructuredOutputError as error:
        error.result = result
        raise
    return replace(result, output=output)


def structured_output(results: Sequence[ResultMessage], adapter: TypeAdapter[Any] | None) -> Any:
    """Return the structured output of a run, validated where there is an adapter.

    Raises:
        StructuredOutputError: An `output_type` was asked for, and no output came or it does not fit. (The CLI reports
            success even when the model never gave a structured output.)
    """
    found = next((r for r in reversed(results) if r.has_structured_output), None)
    if adapter is None:
        return found.structured_output if found else None
    if found is None:
        raise StructuredOutputError("the model gave no structured output, although the CLI reports success")
    try:
        return adapter.validate_json(to_json(found.structured_output))  # JSON rules: text to dates, lists to sets
    except ValidationError as error:
        raise StructuredOutputError(f"the structured output does not fit output_type: {error}") from error

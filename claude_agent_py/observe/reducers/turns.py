"""Build spans for runs and turns. A run is a prompt with all turns up to the next prompt."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from claude_agent_py.observe.open_spans import OpenSpan, State, read_tokens
from claude_agent_py.observe.spans import MAIN, SpanStatus, Tokens
from claude_agent_py.wire.messages.conversation import CommandLifecycleMessage, ResultMessage
from claude_agent_py.wire.messages.system import APIRetryMessage, InitMessage


def begin_turn(
    state: State, prompts: Sequence[str] = (), at: float | None = None, *, causes: Sequence[str] = ()
) -> None:
    """Begin a turn for these prompts, by uuid. Without prompts, the turn was caused by tasks that ended."""
    end_turn(state)
    when = state.advance(at)
    run = state.run
    if prompts or run is None:
        run = _begin_run(state, prompts, when)
    state.turn = OpenSpan(f"{run.id}/{state.turns + 1}", "turn", run.name, when, parent=run.id, links=tuple(causes))
    if prompts:
        state.turn.attributes["prompt"] = run.attributes.get("prompt")
    state.conversation(MAIN).asked_at = when
    state.problem = None


def end_turn(
    state: State, at: float | None = None, status: SpanStatus = "ok", result: ResultMessage | None = None
) -> None:
    """End the turn, if one is open."""
    state.end_model(MAIN)
    turn = state.turn
    run = state.run
    state.turn = None
    if turn is None or run is None:
        return
    turn.end = state.advance(at)
    turn.status = status
    if state.problem and status != "denied":
        turn.status = state.problem
    if result is not None:
        _add_result(state, turn, result)
    run.end = turn.end
    run.status = turn.status
    if turn.tokens is not None:
        run.tokens = (run.tokens or Tokens()) + turn.tokens
    if turn.attributes.pop("is_used", False) or (state.turns == 0 and turn.status != "ok"):
        if turn.cost_usd is not None:
            run.cost_usd = (run.cost_usd or 0.0) + turn.cost_usd
        state.turns += 1
        state.spent = {}
        state.finish(turn)


def _begin_run(state: State, prompts: Sequence[str], at: float) -> OpenSpan:
    if state.run is not None:
        finish_run(state, state.run)
    state.runs += 1
    state.turns = 0
    uuid = next((prompt for prompt in prompts if not prompt.startswith("#")), f"#{state.runs}")
    run = state.run = OpenSpan(f"run:{uuid}", "run", "run", at)
    sent = [state.sent.pop(prompt) for prompt in prompts if prompt in state.sent]
    if sent:
        run.start = min(at, sent[0][1])
        text = "\n\n".join(prompt.text for prompt, _ in sent)
        run.name = state.texts.to_line(text) or "run"
        run.attributes["prompt"] = state.texts.shorten(text)
    return run


def finish_run(state: State, run: OpenSpan) -> None:
    """Report a run. Its cost includes turns without an answer."""
    if state.spent:
        run.cost_usd = (run.cost_usd or 0.0) + sum(cost for _, cost in state.spent.values())
        state.spent = {}
    state.finish(run)


def _on_init(state: State, message: InitMessage, at: float | None) -> None:
    unnamed = [key for key in state.sent if key.startswith("#")][:1]
    prompts = list(message.prompt_uuids) or state.started or unnamed
    state.started = []
    begin_turn(state, prompts, at)
    state.session_id = message.session_id or state.session_id


def _on_command_lifecycle(state: State, message: CommandLifecycleMessage, at: float | None) -> None:
    state.advance(at)
    if message.state == "started" and message.command_uuid in state.sent and state.turn is None:
        state.started.append(message.command_uuid)


def _on_result(state: State, message: ResultMessage, at: float | None) -> None:
    if state.turn is None:
        begin_turn(state, message.prompt_uuids, at)
    turn = state.turn
    if at is None and turn is not None and (state.is_dated or "is_used" in turn.attributes):
        # A result has no timestamp, so compute the end from the duration.
        at = max(state.now, turn.start + message.duration_ms / 1000)
    is_aborted = (message.terminal_reason or "").startswith("aborted")
    status: SpanStatus = "ok"
    if is_aborted:
        status = "cancelled"
    elif message.is_error:
        status = "error"
    end_turn(state, at, status, message)


def _add_result(state: State, turn: OpenSpan, result: ResultMessage) -> None:
    turn.tokens = read_tokens(result.usage)
    for model, usage in (result.model_usage_since_last_result or {}).items():
        tokens, cost = state.spent.get(model, (Tokens(), 0.0))
        state.spent[model] = (tokens + (read_tokens(usage) or Tokens()), cost + float(usage.cost_usd))
    turn.cost_usd = sum(cost for _, cost in state.spent.values())
    turn.attributes |= {
        "stop_reason": result.stop_reason,
        "terminal_reason": result.terminal_reason,
        "error": state.texts.shorten(result.error_text),
        "output": state.texts.shorten(result.text),
        "models": {model: {"tokens": tokens, "cost_usd": cost} for model, (tokens, cost) in state.spent.items()},
    }
    ended = result.origin.run_id if result.origin is not None else None
    if ended in state.task_of_run:
        turn.links = (state.task_of_run[ended],)


def _on_api_retry(state: State, message: APIRetryMessage, at: float | None) -> None:
    state.advance(at)
    if state.turn is not None:
        state.turn.attributes["api_retries"] = state.turn.attributes.get("api_retries", 0) + 1


HANDLERS: Final[Mapping[type, Callable[[State, Any, float | None], None]]] = {
    InitMessage: _on_init,
    CommandLifecycleMessage: _on_command_lifecycle,
    ResultMessage: _on_result,
    APIRetryMessage: _on_api_retry,
}

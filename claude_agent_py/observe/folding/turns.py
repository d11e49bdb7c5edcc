"""Fold runs and turns: a run is a prompt with all turns up to the next prompt."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from claude_agent_py.observe.drafts import Draft, tokens_of
from claude_agent_py.observe.folding.state import State
from claude_agent_py.observe.spans import MAIN, SpanStatus, Tokens
from claude_agent_py.wire.messages.conversation import CommandLifecycleMessage, ResultMessage
from claude_agent_py.wire.messages.system import APIRetryMessage, InitMessage


def begin_turn(
    state: State, prompts: Sequence[str] = (), at: float | None = None, *, causes: Sequence[str] = ()
) -> None:
    """Begin a turn with these prompts, by uuid; without any, one that the ends of tasks caused."""
    end_turn(state)
    when = state.time(at)
    run = state.run
    if prompts or run is None:
        run = _begin_run(state, prompts, when)
    state.turn = Draft(f"{run.id}/{state.turns + 1}", "turn", run.name, when, parent=run.id, links=tuple(causes))
    if prompts:
        state.turn.attributes["prompt"] = run.attributes.get("prompt")
    state.talk(MAIN).asked_at = when
    state.flaw = None


def end_turn(
    state: State, at: float | None = None, status: SpanStatus = "ok", result: ResultMessage | None = None
) -> None:
    """End the turn, if one is open."""
    state.end_model(MAIN)
    turn, run, state.turn = state.turn, state.run, None
    if turn is None or run is None:
        return
    turn.end, turn.status = state.time(at), state.flaw if state.flaw and status != "denied" else status
    if result is not None:
        _note_result(state, turn, result)
    run.end, run.status = turn.end, turn.status
    if turn.tokens is not None:
        run.tokens = (run.tokens or Tokens()) + turn.tokens
    if turn.attributes.pop("is_used", False) or (state.turns == 0 and turn.status != "ok"):
        if turn.cost_usd is not None:
            run.cost_usd = (run.cost_usd or 0.0) + turn.cost_usd
        state.turns += 1
        state.spent = {}
        state.finish(turn)


def _begin_run(state: State, prompts: Sequence[str], at: float) -> Draft:
    if state.run is not None:
        finish_run(state, state.run)
    state.runs += 1
    state.turns = 0
    uuid = next((prompt for prompt in prompts if not prompt.startswith("#")), f"#{state.runs}")
    run = state.run = Draft(f"run:{uuid}", "run", "run", at)
    taken = [state.sent.pop(prompt) for prompt in prompts if prompt in state.sent]
    if taken:
        run.start = min(at, taken[0][1])
        text = "\n\n".join(prompt.text for prompt, _ in taken)
        run.name = state.texts.line(text) or "run"
        run.attributes["prompt"] = state.texts.of(text)
    return run


def finish_run(state: State, run: Draft) -> None:
    """Report a run, with what turns without an answer cost."""
    if state.spent:
        run.cost_usd = (run.cost_usd or 0.0) + sum(cost for _, cost in state.spent.values())
        state.spent = {}
    state.finish(run)


def _init(state: State, message: InitMessage, at: float | None) -> None:
    unnamed = [key for key in state.sent if key.startswith("#")][:1]
    prompts = list(message.prompt_uuids) or state.started or unnamed
    state.started = []
    begin_turn(state, prompts, at)
    state.session_id = message.session_id or state.session_id


def _lifecycle(state: State, message: CommandLifecycleMessage, at: float | None) -> None:
    state.time(at)
    if message.state == "started" and message.command_uuid in state.sent and state.turn is None:
        state.started.append(message.command_uuid)


def _result(state: State, message: ResultMessage, at: float | None) -> None:
    if state.turn is None:
        begin_turn(state, message.prompt_uuids, at)
    turn = state.turn
    if at is None and turn is not None and (state.is_dated or "is_used" in turn.attributes):
        at = max(state.now, turn.start + message.duration_ms / 1000)  # it has no time of its own
    is_aborted = (message.terminal_reason or "").startswith("aborted")
    end_turn(state, at, "cancelled" if is_aborted else "error" if message.is_error else "ok", message)


def _note_result(state: State, turn: Draft, result: ResultMessage) -> None:
    turn.tokens = tokens_of(result.usage)
    for model, usage in (result.model_usage_since_last_result or {}).items():
        tokens, cost = state.spent.get(model, (Tokens(), 0.0))
        state.spent[model] = (tokens + (tokens_of(usage) or Tokens()), cost + float(usage.cost_usd))
    turn.cost_usd = sum(cost for _, cost in state.spent.values())
    turn.attributes |= {
        "stop_reason": result.stop_reason,
        "terminal_reason": result.terminal_reason,
        "error": state.texts.of(result.error_text),
        "output": state.texts.of(result.text),
        "models": {model: {"tokens": tokens, "cost_usd": cost} for model, (tokens, cost) in state.spent.items()},
    }
    ended = result.origin.run_id if result.origin is not None else None
    if ended in state.task_of_run:
        turn.links = (state.task_of_run[ended],)


def _retry(state: State, message: APIRetryMessage, at: float | None) -> None:
    state.time(at)
    if state.turn is not None:
        state.turn.attributes["api_retries"] = state.turn.attributes.get("api_retries", 0) + 1


HANDLERS: Final[Mapping[type, Callable[[State, Any, float | None], None]]] = {
    InitMessage: _init,
    CommandLifecycleMessage: _lifecycle,
    ResultMessage: _result,
    APIRetryMessage: _retry,
}

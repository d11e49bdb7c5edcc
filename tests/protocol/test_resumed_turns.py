"""Which run the turn of an earlier process goes to, by the frames of the CLI."""

from typing import Any

from scene import OpenRun, RunEnded, TurnResumed, TurnRouter, route as route_message

from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

INIT: dict[str, Any] = {"type": "system", "subtype": "init", "cwd": "/", "session_id": "s"}


def router(*prompts: str) -> tuple[TurnRouter, OpenRun, OpenRun]:
    """A router whose run `heir` waits for the turn, and whose run `known` has some prompts."""
    turns, heir, known = TurnRouter(frozenset, lambda task_id: True), OpenRun(), OpenRun()
    turns.open_run(heir, 0.0)
    turns.open_run(known, 0.0, prompts)
    turns.expect_resumed_turn(heir, {})
    return turns, heir, known


def route(turns: TurnRouter, frame: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return route_message(turns, decode(frames.encode(frame)), 1.0), turns.settle(1.0)


def test_prompts_without_a_run_go_to_the_heir() -> None:
    turns, heir, known = router("p1")
    assert route(turns, INIT)[1] == ()  # a turn on a lost task
    route(turns, frames.result("", origin={"kind": "task-notification"}))
    runs, said = route(turns, INIT | {"user_message_uuids": ["p0"]})
    assert (runs, said) == ((heir,), (TurnResumed(heir, ("p0",), ("p0",)),))
    runs, said = route(turns, frames.result("done") | {"user_message_uuids": ["p0"], "user_message_uuid": "p0"})
    assert runs == (heir,)
    assert [(type(one), one.run, one.reason) for one in said] == [(RunEnded, heir, "result")]
    assert turns.open_runs == (known,)


def test_a_turn_without_names_is_that_of_the_prompt_that_the_cli_started() -> None:
    """So the CLI resumes a turn that was cut off once more after it had been resumed."""
    turns, heir, known = router("p1")
    lifecycle = {"type": "command_lifecycle", "command_uuid": "p0", "session_id": "s", "uuid": "u"}
    assert route(turns, lifecycle | {"state": "started"}) == ((), ())
    assert route(turns, INIT) == ((heir,), (TurnResumed(heir, ("p0",), ("p0",)),))
    runs, said = route(turns, frames.result("done", origin=None))
    assert runs == (heir,)
    assert [(type(one), one.run, one.reason) for one in said] == [(RunEnded, heir, "result")]
    assert turns.open_runs == (known,)


def test_a_turn_without_names_counts_on_from_the_turns_of_the_earlier_process() -> None:
    earlier, _, _ = router("p1")
    route(earlier, INIT | {"user_message_uuids": ["p1"]})
    route(earlier, frames.result("done") | {"user_message_uuids": ["p1"]})
    turns, _, _ = router()
    turns.turns.go_on(earlier.turns.count)
    lifecycle = {"type": "command_lifecycle", "command_uuid": "m1", "session_id": "s", "uuid": "u"}
    route(turns, lifecycle | {"state": "started"})
    route(turns, frames.assistant("Well."))
    assert turns.turns.current is not None
    assert turns.turns.current.id == "p1/2"
    turns.turns.go_on(earlier.turns.count)  # too late
    assert turns.turns.count.counted == 2


def test_a_turn_that_an_earlier_process_began_has_the_same_id_and_a_repeated_prompt_another() -> None:
    turns, _, _ = router("p1")
    begun = INIT | {"user_message_uuids": ["p1"]}
    route(turns, begun)
    assert turns.turns.current is not None
    assert turns.turns.current.id == "p1/1"
    count = turns.turns.count
    route(turns, begun)
    assert turns.turns.current.id == "p1/2"
    later, _, _ = router("p1")
    later.turns.go_on(count)
    route(later, begun)
    assert later.turns.current is not None
    assert later.turns.current.id == "p1/1"


def test_prompts_with_a_run_go_to_it() -> None:
    turns, heir, known = router("p1")
    runs, said = route(turns, INIT | {"user_message_uuids": ["p1"]})
    assert (runs, said) == ((known,), (TurnResumed(heir, ("p1",), ()),))
    assert turns.open_runs == (known,)


def test_an_idle_session_has_no_such_turn() -> None:
    turns, heir, known = router("p1")
    idle = {"type": "system", "subtype": "session_state_changed", "state": "idle", "session_id": "s"}
    assert route(turns, idle)[1] == (TurnResumed(heir, (), ()),)
    assert turns.expect_no_resumed_turn() == ()
    assert turns.open_runs == (known,)


def test_an_heir_that_was_dropped_adopts_nothing() -> None:
    turns, heir, known = router("p1")
    turns.drop_run(heir)
    assert route(turns, INIT | {"user_message_uuids": ["p0"]}) == ((), ())
    assert turns.expect_no_resumed_turn() == ()
    assert turns.open_runs == (known,)


def test_nothing_is_expected_once_the_connection_is_gone() -> None:
    turns, heir, known = router()
    assert {end.run for end in turns.close()} == {heir, known}
    assert turns.expect_no_resumed_turn() == ()

"""The router against what the real CLI said: every run ends with the right result, at the right moment.

Each recording is played as it is, and again as a CLI would have told it that does not say its state, or nothing of the
life of prompts, or does not name prompts at all.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from each import for_each
from recordings_loader import Record, as_line, names, records
from scene import FOLLOW_UP_GRACE, OpenRun, Scene, Until

from claude_agent_py.wire import decode

Frame = dict[str, Any]
Telling = Callable[[Frame], Frame | None]
"""How another CLI would have said a frame; None for not at all."""


def as_it_is(frame: Frame) -> Frame | None:
    return frame


def without_states(frame: Frame) -> Frame | None:
    return None if frame.get("subtype") == "session_state_changed" else frame


def without_life_cycles(frame: Frame) -> Frame | None:
    return None if frame["type"] == "command_lifecycle" else without_states(frame)


def without_names(frame: Frame) -> Frame | None:
    told = without_life_cycles(frame)
    return told and {key: value for key, value in told.items() if not key.startswith("user_message_uuid")}


class Played:
    """A recording, played: one run for every prompt."""

    def __init__(self, name: str, *, until: Until, telling: Telling = as_it_is) -> None:
        self.scene = Scene()
        self.scene.now = 0.0
        self.runs: dict[str, OpenRun] = {}
        self.results: list[tuple[float, Frame]] = []
        for record in records(name):
            if record.direction == "in":
                self._send(record, until)
            elif record.direction == "out":
                self._receive(record, telling)
        self.scene.wait(2 * FOLLOW_UP_GRACE)

    def _send(self, record: Record, until: Until) -> None:
        if isinstance(record.value, dict) and record.value.get("type") == "user":
            prompt = record.value.get("uuid") or f"prompt {len(self.runs)}"
            self.scene.wait(record.at - self.scene.now)
            self.runs[prompt] = self.scene.ask(prompt, until=until)

    def _receive(self, record: Record, telling: Telling) -> None:
        if record.value["type"] == "result":
            self.results.append((record.at, record.value))
        frame = telling(record.value)
        if frame is not None and not frame["type"].startswith("control_"):
            self.scene.wait(record.at - self.scene.now)
            self.scene.hear(decode(as_line(frame)))

    def own_result(self, prompt: str) -> tuple[float, Frame] | None:
        """Return the result that names the prompt."""
        return next((r for r in self.results if prompt in r[1].get("user_message_uuids", ())), None)


@cache
def played_in(name: str, until: Until, telling: Telling = as_it_is) -> Played:
    """Play a recording once for all tests that only look at how it went."""
    return Played(name, until=until, telling=telling)


def in_each(names: Iterable[str], *tellings: Telling, until: Until, check: Callable[[str, Played], None]) -> None:
    """Check all recordings as each of these CLIs would have told them."""
    cases = [(name, telling) for name in names for telling in tellings or (as_it_is,)]
    for_each(
        cases,
        lambda case: check(case[0], played_in(case[0], until, case[1])),
        name=lambda case: f"{case[0]} {case[1].__name__}",
    )


def prompts_of(name: str) -> list[Frame]:
    return [
        record.value
        for record in records(name)
        if record.direction == "in" and isinstance(record.value, dict) and record.value.get("type") == "user"
    ]


@cache
def with_uuids() -> list[str]:
    """Return the recordings in which every prompt has an id."""
    return [name for name in names() if prompts_of(name) and all("uuid" in prompt for prompt in prompts_of(name))]


def with_one_prompt() -> list[str]:
    return [name for name in with_uuids() if len(prompts_of(name)) == 1]


TAKEN_BACK = {"turns/interrupt_cancel_queued": 1, "turns/prompt_taken_back": 1}
"""The recordings in which a prompt never began, and which of them."""
TOO_MANY = "turns/many_folded"
"""One turn on 71 prompts, of which the result names 64."""


def test_there_is_something_to_test() -> None:
    assert len(with_uuids()) > 40
    assert len(with_one_prompt()) > 20


def test_every_prompt_has_its_own_result() -> None:
    def check(name: str, played: Played) -> None:
        scene = played.scene
        for number, (prompt, run) in enumerate(played.runs.items()):
            if TAKEN_BACK.get(name) == number:
                assert scene.end_of(run) == "cancelled"
                assert scene.results(run) == []
                continue
            at, own = played.own_result(prompt) or played.results[0]
            assert prompt in own["user_message_uuids"] or name == TOO_MANY
            assert scene.end_of(run) == "result"
            assert scene.results(run) == [own.get("result")]
            assert scene.ended_at[run] == at

    in_each(with_uuids(), as_it_is, without_states, until="result", check=check)


def test_names_alone_are_enough() -> None:
    def check(name: str, played: Played) -> None:
        for prompt, run in played.runs.items():
            own = played.own_result(prompt)
            assert own is not None
            assert played.scene.results(run)[-1:] == [own[1].get("result")]
            assert played.scene.ended_at[run] == own[0]

    named = [name for name in with_uuids() if name not in (*TAKEN_BACK, TOO_MANY)]
    in_each(named, without_life_cycles, until="result", check=check)


def test_until_idle_a_run_has_all_results_and_ends_soon_after_the_last() -> None:
    def check(name: str, played: Played) -> None:
        (run,) = played.runs.values()
        scene = played.scene
        assert scene.end_of(run) == "idle"
        assert scene.results(run) == [frame.get("result") for _, frame in played.results]
        last = played.results[-1][0]
        assert last <= scene.ended_at[run] <= last + FOLLOW_UP_GRACE + 0.4

    in_each(with_one_prompt(), as_it_is, without_states, without_life_cycles, without_names, until="idle", check=check)


def test_an_idle_state_ends_a_turn_without_a_grace_period() -> None:
    def check(name: str, played: Played) -> None:
        states = [r for r in records(name) if r.direction == "out" and r.value.get("state") == "idle"]
        (run,) = played.runs.values()
        assert played.scene.ended_at[run] == states[-1].at

    in_each([name for name in with_one_prompt() if name.startswith("turns/")], until="idle", check=check)


def test_until_idle_a_run_continues_through_turns_that_the_cli_starts() -> None:
    def check(name: str, played: Played) -> None:
        for number, (prompt, run) in enumerate(played.runs.items()):
            if TAKEN_BACK.get(name) == number:
                continue
            at, own = played.own_result(prompt) or played.results[0]
            over = played.scene.ended_at[run]
            injected = [frame for when, frame in played.results if at < when <= over and "origin" in frame]
            was_interrupted = str(own.get("terminal_reason")).startswith("aborted")
            assert played.scene.end_of(run) == ("result" if was_interrupted else "idle")
            assert played.scene.results(run) == [frame.get("result") for frame in [own, *injected]]

    in_each(with_uuids(), as_it_is, without_states, until="idle", check=check)


# Recordings without uuids: there, the answers come in the order of the prompts ----------------------------------


def is_a_dialogue(name: str) -> bool:
    """Return whether prompts without uuids were sent one by one, each after the result of the one before it."""
    is_open = False
    prompts = 0
    for record in records(name):
        if record.direction == "in" and isinstance(record.value, dict) and record.value.get("type") == "user":
            if is_open or "uuid" in record.value:
                return False
            is_open, prompts = True, prompts + 1
        elif record.direction == "out" and record.value["type"] == "result" and "origin" not in record.value:
            if not is_open:
                return False
            is_open = False
    return prompts > 0 and not is_open


@cache
def dialogues() -> list[str]:
    return [name for name in names() if is_a_dialogue(name)]


def test_there_are_dialogues() -> None:
    assert len(dialogues()) > 120


def test_in_a_dialogue_the_answers_come_in_order() -> None:
    def check(name: str, played: Played) -> None:
        own = [(at, frame.get("result")) for at, frame in played.results if "origin" not in frame]
        ended = [(played.scene.ended_at[run], played.scene.results(run)[-1]) for run in played.runs.values()]
        assert ended == own

    in_each(dialogues(), until="result", check=check)


def test_until_idle_no_run_ends_before_the_turns_that_its_tasks_caused() -> None:
    def check(name: str, played: Played) -> None:
        scene = played.scene
        for end in scene.ends.values():
            over = scene.ended_at[end.run]
            records = (scene.intake.ledger.records[task] for task in end.run.tasks)
            task_runs = (run for record in records for run in record.runs if run.started_at <= over)
            caused_by = {run.run_id for run in task_runs}  # a task may have been resumed later, by another run
            caused = [at for at, frame in played.results if frame.get("origin", {}).get("runId") in caused_by]
            assert max(caused, default=0.0) <= over

    in_each([*dialogues(), *with_uuids()], as_it_is, without_states, until="idle", check=check)

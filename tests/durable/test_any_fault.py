"""Whatever fails between two steps of a durable turn, and however often: each prompt is answered, and runs once."""

import json
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from toy_cli import ShakyStore, ToyCLI, World

from claude_agent_py import ClientOptions, RetryPolicy, Timeouts
from claude_agent_py.durable import Done, TurnOutcome, run_turn

FAULTS = ["killed", "CLI died", "store away", "release", "abandon"]
QUICK = RetryPolicy(attempts=100, wait=0.0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    faults=st.lists(st.tuples(st.sampled_from(FAULTS), st.integers(1, 45)), min_size=1, max_size=4),
    backend=st.sampled_from(["asyncio", "trio"]),
)
def test_each_prompt_is_answered_and_runs_once(
    faults: list[tuple[str, int]], backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / str(uuid4())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    anyio.run(partial(answer_two_prompts, faults, home), backend=backend)


async def answer_two_prompts(faults: list[tuple[str, int]], home: Path) -> None:
    world, session, left = World(), str(uuid4()), list(faults)
    options = ClientOptions(
        spawn=lambda plan: ToyCLI(world, plan),
        cli_path="claude",
        inherit_env=False,
        env={"CLAUDE_CONFIG_DIR": str(home)},
        timeouts=Timeouts(close=5.0),
    )

    async def call(text: str, prompt: str) -> TurnOutcome | None:
        world.begin(*(left.pop(0) if left else ("nothing", 0)))
        store: Any = ShakyStore(world)
        with world.scope:
            return await run_turn(
                options, store=store, session_id=session, prompt_id=prompt, prompt=text, stop=world.stop, retry=QUICK
            )
        return None

    texts = ["pay the first", "pay the second"]
    with anyio.fail_after(100):
        for text in texts:
            prompt, outcome = str(uuid4()), None
            for _ in range(20):
                outcome = await call(text, prompt)
                if outcome is not None and outcome.kind not in ("later", "lost"):
                    break
            assert isinstance(outcome, Done), (outcome, faults)
            assert outcome.text == f"done: {text}"
    assert world.ran == texts
    entries: Any = await world.store.load({"project_key": "durable", "session_id": session})
    prompts = [entry["message"]["content"] for entry in entries if entry.get("promptSource") == "sdk"]
    assert prompts == texts, json.dumps(entries, indent=1)

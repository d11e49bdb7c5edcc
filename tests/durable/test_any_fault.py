"""Whatever fails between two steps of a durable turn, and however often: each prompt is answered, and runs once."""

import json
import tempfile
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from toy_cli import ShakyStore, ToyCLI, World

from claude_agent_py import Allow, ClientOptions, RetryPolicy, Timeouts
from claude_agent_py.durable import Done, MemoryDesk, TurnOutcome, TurnStop, run_turn

FAULTS = ["killed", "CLI died", "store away", "release", "abandon", "called again"]
QUICK = RetryPolicy(attempts=100, wait=0.0)


class Turns(RuleBasedStateMachine):
    """A session, whose prompts are run by calls in which anything fails at any step."""

    @initialize(backend=st.sampled_from(["asyncio", "trio"]))
    def begin(self, backend: str) -> None:
        self.backend = backend
        self.folder = tempfile.TemporaryDirectory()
        self.tempdir, tempfile.tempdir = tempfile.tempdir, self.folder.name
        self.world = World()
        self.desk = MemoryDesk()
        self.session = str(uuid4())
        self.prompts: dict[str, str] = {}
        self.is_open = False
        self.options = ClientOptions(
            spawn=lambda plan: ToyCLI(self.world, plan),
            cli_path="claude",
            inherit_env=False,
            env={"CLAUDE_CONFIG_DIR": f"{self.folder.name}/home"},
            timeouts=Timeouts(close=5.0),
        )

    @precondition(lambda self: not self.is_open)
    @rule(asks=st.booleans())
    def send(self, asks: bool) -> None:
        """Send the next prompt, whose command needs the permission of a person or not."""
        self.prompt, self.text = str(uuid4()), f"{'ask and ' if asks else ''}pay {len(self.prompts)}"
        self.prompts[self.prompt] = self.text
        self.is_open = True

    @precondition(lambda self: self.is_open)
    @rule(fault=st.sampled_from(FAULTS), after=st.integers(1, 45))
    def call(self, fault: str, after: int) -> None:
        """Call `run_turn`. Something fails after some steps."""
        anyio.run(self.run_once, fault, after, backend=self.backend)

    @rule()
    def answer(self) -> None:
        """Answer the open questions."""
        for each in anyio.run(self.desk.pending, backend=self.backend):
            self.desk.answer(each.question.key, Allow())

    async def run_once(self, fault: str, after: int) -> None:
        self.world.begin(fault, after)
        store: Any = ShakyStore(self.world)
        run = partial(
            run_turn,
            self.options,
            store=store,
            session_id=self.session,
            prompt_id=self.prompt,
            prompt=self.text,
            desk=self.desk,
            patience=0.0,
            retry=QUICK,
        )
        outcomes: list[TurnOutcome] = []

        async def run_in(scope: anyio.CancelScope, stop: TurnStop) -> None:
            with scope:
                outcomes.append(await run(stop=stop))
            self.world.is_called_again.set()

        with anyio.fail_after(100):
            async with anyio.create_task_group() as group:
                self.world.is_called_again = anyio.Event()
                group.start_soon(run_in, self.world.scope, self.world.stop)
                await self.world.is_called_again.wait()
                if fault == "called again":
                    group.start_soon(run_in, anyio.CancelScope(), TurnStop())
        for outcome in outcomes:
            if outcome.kind not in ("later", "lost", "waiting"):
                assert isinstance(outcome, Done), outcome
                assert outcome.text == f"done: {self.text}"
                self.is_open = False

    def teardown(self) -> None:
        """Let nothing fail any more, and look at what was done."""
        try:
            for _ in range(20):
                if self.is_open:
                    self.answer()
                    anyio.run(self.run_once, "nothing", 0, backend=self.backend)
            self.check()
        finally:
            tempfile.tempdir = self.tempdir
            self.folder.cleanup()

    def check(self) -> None:
        assert not self.is_open
        texts = list(self.prompts.values())
        assert self.world.ran == texts
        key: Any = {"project_key": "durable", "session_id": self.session}
        entries: Any = self.world.store.entries(key) if texts else ()
        found = [entry["message"]["content"] for entry in entries if entry.get("promptSource") == "sdk"]
        assert found == texts, json.dumps(entries, indent=1)


TestTurns = Turns.TestCase
TestTurns.settings = settings(suppress_health_check=[HealthCheck.too_slow], stateful_step_count=12, deadline=None)

"""Whatever fails between two steps of a durable turn, and however often: each prompt is answered, and runs once.

A person may also interrupt it at any step: then it ends, unless that comes too late, and runs once or not at all.
"""

import json
import tempfile
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from toy_cli import ShakyDesk, ShakyStore, ToyCLI, World

from claude_agent_py import Allow, ClientOptions, RetryPolicy, Timeouts
from claude_agent_py.durable import Done, Interrupted, MemoryDesk, TurnOutcome, TurnStop, run_turn

FAULTS = ["killed", "CLI died", "store away", "desk away", "release", "abandon", "called again"]
QUICK = RetryPolicy(attempts=100, wait=0.0)


class Turns(RuleBasedStateMachine):
    """A session, whose prompts are run by calls in which anything fails at any step."""

    @initialize(backend=st.sampled_from(["asyncio", "trio"]))
    def begin(self, backend: str) -> None:
        self.backend = backend
        self.folder = tempfile.TemporaryDirectory()
        self.tempdir, tempfile.tempdir = tempfile.tempdir, self.folder.name
        self.world = World()
        self.desk = MemoryDesk()  # of the current prompt
        self.session = str(uuid4())
        self.prompts: dict[str, str] = {}
        self.interrupted: dict[str, bool] = {}
        """The prompts that were interrupted, and whether their command had run by then."""
        self.is_open = self.is_unwanted = False
        self.options = ClientOptions(
            spawn=lambda plan: ToyCLI(self.world, plan),
            cli_path="claude",
            inherit_env=False,
            env={"CLAUDE_CONFIG_DIR": f"{self.folder.name}/home"},
            timeouts=Timeouts(close=5.0),
        )

    # What a rule does must not decide which rules can follow: threads make the outcome of a call a matter of chance.

    @rule(asks=st.booleans(), fault=st.sampled_from(FAULTS), after=st.integers(1, 45))
    def call(self, asks: bool, fault: str, after: int) -> None:
        """Call `run_turn`. Something fails after some steps."""
        self.send(asks)
        anyio.run(self.run_once, fault, after, 0, backend=self.backend)

    @rule(
        asks=st.booleans(),
        interrupt=st.integers(1, 45),
        fault=st.sampled_from(["nothing", *FAULTS]),
        later=st.integers(1, 10),
    )
    def interrupt(self, asks: bool, interrupt: int, fault: str, later: int) -> None:
        """Call `run_turn`. A person interrupts it after some steps, and something may fail a little later."""
        self.send(asks)
        anyio.run(self.run_once, fault, interrupt + later, interrupt, backend=self.backend)

    def send(self, asks: bool) -> None:
        """Send the next prompt, whose command needs the permission of a person or not, once the last one has ended."""
        if not self.is_open:
            self.prompt, self.text = str(uuid4()), f"{'ask and ' if asks else ''}pay {len(self.prompts)}"
            self.prompts[self.prompt] = self.text
            self.desk = MemoryDesk()
            self.is_open, self.is_unwanted = True, False

    @rule()
    def answer(self) -> None:
        """Answer the open questions."""
        for each in anyio.run(self.desk.pending, backend=self.backend):
            self.desk.answer(each.question.key, Allow())

    async def run_once(self, fault: str, after: int, interrupt: int) -> None:
        self.world.begin(fault, after, interrupt)
        store: Any = ShakyStore(self.world)
        desk: Any = ShakyDesk(self.world, self.desk)
        run = partial(
            run_turn,
            self.options,
            store=store,
            session_id=self.session,
            prompt_id=self.prompt,
            prompt=self.text,
            desk=desk,
            patience=60.0 if interrupt else 0.0,
            retry=QUICK,
        )
        outcomes: list[TurnOutcome] = []

        async def run_in(scope: anyio.CancelScope, stop: TurnStop) -> None:
            if self.is_unwanted:  # an engine repeats the wish
                stop.interrupt()
            with scope:
                outcomes.append(await run(stop=stop))
            self.world.is_called_again.set()

        with anyio.fail_after(100):
            async with anyio.create_task_group() as group:
                self.world.is_called_again = anyio.Event()
                group.start_soon(run_in, self.world.scope, self.world.stop)
                await self.world.is_called_again.wait()
                self.is_unwanted |= interrupt > 0 and self.world.left_to_interrupt <= 0
                if fault == "called again":
                    group.start_soon(run_in, anyio.CancelScope(), TurnStop())
        if self.world.is_dead:
            outcomes.clear()
        ends = [outcome for outcome in outcomes if outcome.kind not in ("later", "lost", "waiting")]
        for outcome in ends:
            assert outcome.kind == ends[0].kind, ends
            if self.is_unwanted and isinstance(outcome, Interrupted):
                self.interrupted[self.text] = self.text in self.world.ran
            else:
                assert isinstance(outcome, Done), outcome
                assert outcome.text == f"done: {self.text}"
            assert fault == "desk away" or await self.desk.pending() == []
            self.is_open = False
        assert not (self.is_open and self.is_unwanted and fault == "nothing" and interrupt), "it was not interrupted"

    def teardown(self) -> None:
        """Let nothing fail any more, and look at what was done."""
        try:
            for _ in range(20):
                if self.is_open:
                    self.answer()
                    anyio.run(self.run_once, "nothing", 0, 0, backend=self.backend)
            self.check()
        finally:
            tempfile.tempdir = self.tempdir
            self.folder.cleanup()

    def check(self) -> None:
        assert not self.is_open
        texts = list(self.prompts.values())
        assert self.world.ran == [text for text in texts if self.interrupted.get(text, True)]
        key: Any = {"project_key": "durable", "session_id": self.session}
        entries: Any = self.world.store.entries(key) if texts else ()
        found = [entry["message"]["content"] for entry in entries if entry.get("promptSource") == "sdk"]
        sent = [text for text in texts if text in found or text not in self.interrupted]
        assert found == sent, json.dumps(entries, indent=1)


TestTurns = Turns.TestCase
TestTurns.settings = settings(suppress_health_check=[HealthCheck.too_slow], stateful_step_count=12, deadline=None)

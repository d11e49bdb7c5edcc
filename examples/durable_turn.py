"""Run a prompt as a durable turn: it asks a person without a process, and a repeated call runs nothing twice."""

from uuid import uuid4

import anyio
from offline import offline

from claude_agent_py import Allow, ClientOptions
from claude_agent_py.durable import Done, MemoryDesk, TurnOutcome, Waiting, run_turn
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import Reply, tool_use


async def main() -> None:
    store, desk = SQLiteStore("sessions.db"), MemoryDesk()
    session_id, prompt_id = str(uuid4()), str(uuid4())  # store them first: they are what you call again with

    async def call() -> TurnOutcome:
        return await run_turn(
            ClientOptions(permission_mode="default"),
            store=store,
            session_id=session_id,
            prompt_id=prompt_id,
            prompt="Review auth",
            desk=desk,
            patience=0.2,
        )

    outcome = await call()
    if isinstance(outcome, Waiting):  # no process runs now; the answer may arrive next week
        for question in outcome.questions:
            print("it asks:", question.summary)
            desk.answer(question.key, Allow())
    for outcome in (await call(), await call()):  # the second call finds the answer in the store
        if isinstance(outcome, Done):
            print(outcome.text, "(recovered)" if outcome.is_recovered else f"({outcome.num_turns} turns)")
    store.close()


SCRIPT = [
    Reply(tool_use("Bash", {"command": "touch reviewed", "description": "Mark it"})),
    Reply(tool_use("Bash", {"command": "touch reviewed", "description": "Mark it"})),
    "Auth is sound.",
]

if __name__ == "__main__":
    with offline(SCRIPT):
        anyio.run(main)

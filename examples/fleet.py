"""Run durable sessions in a fleet; a question waits without a process."""

from datetime import timedelta

import anyio
from offline import offline

from claude_agent_py import Allow, ClientOptions
from claude_agent_py.fleet import Copy, Fleet
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import Reply, tool_use


async def main() -> None:
    async with Fleet("sqlite:///fleet.db", store=SQLiteStore("sessions.db"), poll=0.1) as fleet:
        fleet.agent("reviewer", ClientOptions(permission_mode="default"), workspace=Copy(), patience=0.2)

        # From anywhere: a web server, a cron job, a shell. No worker has to live yet.
        await fleet.tenant("acme", limit=2, weight=3)  # in the database, for all workers
        session = await fleet.start("reviewer", "Review auth", id="pr-17", tenant="acme")

        async with fleet.worker(sessions=4, folder="workspaces"):  # on each machine, in a separate process
            async for event in session.events(follow=True):
                if event.kind == "interaction" and event.data["state"] == "pending":
                    print("it asks:", event.data["request"]["tool_name"])
                if event.kind == "state" and event.data["state"] == "waiting":
                    break  # no process runs now; the answer may arrive next week
            [question] = await session.interactions()
            await session.answer(question.id, Allow(), by="Ada")
            print((await session.result()).text)

            again = await fleet.start("reviewer", "Review auth", id="pr-17")  # is there: nothing is started
            number = await again.send("and billing")
            outcome = await again.result(number)
            print(f"{outcome.run}: {outcome.text}")
        info = await session.info()
        print(info.state, "after", info.runs, "prompts")
        print("deleted:", await fleet.prune(timedelta(seconds=0)))  # automatic in workers: Fleet(retention=...)


SCRIPT = [
    Reply(tool_use("Bash", {"command": "touch reviewed", "description": "Mark it"})),
    Reply(tool_use("Bash", {"command": "touch reviewed", "description": "Mark it"})),
    "Auth is sound.",
    "Billing should use decimals.",
]

if __name__ == "__main__":
    with offline(SCRIPT):
        anyio.run(main)

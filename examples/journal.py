"""Follow the journal of a session: numbered facts, as JSON Lines in a file, and the same from the transcript."""

from collections import Counter
from collections.abc import Iterable

import anyio
from anyio import to_thread
from offline import offline

from claude_agent_py import Client, ClientOptions
from claude_agent_py.journal import CallEnded, Fact, TurnEnded, decode_fact, encode_fact
from claude_agent_py.sessions import get_session
from claude_agent_py.testing import tool_use


async def main() -> None:
    async with Client(ClientOptions(allowed_tools=["Bash"])) as client:
        facts = client.journal()
        result = await client.query("Run the tests")

    async with await anyio.open_file("journal.jsonl", "wb") as file:
        async for fact in facts:  # ends with the session
            await file.write(encode_fact(fact) + b"\n")
            if isinstance(fact, TurnEnded):
                print("turn:", fact.status, "for some dollars" if fact.cost_usd else "for free")

    lines = await anyio.Path("journal.jsonl").read_bytes()
    live = [decode_fact(line) for line in lines.splitlines()]
    stored = await to_thread.run_sync(lambda: list(get_session(result.session_id).journal()))
    print("numbered:", [fact.number for fact in live] == list(range(1, len(live) + 1)))
    print("turns:", Counter(fact.fact for fact in live)["turn_started"])
    print("calls:", [(fact.call.name, str(fact.status)) for fact in live if isinstance(fact, CallEnded)])
    print("the same calls on disk:", calls(live) == calls(stored))


def calls(facts: Iterable[Fact]) -> set[str]:
    return {fact.id for fact in facts if isinstance(fact, CallEnded)}


if __name__ == "__main__":
    with offline([tool_use("Bash", {"command": "touch tested && exit 3"}), "They fail."]):
        anyio.run(main)

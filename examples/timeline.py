"""Draw the timeline of a session: spans, totals, and a page for the browser or another viewer."""

import anyio
from anyio import to_thread
from offline import offline

from claude_agent_py import Allow, Client, ClientOptions
from claude_agent_py.observe import Timeline, watch
from claude_agent_py.sessions import get_session
from claude_agent_py.testing import tool_use

PROMPT = "Have an agent review auth in the background, and run the tests meanwhile."


async def main() -> None:
    options = ClientOptions(can_use_tool=lambda request, context: Allow())
    async with Client(options) as client:
        with watch(client) as watched:  # hooks, questions and all times, from now on
            result = await client.query(PROMPT, until="idle")

    timeline = watched.timeline("Review of auth")
    await to_thread.run_sync(timeline.save, "review.html")  # one file; open it in a browser
    await to_thread.run_sync(timeline.save, "review.json")  # for https://ui.perfetto.dev

    for span in timeline.spans:
        if span.kind in ("tool", "waiting", "subagent"):
            print(f"{span.kind:8} {span.name}: {span.status}" + (", in the background" if span.is_background else ""))
    summary = timeline.summary
    print("model calls by agent:", {summary.names[agent]: used.calls for agent, used in summary.by_agent.items()})
    print("failed:", [span.attributes["input"] for span in summary.failed])
    print("it cost something:", bool(summary.cost_usd))

    alone = result.timeline()  # without a watch: only from the run's messages
    print("waiting for people:", alone.summary.counts.get("waiting", 0), "instead of", summary.counts["waiting"])
    stored = await to_thread.run_sync(lambda: Timeline.from_session(get_session(result.session_id)))
    print("the same calls on disk:", calls(stored) == calls(timeline) == calls(alone))


def calls(timeline: Timeline) -> set[str]:
    return {span.id for span in timeline.spans if span.kind == "tool"}


REVIEW = {"description": "Review auth", "prompt": "Review auth", "subagent_type": "general-purpose"}

if __name__ == "__main__":
    with offline(
        [[tool_use("Agent", REVIEW), tool_use("Bash", {"command": "touch tested && exit 3"})], "It is under way."],
        agents={"Review auth": "auth is sound."},
        on_exhausted="auth is sound, but the tests fail.",
    ):
        anyio.run(main)

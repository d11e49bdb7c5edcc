"""Delegation: tell the model when to use which agent, limit how much of a report it reads, and remind an agent."""

import anyio
from offline import offline

from claude_agent_py import AgentDefinition, Client, ClientOptions
from claude_agent_py.agents import DelegationGuide
from claude_agent_py.testing import RecordedRequest, Reply, ToolCall, text, tool_use

REVIEWER = AgentDefinition(
    description="Reviews a change for mistakes. Use it after every change of more than a few lines.",
    prompt="You review changes. Report mistakes with file and line, the gravest first.",
    tools=["Read", "Bash"],
    critical_system_reminder="Change nothing.",  # it reads this at its start and after each of its tool calls
)

GUIDE = DelegationGuide(
    max_report_chars=200,
    examples=['"Where is parse() defined?": search yourself.', '"Who relies on parse(), and for what?": Explore.'],
)


async def main() -> None:
    options = ClientOptions(
        agents={"reviewer": REVIEWER},
        delegation_guide=GUIDE,
        allowed_tools=["Bash"],
    )
    async with Client(options) as client:
        result = await client.query("Have the change reviewed, and find who relies on parse().", until="idle")
        for call in result.tool_calls:
            if call.name == "Agent" and "The report follows:" in call.text:  # of an agent in the foreground
                read = call.text.partition("The report follows:")[2].partition("agentId:")[0]
                print(f"the model reads of the {call.input['subagent_type']}:", " ".join(read.split()))
        for agent in sorted(result.agents, key=lambda agent: agent.name):
            print(f"{agent.name}: {len(agent.report())} characters, {agent.report()[:30]!r} ...")
        print(result.text)


# The scripted model's answers --------------------------------------------------------------------------------------


def agent(name: str, prompt: str, *, background: bool) -> ToolCall:
    call = {"description": prompt, "prompt": prompt, "subagent_type": name, "run_in_background": background}
    return tool_use("Agent", call)


def lead(request: RecordedRequest) -> Reply | str:
    if "# Delegating" not in request.system or not request.contains("| general-purpose |"):
        return "Nobody told me of agents."
    if len(request.messages) > 2:
        return "The change is sound, and forty places rely on parse()."
    return Reply(
        [
            agent("reviewer", "Review it", background=False),
            agent("Explore", "Find who relies on it", background=True),
        ]
    )


def review(request: RecordedRequest) -> Reply | str:
    if not request.tool_results:
        return Reply([text("I look."), tool_use("Bash", {"command": "echo diff"})])
    reminded = str(request.messages).count("Change nothing.")
    return f"I was reminded {reminded} times. " + "This line is sound. " * 40


if __name__ == "__main__":
    with offline(
        lead,
        agents={
            "Review it": review,
            "Find who relies on it": [
                "This place relies on it. " * 40,
                "Forty places rely on it.",
            ],  # asked to shorten it
        },
    ):
        anyio.run(main)

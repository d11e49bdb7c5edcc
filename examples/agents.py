"""Subagents: define them in code and in a file, mention them in the system prompt, and follow their work."""

import anyio
from offline import offline

from claude_agent_py import AgentDefinition, AssistantMessage, Client, ClientOptions
from claude_agent_py.agents import DelegationGuide
from claude_agent_py.testing import Reply, ToolCall, text, tool_use

REVIEWER = AgentDefinition(
    description="Reviews a change for mistakes. Use it after every change of more than a few lines.",
    prompt="You review changes. Report mistakes with file and line, the gravest first.",
    tools=["Read", "Grep", "Glob"],
    max_turns=20,
)

TESTER = AgentDefinition(
    description="Runs tests and builds. Use it if the output is long and only the outcome matters.",
    prompt="You run commands. Report each exit status, and the lines that show the reason of a failure.",
    tools=["Bash", "Read"],
    model="haiku",
)

WRITER = """\
---
name: writer
description: Writes release notes.
---

You write for people who use the program.
"""


async def main() -> None:
    # The CLI also reads agents from files. `agents.load_agents` reads them here, `to_markdown` writes them (PyYAML).
    folder = anyio.Path(".claude/agents")
    await folder.mkdir(parents=True)
    await folder.joinpath("writer.md").write_text(WRITER)

    options = ClientOptions(
        agents={"reviewer": REVIEWER, "tester": TESTER},
        delegation_guide=DelegationGuide(max_report_chars=2000),
        max_subagent_depth=1,  # agents start no agents
        allowed_tools=["Bash"],
    )
    async with Client(options) as client:
        mine = {"reviewer", "tester", "writer"}
        print("offered:", sorted(agent.name for agent in client.info.agents or () if agent.name in mine))

        run = client.query("Have the change reviewed and the tests run, then the notes written.", until="idle")
        async for message in run:
            task = client.tasks.get(getattr(message, "agent_id", None))
            if task is not None and isinstance(message, AssistantMessage) and message.text:
                print(f"{task.subagent_type}: {message.text}")

        for agent in run.agents:
            origin = "in a file" if agent.definition is None else "in code"
            print(f"{agent.name} ({origin}): {agent.status}, {len(agent.messages)} messages, {agent.report()!r}")
        result = await run
        for refused in result.refused_agents:
            print(f"refused: {refused.input['subagent_type']}: {refused.text}")
        print(result.text)


def agent(name: str, prompt: str) -> ToolCall:
    return tool_use("Agent", {"description": prompt, "prompt": prompt, "subagent_type": name})


if __name__ == "__main__":
    with offline(
        [
            Reply([agent("reviewer", "Review the change"), agent("tester", "Run the tests"), agent("poet", "Write")]),
            "They are at work.",
            "All is well.",
            "All is well.",
        ],
        agents={
            "Review the change": "Nothing is wrong with it.",
            "Run the tests": [[text("I run them."), tool_use("Bash", {"command": "echo 12 passed"})], "12 passed."],
        },
    ):
        anyio.run(main)

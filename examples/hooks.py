"""Hooks: deny a command, observe subagents stop, and delay the end until the work is checked."""

import anyio
from offline import offline

from claude_agent_py import AgentDefinition, Client, ClientOptions, HookContext, Hooks
from claude_agent_py.hooks import PreToolUseInput, PreToolUseOutput, StopInput, StopOutput, SubagentStopInput
from claude_agent_py.testing import Reply, text, tool_use
from claude_agent_py.tools import BashInput

hooks = Hooks()


@hooks.pre_tool_use("Bash")
async def guard(input: PreToolUseInput, context: HookContext) -> PreToolUseOutput | None:
    match input.typed_input():
        case BashInput(command=command) if command.startswith("rm "):
            print(f"denied: {command}")
            return PreToolUseOutput(permission_decision="deny", permission_decision_reason="Nothing is deleted here.")
    return None


@hooks.subagent_stop
def told(input: SubagentStopInput, context: HookContext) -> None:
    print(f"{input.agent_type} says: {input.last_assistant_message}")


@hooks.stop
def check(input: StopInput, context: HookContext) -> StopOutput | None:
    if input.stop_hook_active:
        return None
    return StopOutput(decision="block", reason="Check once more that nothing is missing.")


async def main() -> None:
    options = ClientOptions(
        hooks=hooks,
        agents={"reviewer": AgentDefinition(description="Reviews", prompt="You review.")},
        permission_mode="bypassPermissions",
    )
    async with Client(options) as client:
        result = await client.query("Tidy up and have it reviewed")
        print(result.text)


SCRIPT = [
    Reply(tool_use("Bash", {"command": "rm -rf build", "description": "Delete the build"})),
    Reply(
        tool_use(
            "Agent",
            {
                "description": "Review",
                "prompt": "Review it",
                "subagent_type": "reviewer",
                "run_in_background": False,
            },
        )
    ),
    text("Done."),
    text("Checked: nothing is missing."),
]

if __name__ == "__main__":
    with offline(SCRIPT, agents={"Review it": [text("it looks good")]}):
        anyio.run(main)

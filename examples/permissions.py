"""Permissions: policies that decide by rule, and a handler for everything else."""

from pathlib import Path

import anyio
from offline import offline

from claude_agent_py import Allow, Client, ClientOptions, Deny, PermissionContext, PermissionRequest, read_only, within
from claude_agent_py.permissions import AddRules, PermissionRuleValue, ask, bash_commands, first_of
from claude_agent_py.testing import Reply, text, tool_use
from claude_agent_py.tools import BashInput


def decide(request: PermissionRequest, context: PermissionContext) -> Allow | Deny:
    """Decide in place of a person. A decision may also change the rules."""
    if not isinstance(request.input, BashInput):
        return Deny("Only commands, please.")
    print(f"asked: {request.input.command}")
    if "curl" in request.input.command:
        return Deny("Stay offline.")
    rule = PermissionRuleValue.parse("Bash(touch *)")
    return Allow(updated_permissions=[AddRules(rules=[rule], behavior="allow", destination="session")])


async def main() -> None:
    policy = first_of(
        read_only(),
        within(Path.cwd()),
        bash_commands(allow=["git status", "echo *"]),
        ask(decide),
    )
    options = ClientOptions(can_use_tool=policy, permission_mode="default")
    async with Client(options) as client:
        result = await client.query("Set up the project")
        for denial in result.permission_denials:
            print(f"denied: {denial.tool_name} {denial.tool_input}")
        print(result.text)


def shell(command: str) -> Reply:
    return Reply(tool_use("Bash", {"command": command, "description": "Run it"}))


SCRIPT = [
    shell("touch one"),
    shell("touch two"),
    shell("curl https://example.com"),
    Reply(tool_use("Write", {"file_path": "/etc/hello.txt", "content": "hello"})),
    text("Two files are there."),
]

if __name__ == "__main__":
    with offline(SCRIPT):
        anyio.run(main)

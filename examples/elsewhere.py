"""Start the CLI through another program: with lower priority here, or in a container.

`python examples/elsewhere.py --live my-container` runs it in a Docker container that has the `claude` program.
"""

import os
import sys
from dataclasses import replace

import anyio
from offline import offline

from claude_agent_py import Client, ClientOptions
from claude_agent_py.testing import tool_use
from claude_agent_py.transport import LaunchPlan, SubprocessTransport

WRITE = 'mkdir -p -m 700 "$(dirname "$1")" && umask 077 && cat > "$1"'


def nicely(plan: LaunchPlan) -> SubprocessTransport:
    """Start the CLI on this machine, below `nice`."""
    return SubprocessTransport(replace(plan, argv=["nice", "-n", "7", *plan.argv]))


class DockerExec(SubprocessTransport):
    """Starts the CLI in a running container."""

    def __init__(self, plan: LaunchPlan, container: str) -> None:
        where = ["--workdir", plan.cwd.as_posix()] if plan.cwd else []
        names = [part for name in plan.env for part in ("--env", name)]  # docker reads their values from `env`
        argv = ["docker", "exec", "--interactive", *where, *names, container, *plan.argv]
        super().__init__(replace(plan, argv=argv, env={**os.environ, **plan.env}, cwd=None))
        self._container = container
        self._files = plan.files

    async def start(self) -> None:
        """Write the files of the plan into the container, and start the CLI there."""
        for path, text in self._files.items():
            write = ["docker", "exec", "--interactive", self._container, "sh", "-c", WRITE, "sh", path.as_posix()]
            await anyio.run_process(write, input=text.encode())
        await super().start()


def options(container: str | None) -> ClientOptions:
    if container is None:
        return ClientOptions(spawn=nicely, allowed_tools=["Bash(nice)"])
    return ClientOptions(
        spawn=lambda plan: DockerExec(plan, container),
        cli_path="claude",  # on the PATH of the container
        inherit_env=False,  # the variables of this machine mean nothing there
        env={"ANTHROPIC_API_KEY": os.environ["ANTHROPIC_API_KEY"]},
        cwd="/tmp",
        allowed_tools=["Bash(nice)"],
    )


async def main(container: str | None = None) -> None:
    async with Client(options(container)) as client:
        result = await client.query("Call `nice` to see the priority that your commands run with.")
        print("the CLI's niceness:", result.tool_calls[0].text)
        print(result.text)


SCRIPT = [tool_use("Bash", {"command": "nice"}), "That is all."]

if __name__ == "__main__":
    containers = [name for name in sys.argv[1:] if name != "--live"]
    with offline(SCRIPT):
        anyio.run(main, containers[0] if containers else None)

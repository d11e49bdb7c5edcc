"""Starting the CLI. Imports only what that needs, so that the rest of the package loads while the CLI starts."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from claude_agent_py._errors import OptionsError
from claude_agent_py._launch.locate import find_cli
from claude_agent_py._launch.plan import LaunchPlan, plan_launch
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.transport import SubprocessTransport, Transport
from claude_agent_py.transport.subprocess import FORCE

FORCE_SHARE: Final = 0.5
"""The largest part of `Timeouts.close` that killing the CLI may take."""


@dataclass(frozen=True)
class Launched:
    """A CLI that has been started but not initialized."""

    plan: LaunchPlan
    transport: Transport
    cli_path: Path | None
    """The path of the program; None with a custom transport."""

    async def discard(self) -> None:
        """Kill it; shielded from cancellation."""
        with anyio.CancelScope(shield=True):
            await self.transport.close(grace=0.0)
        self.plan.clean_up()


def force_of(options: ClientOptions) -> float:
    """Return how many seconds killing the CLI may take."""
    return min(FORCE, options.timeouts.close * FORCE_SHARE)


def _plan(options: ClientOptions, cli: Path) -> LaunchPlan:
    try:
        return plan_launch(options, cli=cli)
    except OptionsError as error:
        problem = error.with_traceback(None)  # its frames hold settings and server configurations
    raise problem


async def launch(
    options: ClientOptions, transport: Transport | None, *, on_stderr: Callable[[str], None] | None = None
) -> Launched:
    """Start the CLI, or a custom transport. An error or a cancellation leaves no process behind.

    `on_stderr` is called with every line of stderr.

    Raises:
        OptionsError: An option cannot be applied.
        CLINotFoundError: The `claude` program was not found.
        CLIStartError: The program cannot be started.
    """
    cli = find_cli(options.cli_path) if transport is None else None
    plan = _plan(options, cli or Path("claude"))
    if transport is None:
        plan.prepare()
        transport = SubprocessTransport(
            plan.argv,
            env=plan.env,
            cwd=plan.cwd,
            user=plan.user,
            force=force_of(options),
            stderr_bytes=options.limits.stderr_bytes,
            on_stderr=on_stderr,
        )
    elif transport.on_stderr is None:
        transport.on_stderr = on_stderr
    launched = Launched(plan, transport, cli)
    try:
        await transport.start()
    except BaseException:
        await launched.discard()
        raise
    plan.forget_environment()
    return launched

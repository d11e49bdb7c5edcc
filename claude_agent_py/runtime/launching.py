"""Starting the CLI: the first thing that a session does, before its own parts are loaded.

The CLI takes longer to start than the rest of this package takes to load, so the two go side by side. That is why this
module imports nothing but what starting needs. What happens once the CLI runs is the business of `session.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from claude_agent_py.errors import OptionsError
from claude_agent_py.launch.locate import find_cli
from claude_agent_py.launch.plan import LaunchPlan, plan_launch
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.transport import SubprocessTransport, Transport
from claude_agent_py.transport.subprocess import FORCE

FORCE_SHARE: Final = 0.5
"""The most of `Timeouts.close` that ending the CLI by force may take."""


@dataclass(frozen=True)
class Launched:
    """A CLI that has been started and not been spoken to."""

    plan: LaunchPlan
    transport: Transport
    cli_path: Path | None
    """The program; None where a transport of the user's stands in for it."""

    async def discard(self) -> None:
        """End it at once; shielded from cancellation."""
        with anyio.CancelScope(shield=True):
            await self.transport.close(grace=0.0)
        self.plan.clean_up()


def force_of(options: ClientOptions) -> float:
    """Return how long ending the CLI by force may take, in seconds."""
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
    """Start the CLI, or the transport that stands in for it. After an error or a cancellation nothing is left behind.

    `on_stderr` is called with every line of stderr, once the transport is run.

    Raises:
        OptionsError: An option cannot be put into effect.
        CLINotFoundError: There is no `claude`.
        CLIStartError: The system cannot start it.
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

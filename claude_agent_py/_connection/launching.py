"""Starting the CLI. Imports only what that needs, so that the rest of the package loads while the CLI starts."""

import os
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._base.configuration import Unshown
from claude_agent_py._base.errors import CLIStartError, OptionsError
from claude_agent_py._base.event_loop import run_to_its_end
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.planner import plan_launch
from claude_agent_py.options.table import options_of_the_start
from claude_agent_py.options.variables import config_directory, environment
from claude_agent_py.transport import SubprocessTransport, Transport
from claude_agent_py.transport.launch_plan import LaunchPlan
from claude_agent_py.transport.locate import PROGRAM, find_cli


class Launched(NamedTuple):
    """A CLI that has been started but not initialized."""

    plan: LaunchPlan
    transport: Transport
    cli_path: Path | None
    """The path of the program; None if it is not on this machine, or unknown."""
    follows_plan: bool
    """Whether it was started from the plan; not with a ready-made transport."""

    @property
    def is_forked(self) -> bool:
        """Whether `os.fork` has copied it into another process."""
        return self.plan.owner != os.getpid()

    async def discard(self) -> None:
        """Kill it, however often the caller is cancelled."""
        await run_to_its_end(self._kill, name="claude_agent_py kill")

    async def _kill(self) -> None:
        await self.transport.close(grace=0.0)
        self.plan.clean_up()


def _plan(options: ClientOptions, cli: Path) -> LaunchPlan:
    try:
        return plan_launch(options, cli=cli)
    except OptionsError as error:
        problem = error.with_traceback(None)  # its frames hold settings and server configurations
    raise problem


class _FilesOf(Mapping[Path, str]):
    """The files in a folder, read when they are asked for. Links are left out."""

    def __init__(self, folder: str) -> None:
        found = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
        self._paths = sorted(path for path in found if not path.is_symlink())

    def __getitem__(self, path: Path) -> str:
        if path not in self._paths:
            raise KeyError(path)
        return path.read_text(encoding="utf-8", errors="replace")

    def __iter__(self) -> Iterator[Path]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def _spawn(options: ClientOptions, plan: LaunchPlan, made_folder: str | None) -> Transport:
    """Write the files of a plan, and return the transport of its process, not started yet.

    `made_folder` is the configuration folder that was made for this session; the CLI also needs its files.
    """
    plan.prepare()
    if options.spawn is None:
        return SubprocessTransport(plan)
    try:
        if made_folder is not None:
            all_files: ChainMap[Path, str] = ChainMap(dict(plan.files), cast("Any", _FilesOf(made_folder)))
            return check_transport(options.spawn(replace(plan, files=all_files)), option="spawn")
        return check_transport(options.spawn(plan), option="spawn")
    except BaseException:
        plan.clean_up()
        raise


def check_transport(transport: object, *, option: str) -> Transport:
    """Refuse an object that is not a transport.

    Raises:
        OptionsError: It is not.
    """
    if not hasattr(transport, "receive"):
        raise OptionsError(f"a Transport is expected, not {transport!r}", option=option)
    return cast(Transport, transport)


def check_ready_made(options: ClientOptions, transport: Transport) -> None:
    """Refuse options that a ready-made transport cannot pass to its CLI.

    Raises:
        OptionsError: There is one.
    """
    lost = [] if getattr(transport, "ignores_options", False) else options_of_the_start(options)
    if lost:
        also = f"; the same holds for {', '.join(lost[1:])}" if lost[1:] else ""
        raise OptionsError(
            "has no effect over a transport, whose program is started without it: use the option spawn instead, which "
            f"gets the command line and the environment{also}",
            option=lost[0],
        )


def find_config_dir(options: ClientOptions) -> Path:
    """Return the configuration folder of a CLI with these options."""
    return config_directory(environment(options, os.environ))


async def launch(
    options: ClientOptions,
    transport: Transport | None,
    *,
    on_stderr: Callable[[str], None] | None = None,
    config_dir: str | None = None,
) -> Launched:
    """Start the CLI, or a custom transport. An error or a cancellation leaves no process behind.

    `on_stderr` is called with every line of stderr. `config_dir` replaces the configuration folder of the options.

    Raises:
        OptionsError: An option cannot be applied.
        CLINotFoundError: The `claude` program was not found.
        CLIStartError: The program cannot be started, or not within `Timeouts.connect`.
    """
    if transport is not None:
        cli = Path(PROGRAM)
    elif options.spawn is not None and options.cli_path is not None:
        cli = Path(options.cli_path)  # of another place
    else:
        cli = find_cli(options.cli_path)
    is_here = transport is None and options.spawn is None
    plan = _plan(options, cli)
    if config_dir is not None:
        env = Unshown({**plan.env, "CLAUDE_CONFIG_DIR": config_dir})
        plan = replace(plan, env=env, config_dir=Path(config_dir))
    launched = Launched(
        plan,
        transport or _spawn(options, plan, config_dir),
        cli_path=cli if is_here else None,
        follows_plan=transport is None,
    )
    transport = launched.transport
    if transport.on_stderr is None:
        transport.on_stderr = on_stderr
    try:
        # Planning, forking and opening a session each hold up the event loop. Each also costs less if all concurrent
        # starts do it one after another: a fork empties the processor's caches.
        await checkpoint()
        with anyio.move_on_after(options.timeouts.connect) as scope:
            await transport.start()
        if scope.cancelled_caught:
            raise CLIStartError(f"the program was not started within {options.timeouts.connect:g} s", cli_path=str(cli))
    except BaseException:
        await launched.discard()
        raise
    plan.forget_environment()
    return launched

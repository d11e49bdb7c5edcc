"""The `serve` command: a web page with the sessions of this machine, on loopback."""

import argparse
import webbrowser
from collections.abc import Sequence
from contextlib import nullcontext
from socket import socket
from typing import Final

import anyio

from claude_agent_py import fleet, serve
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.cli.targets import load_object
from claude_agent_py.options import ClientOptions
from claude_agent_py.pool import Pool

MISSING: Final = "serve needs the extra `serve`: pip install ag-ui-protocol starlette sse-starlette uvicorn"
HOST: Final = "127.0.0.1"
LAST_PORT: Final = 65535
PORT: Final = 8765


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `serve`."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="module:options",
        help="your ClientOptions, Pool or Fleet; the default options if omitted",
    )
    parser.add_argument("--agent", metavar="NAME", help="of a fleet: which agent, if it has several")
    parser.add_argument("--port", type=int, default=PORT, help=f"the port (default: {PORT}; 0 takes a free one)")
    parser.add_argument("--host", default=HOST, help=f"the address to listen on (default: {HOST})")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="a name by which browsers call the server, other than localhost; repeatable",
    )
    parser.add_argument(
        "--ready",
        type=int,
        default=0,
        metavar="N",
        help="how many new sessions have their process already (default: 0)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def execute(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    found = ClientOptions() if arguments.target is None else load_object(arguments.target)
    return serve_object(
        found,
        arguments.target,
        agent=arguments.agent,
        ready=arguments.ready,
        host=arguments.host,
        port=arguments.port,
        names=arguments.name,
        open_browser=arguments.open,
    )


def serve_object(
    found: object,
    target: str | None = None,
    *,
    agent: str | None = None,
    ready: int = 0,
    host: str = HOST,
    port: int = PORT,
    names: Sequence[str] = (),
    open_browser: bool = False,
) -> int:
    """Serve the page of options, a pool or a fleet until Ctrl-C. `target` is its name. Return the exit code.

    Raises:
        OptionsError: An argument does not fit, or the extra `serve` is not installed.
    """
    try:
        import uvicorn

        make_app = serve.make_app
    except ImportError:
        raise OptionsError(MISSING) from None
    pool = found if isinstance(found, Pool) else None
    sessions = _make_sessions(found, target, agent, ready)
    if host not in serve.LOOPBACK and not names:
        raise OptionsError(f"{host} also needs --name, the name in the address", option="--host")
    if not 0 <= port <= LAST_PORT:
        raise OptionsError(f"must be from 0 to {LAST_PORT}, not {port}", option="--port")
    token = serve.make_token()
    app = make_app(sessions, token=token, hosts=(*serve.LOOPBACK, *names))
    config = uvicorn.Config(app, host, port, log_level="warning")
    sock = config.bind_socket()
    sock.listen()  # so that nobody is refused until it runs
    address = f"http://{names[0] if names else HOST}:{sock.getsockname()[1]}/#{token}"
    print(f"Open {address}", flush=True)
    if open_browser:
        webbrowser.open(address)
    anyio.run(_serve, serve.Server(config, sessions), sock, pool)
    return 0


async def _serve(server: "serve.Server", sock: socket, pool: Pool | None) -> None:
    async with pool or nullcontext():
        await server.serve([sock])


def _make_sessions(
    found: object, target: str | None, agent: str | None, ready: int
) -> "serve.Sessions | serve.FleetSessions":
    if isinstance(found, fleet.Fleet):
        names = sorted({name for name, _ in found.agents})
        if agent is None and len(names) != 1:
            raise OptionsError(f"is needed, because {target} has the agents: {', '.join(names)}", option="--agent")
        if ready:
            raise OptionsError("is not for a fleet, whose workers start its processes", option="--ready")
        return serve.FleetSessions(found, agent or names[0])
    if not isinstance(found, ClientOptions | Pool):
        raise OptionsError(f"must be ClientOptions, a Pool or a Fleet, not {type(found).__name__}: {target}")
    if agent is not None:
        raise OptionsError("is only for a fleet", option="--agent")
    return serve.Sessions(found, ready=ready)

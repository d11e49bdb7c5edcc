"""The `serve` command: a web page with the sessions of this machine, on loopback."""

import argparse
from typing import Final

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.cli.acp import load_target
from claude_agent_py.options import ClientOptions

MISSING: Final = "serve needs the extra `serve`: pip install ag-ui-protocol starlette sse-starlette uvicorn"
PORT: Final = 8765


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `serve`."""
    parser.add_argument(
        "target", nargs="?", metavar="module:options", help="your ClientOptions; the defaults if omitted"
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"the port (default: {PORT}; 0 takes a free one)")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="a name by which browsers call the server, other than localhost; repeatable",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def execute(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    try:
        import uvicorn

        from claude_agent_py.serve import LOOPBACK, Server, Sessions, make_app, make_token
    except ImportError:
        raise OptionsError(MISSING) from None
    options = load_target(arguments.target) if arguments.target else ClientOptions()
    if not isinstance(options, ClientOptions):
        raise OptionsError(f"must be ClientOptions, not {type(options).__name__}: {arguments.target}")
    names = (*LOOPBACK, *arguments.name)
    if arguments.host not in names and not arguments.name:
        raise OptionsError(f"{arguments.host} also needs --name, the name in the address", option="--host")
    token = make_token()
    sessions = Sessions(options)
    app = make_app(sessions, token=token, hosts=names)
    config = uvicorn.Config(app, arguments.host, arguments.port, log_level="warning")
    sock = config.bind_socket()
    sock.listen()  # so that nobody is refused until it runs
    port = sock.getsockname()[1]
    address = f"http://{arguments.name[0] if arguments.name else '127.0.0.1'}:{port}/#{token}"
    print(f"Open {address}", flush=True)
    if arguments.open:
        import webbrowser

        webbrowser.open(address)
    Server(config, sessions).run(sockets=[sock])
    return 0

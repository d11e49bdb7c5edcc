"""Programs in processes of their own, which start in no time: forked off one that has imported the package.

To import the package, its dependencies and an event loop takes longer than what most examples do. Where there is no
safe `fork`, each program gets a fresh interpreter.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parent.parent / "examples"

FORKS = sys.platform == "linux"

PRELOADED = """
import anyio, claude_agent_py, claude_agent_py.testing
for module in (claude_agent_py, claude_agent_py.testing):
    for name in module.__all__:
        getattr(module, name)
anyio.run(anyio.sleep, 0)
"""

SERVER = """
import gc, json, os, sys
forks, preloaded = json.loads(sys.argv[1])
if forks:
    exec(preloaded, {})
    gc.freeze()
for line in sys.stdin:
    pid = os.fork() if forks else 0
    if pid == 0:
        asked = json.loads(line)
        for number, (path, flags) in enumerate(asked["files"]):
            file = os.open(path, flags)
            os.dup2(file, number)
            os.close(file)
        sys.argv = asked["argv"]
        sys.path[0] = os.path.dirname(sys.argv[0])
        exec(asked["code"], {"__name__": "__main__"})
        break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Programs:
    """Runs programs in one environment. Close it in the end.

    Args:
        env: What to add to the environment.
    """

    def __init__(self, **env: str) -> None:
        self._env = {**os.environ, "PYTHONIOENCODING": "utf-8", **env}
        self._server: subprocess.Popen[str] | None = None

    def run(self, code: str, *argv: str, timeout: float = 300) -> "subprocess.CompletedProcess[str]":
        """Run a program, with warnings as errors; `argv` is its `sys.argv`. Raises TimeoutError."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            writing = os.O_WRONLY | os.O_CREAT
            files = [(os.devnull, os.O_RDONLY), (str(out), writing), (str(err), writing)]
            returncode = self._ask({"code": code, "argv": argv, "files": files}, timeout)
            texts = [path.read_text(encoding="utf-8") if path.exists() else "" for path in (out, err)]
        return subprocess.CompletedProcess(argv, returncode, *texts)

    def run_example(self, name: str) -> "subprocess.CompletedProcess[str]":
        """Run an example as a script."""
        code = "import runpy, sys; runpy.run_path(sys.argv[0], run_name='__main__')"
        return self.run(code, str(EXAMPLES / f"{name}.py"))

    def close(self) -> None:
        """End the process that the programs are forked off."""
        server, self._server = self._server, None
        if server is not None:
            server.communicate(timeout=60)

    def _ask(self, request: dict[str, Any], timeout: float) -> int:
        if self._server is None:
            self._server = self._start()
        server = self._server
        assert server.stdin is not None
        assert server.stdout is not None
        if not FORKS:
            self._server = None
            server.communicate(json.dumps(request) + "\n", timeout=timeout)
            return server.returncode
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], timeout)[0]:
            os.killpg(server.pid, signal.SIGKILL)
            self.close()
            raise TimeoutError(f"{request['argv']} took longer than {timeout} s")
        return int(server.stdout.readline())

    def _start(self) -> "subprocess.Popen[str]":
        given = json.dumps([FORKS, PRELOADED])
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-X", "utf8", "-c", SERVER, given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._env,
            start_new_session=True,
        )

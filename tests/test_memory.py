"""The memory of process trees."""

import subprocess
import sys

import anyio
import pytest
from anyio.streams.text import TextReceiveStream

from claude_agent_py.transport import can_measure, tree_memory
from claude_agent_py.transport.memory import _in_ps

MIB = 1024 * 1024

TREE = """
import subprocess, sys
held = bytearray(b"x") * (40 << 20)
below = "import sys; held = bytearray(b'x') * (60 << 20); print('ready', flush=True); sys.stdin.read()"
child = subprocess.Popen([sys.executable, "-c", below], stdin=subprocess.PIPE)
sys.stdin.read()
"""


@pytest.mark.anyio
@pytest.mark.skipif(not can_measure(), reason="this system does not tell")
async def test_a_tree_counts_what_its_processes_started() -> None:
    async with await anyio.open_process([sys.executable, "-c", TREE], stderr=None) as process:
        assert process.stdout is not None
        assert "ready" in await TextReceiveStream(process.stdout).receive()
        measured = await tree_memory([process.pid])
        assert 100 * MIB < measured[process.pid] < 300 * MIB
        process.kill()
        await process.wait()
    assert await tree_memory([process.pid]) == {process.pid: 0}
    assert await tree_memory([]) == {}


@pytest.mark.skipif(sys.platform == "win32", reason="no ps")
def test_ps_says_the_same() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as one:
        assert MIB < _in_ps([one.pid]).get(one.pid, 0) < 100 * MIB
    assert _in_ps([one.pid]) == {}

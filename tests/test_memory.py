"""The memory of process trees."""

import subprocess
import sys

import anyio
import pytest
from anyio.streams.text import TextReceiveStream

from claude_agent_py.transport import can_measure, tree_memory

MIB = 1024 * 1024

TREE = """
import subprocess, sys
held = bytearray(b"x") * (40 << 20)
below = "import sys; held = bytearray(b'x') * (60 << 20); print('ready', flush=True); sys.stdin.read()"
child = subprocess.Popen([sys.executable, "-c", below], stdin=subprocess.PIPE)
sys.stdin.read()
"""


ELSEWHERE = """
import subprocess, sys, zoneinfo, anyio, anyio._backends._asyncio, pydantic.main
sys.platform = "openbsd7"
from claude_agent_py.transport import can_measure, tree_memory
assert can_measure()
with subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
    process.stdout.readline()
    print(anyio.run(tree_memory, [process.pid])[process.pid])
    process.kill()
print(anyio.run(tree_memory, [process.pid])[process.pid])
"""
"""Measures a tree on a system that has `ps` and no /proc."""


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
def test_without_proc_ps_says_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, TREE], capture_output=True, text=True, check=True)
    alive, gone = map(int, done.stdout.split())
    assert 100 * MIB < alive < 300 * MIB
    assert gone == 0

"""`os.fork` in a program with an open session: the copy ends by itself and leaves the session to the original."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from forks import Program, run_program
from leftovers import is_alive, kill, until_gone

from claude_agent_py.testing import FakeCLI, steps

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

PROGRAM = """
import gc, os, sys, time
import anyio
from claude_agent_py import Client, ClientOptions

ways, backend, cli = sys.argv[1:]


async def wait_for(pid):
    with anyio.fail_after(60):
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            await anyio.sleep(0.01)


async def main():
    options = ClientOptions(cli_path=cli, settings={"model": "sonnet"})
    async with Client(options) as client:
        assert (await client.query("hi")).text == "one"
        [file] = client.session.launched.plan.files
        for how in ways.split():
            child = os.fork()
            if child == 0 and how == "exit":
                sys.exit(0)
            if child == 0 and how == "raise":
                raise LookupError
            if child == 0 and how == "return":
                return
            if child == 0 and how == "close":
                await client.close()
                os._exit(0)
            if child == 0 and how == "drop":
                del client
                gc.collect()
                os._exit(0)
            try:
                await wait_for(child)
            except TimeoutError:
                os.kill(child, 9)
                raise
            assert client.is_open, how
            assert file.exists(), how
            with anyio.fail_after(60):
                assert (await client.query("again")).text == "more", how
    print("parent", client.session.transport.exit_code)


anyio.run(main, backend=backend)
"""


# A copy cannot leave `trio.run` in an orderly way: trio shares its own descriptors with the original. Nor can it leave
# that of asyncio since Python 3.14, where the loop does not run in a copy.
ASYNCIO_WAYS = "close drop" if sys.version_info >= (3, 14) else "exit raise return close drop"


@pytest.mark.parametrize(("ways", "backend"), [(ASYNCIO_WAYS, "asyncio"), ("close drop", "trio")])
def test_forked_copies_leave_the_session_alone(ways: str, backend: str, tmp_path: Path) -> None:
    """One copy after the other; the original goes on after each."""
    cli = FakeCLI(steps.turn("one"), *[steps.turn("more")] * 5).install(tmp_path)
    argv = [sys.executable, "-c", PROGRAM, ways, backend, str(cli)]
    done = run_program(argv)
    assert done.stdout.splitlines()[-1:] == ["parent 0"], done.stderr
    assert done.returncode == 0


BETWEEN = """
import asyncio, os, sys
from claude_agent_py import Client, ClientOptions
from claude_agent_py.errors import SessionLeasedError
from claude_agent_py.sessions import SQLiteStore

cli, folder = sys.argv[1:]
SESSION = "11111111-1111-4111-8111-111111111111"
KEY = {"project_key": "p", "session_id": SESSION}
is_forked = asyncio.Event()


class Store(SQLiteStore):
    async def append(self, *args, **more):
        await is_forked.wait()
        await super().append(*args, **more)


store = Store(folder + "/store.db")


async def begin():
    await SQLiteStore.append(store, KEY, [{"type": "user", "message": {"role": "user", "content": "before"}}])
    await client.connect()
    assert (await client.query("hi")).text == "one"


async def abort():
    client.abort()
    await client.wait_closed()


async def go_on():
    is_forked.set()
    await client.sync_store()
    entries = await store.load(KEY)
    assert [entry["type"] for entry in entries] == ["user", "user", "assistant"]
    try:
        await store.acquire_lease(KEY, "another program")
    except SessionLeasedError as error:
        assert str(os.getpid()) in error.holder
    else:
        raise AssertionError("the copy has released the lease")
    assert (await client.query("again")).text == "more"
    await client.close()
    print("parent", client.session.transport.exit_code)


client = Client(ClientOptions(
    cli_path=cli, cwd=folder, session_store=store, session_store_project="p", resume=SESSION,
    env={"CLAUDE_CONFIG_DIR": folder + "/config"},
))
with asyncio.Runner() as runner:
    runner.run(begin())
    child = os.fork()
    if child == 0:
        runner.run(abort())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    runner.run(go_on())
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the loop does not run in a copy")
def test_a_copy_that_ends_its_session_between_two_runs_of_the_loop_leaves_the_store_alone(tmp_path: Path) -> None:
    cli = FakeCLI(steps.turn("one"), steps.turn("more")).install(tmp_path)
    done = run_program([sys.executable, "-c", BETWEEN, str(cli), str(tmp_path)])
    assert done.stdout.splitlines()[-1:] == ["parent 0"], done.stderr
    assert done.returncode == 0
    assert "the store" not in done.stderr


KILLED = """
import os, sys, time
import anyio
from claude_agent_py import Client, ClientOptions


async def main():
    client = Client(ClientOptions(cli_path=sys.argv[2]))
    await client.connect()
    copy = os.fork()
    if copy == 0:
        time.sleep(600)
        os._exit(0)
    print(client.pid, copy, flush=True)
    await anyio.sleep_forever()


anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a killed program leaves it to the CLI to end")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_copy_does_not_keep_the_cli_of_a_killed_program_alive(backend: str, tmp_path: Path) -> None:
    """The copy holds the CLI's pipes, so that the CLI sees no end of its input."""
    cli = FakeCLI(ignore_eof=True).install(tmp_path)
    with Program([sys.executable, "-c", KILLED, backend, str(cli)], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        pid, copy = map(int, program.stdout.readline().split())
        try:
            assert is_alive(pid)
            program.kill()
            anyio.run(until_gone, pid)
            assert is_alive(copy)
        finally:
            kill(copy)

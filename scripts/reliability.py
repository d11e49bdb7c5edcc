"""Do to programs with either SDK what happens to programs, with the real CLI, and count what is left of them.

    python scripts/reliability.py            # fails if something is left of a program with this package
    python scripts/reliability.py --write    # writes the table of docs/reliability.md

Linux only: what is left is found in /proc.
"""

import argparse
import contextlib
import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import doc_tables

from claude_agent_py.testing import Reply, ScriptedModel, tool_use

SDKS = ("official", "here")
CYCLES, WARM_UP, TRIES, KILLS = 60, 30, 20, 5
SETTLE = 10.0
"""Seconds after which what still runs is left."""
COMMAND = "tail -f /dev/null"
"""What the model runs: it does not end."""
MARK = "RELIABILITY"
"""The variable that all processes of a program have."""


# The programs, in processes of their own ------------------------------------------------------------------------------


def make_client(sdk: str) -> Any:
    """Return a client of an SDK, as a context manager."""
    cli = os.environ["CLAUDE_AGENT_CLI"]
    if sdk == "official":
        from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

        return ClaudeSDKClient(ClaudeAgentOptions(cli_path=cli, permission_mode="bypassPermissions"))
    from claude_agent_py import Client, ClientOptions

    return Client(ClientOptions(cli_path=cli, permission_mode="bypassPermissions"))


async def ask(sdk: str, client: Any) -> None:
    """Send a prompt, and wait for its answer."""
    if sdk == "official":
        await client.query("Go")
        async for _ in client.receive_response():
            pass
    else:
        await client.query("Go")


async def cycle(sdk: str) -> dict[str, float]:
    """Open and close sessions, and count what this process has more of at the end."""
    found: list[tuple[int, int, float]] = []
    for number in range(CYCLES + WARM_UP):
        async with make_client(sdk):
            pass
        if number == WARM_UP - 1:
            await anyio.sleep(1)
            found.append(measure())
    await anyio.sleep(1)
    found.append(measure())
    names = ("descriptors", "threads", "KiB")
    return {name: after - before for name, before, after in zip(names, *found, strict=True)}


def measure() -> tuple[int, int, float]:
    """Return how many descriptors, threads and KiB of memory this process has."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return len(os.listdir("/proc/self/fd")), int(status["Threads"]), float(status["VmRSS"].split()[0])


async def cancel(sdk: str) -> dict[str, float]:
    """Cancel the start of sessions at random moments."""
    chance = random.Random(7)
    for _ in range(TRIES):
        with anyio.move_on_after(chance.uniform(0.0, 0.8)):
            async with make_client(sdk):
                await anyio.sleep_forever()
    return {}


async def work(sdk: str) -> dict[str, float]:
    """Run a command that takes long."""
    async with make_client(sdk) as client:
        await ask(sdk, client)
    return {}


async def leave(sdk: str) -> dict[str, float]:
    """Close a session that has a command in the background."""
    async with make_client(sdk) as client:
        await ask(sdk, client)
    return {}


PROGRAMS = {"cycle": cycle, "cancel": cancel, "work": work, "leave": leave}


# What happens to them -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def program(name: str, sdk: str, model: ScriptedModel) -> Iterator[subprocess.Popen[str]]:
    """Start a program."""
    from claude_agent_py.options import find_cli

    command = [sys.executable, __file__, "--program", name, "--sdk", sdk]
    more = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(sys.path), MARK: model.url}
    env = model.environment(CLAUDE_AGENT_CLI=str(find_cli()), **more)
    with subprocess.Popen(
        command, env=env, cwd=model.sandbox.cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def find_left(model: ScriptedModel) -> list[int]:
    """Return the processes of a model's program, and those that they started."""
    mark = f"{MARK}={model.url}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def count_left(model: ScriptedModel) -> int:
    """Return how many processes still run after a while, and end them."""
    until = time.monotonic() + SETTLE
    while (left := find_left(model)) and time.monotonic() < until:
        time.sleep(0.1)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return len(left)


def find_command(model: ScriptedModel, seconds: float = 60.0) -> int | None:
    """Return the process of the command, once it runs."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for process in find_left(model):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").strip() == COMMAND.encode():
                    return process
        time.sleep(0.05)
    return None


SHELL = tool_use("Bash", {"command": COMMAND, "description": "Wait"})
BACKGROUND = tool_use("Bash", {"command": COMMAND, "description": "Wait", "run_in_background": True})


def see_cycles(sdk: str) -> tuple[str, int]:
    with ScriptedModel() as model, program("cycle", sdk, model) as process:
        grown = json.loads(process.communicate()[0])
        left = count_left(model)
    text = f"{left} processes, {grown['descriptors']:.0f} descriptors, {grown['threads']:.0f} threads"
    return f"{text}; {grown['KiB'] / CYCLES:.1f} KiB a session", left + int(grown["descriptors"] + grown["threads"])


def see_cancelled(sdk: str) -> tuple[str, int]:
    with ScriptedModel() as model, program("cancel", sdk, model) as process:
        process.communicate()
        left = count_left(model)
    return f"{left} processes", left


def see_killed(sdk: str) -> tuple[str, int]:
    total = 0
    for _ in range(KILLS):
        with ScriptedModel([Reply(SHELL)] * 3) as model, program("work", sdk, model) as process:
            assert find_command(model) is not None
            process.kill()
            process.wait()
            total += count_left(model)
    return f"{total} processes", total


def see_cli_killed(sdk: str) -> tuple[str, int]:
    ended = total = 0
    for _ in range(KILLS):
        with ScriptedModel([Reply(SHELL)] * 3) as model, program("work", sdk, model) as process:
            assert find_command(model) is not None
            for child in find_left(model):
                if b"--output-format" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(child, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SETTLE)
                ended += 1
            total += count_left(model)
    return f"{ended} of {KILLS} programs get an error; {total} processes", total + KILLS - ended


def see_left(sdk: str) -> tuple[str, int]:
    total = 0
    for _ in range(KILLS):
        script = [Reply(BACKGROUND), Reply("Started."), Reply("On.")]
        with ScriptedModel(script) as model, program("leave", sdk, model) as process:
            process.communicate()
            total += count_left(model)
    return f"{total} processes", total


SEEN: dict[str, Callable[[str], tuple[str, int]]] = {
    f"{CYCLES} sessions are opened and closed": see_cycles,
    f"{TRIES} starts are cancelled at random moments": see_cancelled,
    f"the program is killed (SIGKILL) while a command runs, {KILLS} times": see_killed,
    f"the CLI is killed while a command runs, {KILLS} times": see_cli_killed,
    f"a session is closed while a command runs in the background, {KILLS} times": see_left,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--program", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--sdk", choices=SDKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.program:
        print(json.dumps(anyio.run(PROGRAMS[arguments.program], arguments.sdk)))
        return 0
    rows, problems = {}, 0
    for title, see in SEEN.items():
        (official, _), (ours, left) = see("official"), see("here")
        rows[title] = official, ours
        print(title, official, ours, sep=" | ", flush=True)
        problems += left
    if arguments.write:
        doc_tables.keep("reliability.md", "reliability.py", ("what is left when", "official", "here"), rows, write=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

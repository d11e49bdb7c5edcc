"""The pytest plugin: fixtures and the marker `cassette`. pytest finds it by the entry point of the package.

pytest imports this module in every run, so it imports nothing of the package. The fixtures do, when a test uses them.
"""

import hashlib
import re
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import claude_agent_py
from claude_agent_py import errors, testing

if TYPE_CHECKING:
    from claude_agent_py.testing.stage import Stage

_CASSETTE: "pytest.StashKey[testing.Cassette]" = pytest.StashKey()

MARKER = (
    "cassette(path=None, *, match=('model',), ignore=(), scrub=None, cwd=None): record the model's answers once and "
    "replay them offline, in the fixtures claude_client and claude_options"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for cassettes."""
    group = parser.getgroup("claude-agent-py", "cassettes of claude-agent-py")
    group.addoption(
        "--cassette-mode",
        choices=("none", "once", "all"),
        default="none",
        help="none: only replay (default); once: record missing cassettes; all: record all cassettes again",
    )
    group.addoption("--update-run-snapshots", action="store_true", help="write the snapshots of run_snapshot")
    group.addoption("--cassette-upstream", metavar="URL", help="the Messages API to record (default: Anthropic's)")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a cassette that no fixture plays, since such a test could reach the real model."""
    if item.get_closest_marker("cassette") and "_claude_stage" not in getattr(item, "fixturenames", ()):
        pytest.fail("a test with a cassette must use the fixture claude_client or claude_options", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test whose session differed from its cassette, and show the differences if it failed anyway."""
    try:
        result = yield
    except BaseException as error:
        for text in _mismatches(item):
            if text not in str(error):  # the error of a run contains it
                error.add_note(text)
        raise
    if mismatches := _mismatches(item):
        pytest.fail("\n\n".join(mismatches), pytrace=False)
    return result


def _mismatches(item: pytest.Item) -> list[str]:
    cassette = item.stash.get(_CASSETTE, None)
    mismatches = [] if cassette is None else cassette.mismatches
    return [claude_agent_py.permissions.displayable(text, None) for text in mismatches]


@pytest.fixture(name="_claude_stage")
def claude_stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Stage]":
    """Set up the stand-in for the model or the CLI in this test."""
    from claude_agent_py.testing.stage import Stage

    with Stage(lambda: tmp_path_factory.mktemp("fake_cli")) as stage:
        marker = request.node.get_closest_marker("cassette")
        if marker is not None:
            cassette = request.node.stash[_CASSETTE] = _cassette(request, marker)
            stage.use(cassette)
        yield stage


def _cassette(request: pytest.FixtureRequest, marker: pytest.Mark) -> "testing.Cassette":
    def place(path: str | None = None, **more: object) -> tuple[Path, dict[str, Any]]:
        return request.path.parent / (path or _default_path(request.node, "cassettes", ".json")), more

    path, more = place(*marker.args, **marker.kwargs)
    options: Any = request.config.option
    try:
        return testing.Cassette(path, mode=options.cassette_mode, upstream=options.cassette_upstream, **more)
    except errors.OptionsError as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)


def _default_path(item: Any, folder: str, suffix: str) -> Path:
    """Return `<folder>/<module>/<test>`. A test has one file for all backends of anyio.

    Characters that are not for file names become `-`. A hash then tells the test from others with the same name.
    """
    parts = item.nodeid.partition("::")[2].split("::")
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        backend = callspec.params.get("anyio_backend", "")
        ids = callspec.id.split("-")
        if backend in ids:
            ids.remove(backend)  # once: another parameter may have this value
        parts[-1] = "-".join([item.originalname, *ids])
    name = ".".join(parts)
    readable = re.sub(r"[^\w.-]+", "-", name)
    if readable != name:
        readable += "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
    return Path(folder, item.path.stem, readable + suffix)


@pytest.fixture
def cassette(request: pytest.FixtureRequest, _claude_stage: "Stage") -> "testing.Cassette":
    """Return the cassette of a test that is marked with `cassette`."""
    if _CASSETTE not in request.node.stash:
        pytest.fail("mark the test with @pytest.mark.cassette", pytrace=False)
    found: testing.Cassette = request.node.stash[_CASSETTE]
    return found


@pytest.fixture
def run_snapshot(request: pytest.FixtureRequest) -> "testing.RunSnapshot":
    """Compare a run as text with `snapshots/<module>/<test>.txt`; `--update-run-snapshots` writes that file."""
    path = request.path.parent / _default_path(request.node, "snapshots", ".txt")
    return partial(_compare_run, request.config, path)


def _compare_run(config: pytest.Config, path: Path, result: "claude_agent_py.RunResult") -> None:
    text = testing.run_as_text(result)
    if config.getoption("--update-run-snapshots"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    elif not path.exists():
        pytest.fail(f"no snapshot at {path}; run pytest with --update-run-snapshots", pytrace=False)
    elif (expected := path.read_text(encoding="utf-8")) != text:
        import difflib  # few runs differ

        lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "this run", lineterm="")
        diff = claude_agent_py.permissions.displayable("\n".join(lines), None)
        pytest.fail(f"the run differs from the snapshot:\n{diff}", pytrace=False)


@pytest.fixture
def scripted_model(_claude_stage: "Stage") -> "testing.MakeScriptedModel":
    """Start a scripted model for the real CLI, given its script."""
    return cast("testing.MakeScriptedModel", _claude_stage.scripted_model)


@pytest.fixture
def fake_cli(_claude_stage: "Stage") -> "testing.MakeFakeCLI":
    """Make a scripted CLI, given its steps."""
    return _claude_stage.fake_cli


@pytest.fixture
def claude_options(_claude_stage: "Stage") -> "testing.MakeOptions":
    """Create options for the stand-in of the test. Takes the keywords of `ClientOptions`."""
    return _claude_stage.options


@pytest.fixture
def claude_client(_claude_stage: "Stage") -> "testing.MakeClient":
    """Create a client of the stand-in of the test, for `async with`. Takes the keywords of `ClientOptions`."""
    return _claude_stage.client

"""The documentation: names exist, programs run, and links resolve."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import CodeBlock, blocks_of, bound, problems_of, prose_problems, public_names
from forks import PRELOADED, run_program

from claude_agent_py import errors

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"])
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
PROGRAMS = list({(block.code, block.script): block for block in BLOCKS if block.script is not None}.values())
ALWAYS = {"README.md"}
"""Pages whose programs also `make test` runs on the real CLI. Other programs make the calls of an example."""
GENERATORS = sorted(ROOT.glob("docs/generate_*.py"))
EXAMPLES = ROOT / "examples"

RUN = """
import ast, contextlib, inspect, os, sys, tempfile
import anyio
import claude_agent_py.testing as testing

_, sys.path[0], name, code, runs_on, script = sys.argv
from offline import offline

@contextlib.contextmanager
def fake(answers):
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        turns = (testing.steps.turn(answer) if isinstance(answer, str) else answer for answer in answers)
        program = testing.FakeCLI(*turns).install(directory)
        os.environ.update({"CLAUDE_AGENT_CLI": str(program), "HOME": directory})
        yield

names = {name: getattr(testing, name) for name in testing.__all__}
names |= {"frames": testing.frames, "steps": testing.steps}
with eval(f"{runs_on}({script})", {**names, "offline": offline, "fake": fake}):
    program = eval(compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {"__name__": "__main__"})
    if inspect.iscoroutine(program):
        async def main():
            await program
        anyio.run(main)
"""
"""Runs a block as a program, with top-level `await`."""

IMPORTED = f"{PRELOADED}import anthropic\n"
"""What several programs import, which takes longer than they do."""

INTERNAL = ("architecture.md", "CONTRIBUTING.md", "offline.py")
"""What is about the inside of the package; `offline.py` only sets the examples up."""

ABOUT_PAGES = {"index.md", "architecture.md", "CHANGELOG.md"}
"""Pages about other pages, and about the inside."""

LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")


def by_name(value: object) -> str:
    return value.name if isinstance(value, CodeBlock | Path) else str(value)


def starts_a_cli(block: CodeBlock) -> bool:
    return block.runs_on == "offline" and (block.script != "[]" or "ScriptedModel(" in block.code)


def by_length() -> list[Any]:
    long = [block for block in PROGRAMS if starts_a_cli(block) and block.page.name not in ALWAYS]
    return [pytest.param(block, marks=[pytest.mark.long] if block in long else []) for block in PROGRAMS]


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_code_in_the_docs_names_only_what_exists(page: Path) -> None:
    problems = {block.name: problems_of(block) for block in blocks_of(page)}
    assert [name for name, found in problems.items() if found] == [], problems


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_the_text_names_only_what_exists(page: Path) -> None:
    assert prose_problems(page) == []


def test_every_fragment_of_the_changelog_has_a_known_type() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    types = {each["directory"] for each in config["tool"]["towncrier"]["type"]}
    fragments = ROOT.glob("changelog.d/+*")
    assert [path.name for path in fragments if path.suffixes[-2:] not in [[f".{kind}", ".md"] for kind in types]] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in ABOUT_PAGES], ids=by_name)
def test_a_page_begins_with_something_to_run(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert any(line in ("```python", "```console") for line in lines[:15])


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_the_first_use_of_a_name_shows_its_import(page: Path) -> None:
    known: set[str] = set()
    for block in blocks_of(page):
        known |= bound(block.tree)
        assert sorted(public_names(block.tree) - known) == [], block.name


@pytest.mark.real_cli
@pytest.mark.parametrize("block", by_length(), ids=by_name)
def test_a_program_in_the_docs_runs(block: CodeBlock) -> None:
    assert block.runs_on is not None
    assert block.script is not None
    program = [sys.executable, "-W", "error", "-c", RUN, str(EXAMPLES), block.name, block.code]
    done = run_program([*program, block.runs_on, block.script], timeout=300, preloaded=IMPORTED)
    assert done.returncode == 0, done.stderr
    assert block.printed is None or done.stdout == block.printed


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not leads_somewhere(page, link)] == []


@pytest.mark.parametrize("script", GENERATORS, ids=by_name)
def test_generated_tables_are_up_to_date(script: Path) -> None:
    done = run_program([sys.executable, str(script), "--check"], preloaded=IMPORTED)
    assert done.returncode == 0, done.stderr


def test_install_commands_name_a_checkout_or_an_indexed_package() -> None:
    """The package itself is not on the index."""
    texts = {page: page.read_text(encoding="utf-8") for page in [*PAGES, *ROOT.glob("claude_agent_py/**/*.py")]}
    assert [page for page, text in texts.items() if re.search("pip install .*claude-agent-py", text)] == []


def test_the_index_names_every_page() -> None:
    linked = set(LINK.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    assert {page.name for page in ROOT.glob("docs/*.md")} - {"index.md"} <= linked


def test_every_error_has_its_place_in_the_docs() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    raised = [name for name, value in vars(errors).items() if isinstance(value, type) and not name.startswith("_")]
    assert [
        name for name in raised if issubclass(getattr(errors, name), errors.ClaudeAgentError) and name not in text
    ] == []


def test_every_item_of_the_security_page_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    items = re.findall(r"^- .+?(?=^- |^$)", text, flags=re.MULTILINE | re.DOTALL)
    existing = {
        name
        for path in ROOT.glob("tests/**/*.py")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert len(items) > 30
    assert [item for item in items if not re.search(r"Tests?:\s+`test_\w+`", item)] == []
    assert set(re.findall(r"\btest_\w+", text)) - existing == set()


def leads_somewhere(page: Path, link: str) -> bool:
    """Return whether a link within the repository resolves to an existing file and heading."""
    if link.startswith(("http://", "https://")):
        return True
    path, _, heading = link.partition("#")
    target = page if not path else (page.parent / path)
    return target.exists() and (not heading or heading in headings(target))


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, in GitHub's form."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


# The checks themselves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("from claude_agent_py import Clint", "import Clint"),
        ("from claude_agent_py.wire import TaskStartedMesage", "import TaskStartedMesage"),
        ("ClientOptions(modle='opus')", "ClientOptions(modle=)"),
        ("await client.query('x', untill='idle')", "client.query(untill=)"),
        ("TextBlock(text='x', whatever=1)", "TextBlock(whatever=)"),
        ("client.taks", "client.taks"),
        ("await client.tasks.wait_for_all()", "client.tasks.wait_for_all"),
        ("for task in client.tasks:\n    task.read()", "task.read"),
        ("result = await run('x')\nresult.answer", "result.answer"),
        ("x = client.query('x')\nresult = await client.query('y')\nresult.interrupt", "result.interrupt"),
    ],
)
def test_a_name_that_does_not_exist_is_found(code: str, problem: str) -> None:
    assert problems_of(CodeBlock(Path("page.md"), 1, code, None, None)) == [problem]


@pytest.mark.parametrize(
    "code",
    [
        "from claude_agent_py import Client, wire, testing\nfrom claude_agent_py.messages import TextDelta",
        "result = await client.files.rewind('u')\nresult.can_rewind",
        "def show(task): task.anything",
        "async with Client(ClientOptions(model='opus')) as client:\n    await client.query('x', until='idle')",
    ],
)
def test_known_and_undecidable_names_pass(code: str) -> None:
    assert problems_of(CodeBlock(Path("page.md"), 1, code, None, None)) == []


def test_a_name_in_the_text_that_does_not_exist_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`client.tasks.wait_all()` `client.taks`, `Timeouts.silence`, `Timeouts.noise`, `messages.TextDelta`\n"
    )
    assert prose_problems(page) == ["client.taks", "Timeouts.noise"]


def test_a_program_is_read_with_its_script_and_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('# A\n\n<!-- offline: ["x"] -->\n```python\nrun()\n```\n\n```text\nx\n```\n\n```python\n1\n```\n')
    assert list(blocks_of(page)) == [
        CodeBlock(page, 5, "run()\n", '["x"]', "x\n", "offline"),
        CodeBlock(page, 13, "1\n", None, None),
    ]


@pytest.mark.parametrize(
    ("link", "leads"), [("b.md", True), ("b.md#two-words", True), ("b.md#no", False), ("c.md", False)]
)
def test_links_are_resolved(tmp_path: Path, link: str, leads: bool) -> None:
    (tmp_path / "b.md").write_text("## Two words\n")
    assert leads_somewhere(tmp_path / "a.md", link) is leads


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "examples").glob("*.py"))], ids=by_name)
def test_users_are_shown_public_modules_only(page: Path) -> None:
    if page.name in INTERNAL:
        pytest.skip("about the inside")
    assert re.findall(r"(?:from|import) claude_agent_py\._\S+", page.read_text(encoding="utf-8")) == []

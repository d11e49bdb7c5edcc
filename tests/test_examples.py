"""Every example runs offline with the real CLI, in a process of its own, and prints the expected output."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from forks import FLEET, PLAIN, run_program
from installed_cli import CLI_VARIABLE, find_cli

from claude_agent_py.testing import ScriptedModel

EXAMPLES = Path(__file__).parent.parent / "examples"
NICENESS = 0 if sys.platform == "win32" else os.nice(0)
"""Of these tests."""

PRINTED: dict[str, list[str]] = {
    "agents": [
        "offered: ['reviewer', 'tester', 'writer']\n",
        "reviewer: Nothing is wrong with it.\n",
        "tester (in code): completed, 4 messages, '12 passed.'\n",
        "refused: poet: Agent type 'poet' not found.",
        "All is well.\n",
    ],
    "api_loop": [
        "step 1: population(Cologne) = 1087353\n"
        "step 1: population(Bon) = Error: ToolError: I know no city 'Bon', but Cologne, Bonn.\n"
        "step 2: population(Bonn) = 335789\n"
        "answered after 3 steps, 300 input tokens:\n"
        "Cologne is about three times as large as Bonn.\n",
    ],
    "approvals": [
        "asked: Which target? ['debug', 'release']\n",
        "waits: Bash: touch built; the task is awaiting_user\n",
        "Build: completed, built/debug is there\n",
    ],
    "background_tasks": [
        "3 tasks",
        "unfinished: []",
        "notified: completed: auth is sound.",
        "Review billing: completed\n  billing should use decimals.",
        "Run the tests: completed\n  test 1 ok\n  test 2 ok\n  test 3 ok\n",
        "auth is sound, billing should use decimals, the tests pass.",
    ],
    "batch": [
        "Summarize chapter 1: chapter 1 in short\nSummarize chapter 2: InvalidRequestError\n",
        "it cost something\n",
    ],
    "child_agents": [
        "Port the parser asks: Bash: touch parser.rs; it is awaiting_user\n",
        "It is ported, and it leaks nothing.\nspawned: They leak nothing either.\n",
        "Port the parser: completed, 1 tool calls\n",
        "Port the parser [porter] completed, 220 tokens\nAudit the parser [auditor] completed, 110 tokens\n",
        "porter asked Bash: touch parser.rs\nporter was answered by Ann\n",
        "asked for: Audit the tests ['tests/'] low\nported: True\n",
    ],
    "controlling": ["haiku", "% full", "interrupt: interrupted", "the run ended: aborted_", "I am claude-haiku"],
    "delegation": [
        "the model reads of the reviewer: <tools-used-before-summary>Bash</tools-used-before-summary> I was reminded 2",
        "This line is sound. [The report has 824 characters; this is its beginning.]\n",
        "Explore: 24 characters, 'Forty places rely on it.' ...\nreviewer: 824 characters, 'I was reminded 2 times.",
        "The change is sound, and forty places rely on parse().\n",
    ],
    "durable_turn": ["it asks: Bash: touch reviewed\nAuth is sound. (2 turns)\nAuth is sound. (recovered)\n"],
    "elsewhere": [f"the CLI's niceness: {min(NICENESS + 7, 19)}\nThat is all.\n"],
    "web_page": [
        "asks: Allow Bash? command: touch made\n",
        "call: Bash succeeded\n",
        "says: It is made.\nended: ok\n",
    ],
    "errors": [
        "OptionsError: max_turns: must be",
        "CLINotFoundError: ['the option cli_path: ",
        "failed: OverloadedError",
        "answer: I am.",
        "MaxTurnsError: ",
        "until then: ['Bash']",
    ],
    "own_store": ["the contract holds\nIn Bonn.\ntranscripts: 1\n"],
    "resume_elsewhere": [
        "It is kumquat.\none at a time: True\nleft on the second machine: []\n",
        "in the store: Launch codes\n4 messages; the last: It is kumquat.\n",
    ],
    "sessions": [
        "is open in the process",
        "'The release', begun with 'Which files are here?'\n",
        "6 messages; the last: Tag it, build it, publish it.\n",
        "tools: [('Bash', 'none')]\n",
        "  user: Plan the release.\n",
        "found: Plan the release.\n",
        "\nWhich files are here.\n",
        "left: ['The release']\n",
    ],
    "in_an_editor": [
        "calls: deploy 1.2\n",
        "asks:  ['Allow', 'Deny']\n",
        "agent: Version 1.2 is live.\n",
        "ended: end_turn\n",
    ],
    "interface": [
        "? Bash: touch report.txt\n",
        "  allowed\n",
        "[Write the report] started\n",
        "[Write the report] completed: The report is written.\n",
        "claude: The report is there.\n",
    ],
    "fleet": [
        "it asks: Bash\nAuth is sound.\n2: Billing should use decimals.\nidle after 2 prompts\ndeleted: 1\n",
    ],
    "follow_output": [
        "Build is running:\ncompiling parser\ncompiling engine\ncompiling client\nlinked\n",
        "Build completed with exit code 0\n",
    ],
    "from_plain_code": ["Paris.", "USD"],
    "hooks": [
        "denied: rm -rf build\nreviewer says: it looks good\nChecked: nothing is missing.\n",
    ],
    "map_runs": [
        "Summarize chapter 1: chapter 1 in short (attempt 2)\nSummarize chapter 2: InvalidRequestError (attempt 1)\n",
        "1 of 2 answered\nagain:\nSummarize chapter 1: chapter 1 in short (journal)\n",
        "Summarize chapter 2: chapter 2 in short (attempt 1)\n2 of 2 answered\n",
    ],
    "mcp_servers": ["connected"],
    "permissions": [
        "asked: touch one\nasked: curl https://example.com\n",
        "denied: Bash {'command': 'curl",
        "denied: Write {'file_path': '/etc/hello.txt'",
        "Two files are there.\n",
    ],
    "pictures": ["Red."],
    "pool": [
        "Ada: Ada, says sonnet.\nGrace: Grace, says haiku.\n",
        "2 sessions, 0 processes left\n",
    ],
    "quickstart": ["Paris.\n7 -> 14\n"],
    "reading_messages": [
        "turn begins, ",
        "text: I'll say it.\ncall toolu_1: Bash: echo hello\n",
        "result of toolu_1: hello",
        "turn ends: success",
    ],
    "session_resume": [
        "Hello, Ada.\nAda. the same session: True\nHello, Grace. the same session: False\n",
    ],
    "several_runs": ["processes: Oslo=Norway Quito=Ecuador\n", "session: Oslo=", "Quito="],
    "streaming_text": [
        "Bytes flow left and right,\na line ends, a model wakes:\nthe prompt has its own.\n-- end_turn\n"
    ],
    "structured_output": ["rejected\nhigh: auth.py: the secret is logged\n"],
    "task_tree": [
        "Plan [general-purpose] completed, 330 tokens\n├── Changelog [",
        "\n└── Tests [",
        "in all: 3 tasks, 3 tool calls\n",
        "Tests: All tests pass.\nPlan: Ready on Friday.\n",
    ],
    "task_manager": [
        "the model starts general-purpose: Review auth\noutput of the server: not_ready\n",
        "Review auth: completed\nStart the server: stopped\n",
    ],
    "tool_chain": [
        "<population>1087353</population>\n"
        "<population>Error: ToolError: I know no city 'Atlantis'.</population>\n"
        "<note></note>\n"
        "<populatoin>Error: UnknownToolError: unknown tool 'populatoin'; did you mean 'population'? "
        "available tools: population, note</populatoin>\n</observation>",
        "# population\n1087353\n",
        "{'type': 'tool_result', 'tool_use_id': 'toolu_1', 'content': [{'type': 'text', 'text': '1087353'}]}",
    ],
    "test_with_plugin": ["3 passed"],
    "text_formats": [
        "[summary] It logs more.",
        "- line 2, column 1: section 'summary' has no end\n"
        "- line 4, column 1: 'verdit' is not one of the sections; did you mean 'verdict'?\n",
        "[findings] \n[findings/finding] if a < b & c: the secret is logged\n[verdict] reject\n",
        "\nverdict: ['reject']\n",
    ],
    "tool_results": ["The hall is at 19.5 degrees, the cellar at 12."],
    "tools": ["Cologne has 1,087,353 people"],
    "wait_for_tasks": [
        "after 0.1 s the benchmark is running\n",
        "Tests: failed, exit code 1\n  test_login: AssertionError\nBenchmark: completed, exit code 0\n",
        "2 of 3 completed\n",
    ],
    "journal": [
        "turn: ok for some dollars\nnumbered: True\n",
        "the same calls on disk: True\n",
    ],
    "telemetry": [
        "execute_tool Bash\n",
        "invoke_agent greeter, 20 output tokens\nhandle a request\n",
        "invoke_agent greeter, 10 output tokens\n",
    ],
    "timeline": [
        "subagent general-purpose: ok, in the background\n",
        "tool     Bash: error\n",
        "'main': ",
        "touch tested && exit 3",
        "it cost something: True\nwaiting for people: 0 instead of 1\nthe same calls on disk: True\n",
    ],
}
"""What the output of each example must contain."""


def names() -> list[str]:
    return sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "offline")


LONG = {
    "agents",
    "api_loop",
    "approvals",
    "background_tasks",
    "batch",
    "child_agents",
    "controlling",
    "delegation",
    "durable_turn",
    "elsewhere",
    "errors",
    "fleet",
    "follow_output",
    "from_plain_code",
    "hooks",
    "in_an_editor",
    "interface",
    "journal",
    "map_runs",
    "mcp_servers",
    "own_store",
    "permissions",
    "pictures",
    "pool",
    "quickstart",
    "reading_messages",
    "resume_elsewhere",
    "session_resume",
    "sessions",
    "several_runs",
    "streaming_text",
    "structured_output",
    "task_manager",
    "task_tree",
    "telemetry",
    "test_with_plugin",
    "text_formats",
    "timeline",
    "tool_chain",
    "tool_results",
    "tools",
    "wait_for_tasks",
    "web_page",
}
"""Examples that `make test` leaves out: tests of their features make the same calls on the real CLI."""


def by_length() -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in names()]


EXTRAS = ("yaml", "mcp", "rich", "trio")
WITH_EXTRAS = ("fleet", "in_an_editor")
"""Examples that are about an extra."""


HIDE = f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS}))\n"
PLAIN_INSTALL = f"{HIDE}{PLAIN}"


JUPYTER = """
import ast, asyncio, inspect, json, sys
from pathlib import Path

async def main(notebook):
    sys.path.insert(0, str(notebook.parent))
    names = {"__name__": "__main__"}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if inspect.iscoroutine(cell := eval(code, names)):
                await asyncio.create_task(cell)

asyncio.run(main(Path(sys.argv[1])))
"""
"""Runs the cells of a notebook as Jupyter does: in one namespace and one running loop, each in a task of its own."""


@pytest.fixture(scope="module")
def plain_install(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which the extras cannot be imported, not by programs of an example either."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "sitecustomize.py").write_text(HIDE)
    return {"PYTHONPATH": str(folder), "PYTEST_ADDOPTS": "-p no:hypothesispytest"}  # its plugin needs a whole trio


def run_example(
    name: str, *arguments: str, preloaded: str = PLAIN_INSTALL, **env: str
) -> "subprocess.CompletedProcess[str]":
    program = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]
    return run_program(program, timeout=300, preloaded=preloaded, env={**os.environ, **env})


@pytest.mark.real_cli
@pytest.mark.parametrize("name", by_length())
def test_an_example_prints_its_output_without_any_extra(name: str, plain_install: dict[str, str]) -> None:
    assert name in PRINTED, f"say in PRINTED what examples/{name}.py prints"
    done = run_example(name, preloaded=FLEET) if name in WITH_EXTRAS else run_example(name, **plain_install)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [text for text in PRINTED[name] if text not in done.stdout] == [], done.stdout


@pytest.mark.long
@pytest.mark.real_cli
def test_the_notebook_prints_its_output(plain_install: dict[str, str]) -> None:
    notebook = EXAMPLES / "notebook.ipynb"
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    shown = [line for cell in cells for output in cell.get("outputs", []) for line in output["text"]]
    program = [sys.executable, "-W", "error", "-c", JUPYTER, str(notebook)]
    done = run_program(program, timeout=300, preloaded=PLAIN_INSTALL, env={**os.environ, **plain_install})
    assert (done.stdout, done.stderr) == ("".join(shown), "")


@pytest.mark.parametrize("name", ["YAMLEncoder", "YAMLFormat"])
def test_yaml_without_pyyaml_says_what_to_install(name: str, plain_install: dict[str, str]) -> None:
    program = f"from claude_agent_py.formatting import {name}; {name}()"
    done = run_program([sys.executable, "-c", program], preloaded=PLAIN_INSTALL, env={**os.environ, **plain_install})
    assert done.stderr.splitlines()[-1] == "ImportError: YAML needs PyYAML: pip install pyyaml"


def test_the_table_names_no_example_that_is_gone() -> None:
    assert set(PRINTED) | LONG <= set(names())


def test_an_example_on_the_real_model_says_that_it_needs_a_key() -> None:
    done = run_example("quickstart", "--live", ANTHROPIC_API_KEY="")
    assert done.returncode == 1
    assert done.stderr.strip() == "Set ANTHROPIC_API_KEY to run this on the real model, or leave out --live."


@pytest.mark.long
@pytest.mark.real_cli
def test_live_asks_the_model_that_the_environment_names() -> None:
    with ScriptedModel(["Blue."]) as model:  # stands in for the real one
        done = run_example("pictures", "--live", **model.environment(**{CLI_VARIABLE: str(find_cli())}))
        asked = model.requests_of("main")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Blue.\n", "")
    assert len(asked) == 1

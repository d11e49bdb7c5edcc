"""Agents in files: read as the CLI reads them, with the line of a mistake; written so that they read back the same."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from claude_agent_py import AgentDefinition, MCPStdioServer
from claude_agent_py.agents import load_agents, read_agent
from claude_agent_py.errors import OptionsError

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), min_size=1)
PLAIN = TEXT.filter(lambda text: text == text.strip() and "\\n" not in text)

FILE = """\
---
name: reviewer
description: Use it when: code has changed. Example: <x>\\nand then
tools: Read, Bash(git log, status) mcp__x__*
disallowedTools: [Write]
model: sonnet
maxTurns: "5"
permission-mode: plan
background: true
mcpServers:
  - far
  - near: {command: npx, args: [a], timeout: 2000}
color: red
---

You review.

---
Not a field.
"""


def refused(text: str) -> str:
    with pytest.raises(OptionsError) as caught:
        read_agent(text)
    assert caught.value.option == "agents"
    return str(caught.value)


def test_a_file_as_the_cli_has_it_is_read() -> None:
    agent = read_agent(FILE)
    assert agent.name == "reviewer"
    assert agent.definition == AgentDefinition(
        description="Use it when: code has changed. Example: <x>\nand then",
        prompt="You review.\n\n---\nNot a field.",
        tools=["Read", "Bash(git log, status)", "mcp__x__*"],
        disallowed_tools=["Write"],
        model="sonnet",
        max_turns=5,
        permission_mode="plan",
        background=True,
        mcp_servers=["far", {"near": MCPStdioServer(command="npx", args=["a"], timeout=2.0)}],
        color="red",
    )


@pytest.mark.parametrize("line", ["tools: '*'", "tools: Read, *"])
def test_a_star_is_all_tools(line: str) -> None:
    tools = read_agent(f"---\nname: x\ndescription: y\n{line}\n---\n").definition.tools
    assert tools is None


@pytest.mark.parametrize("line", ["tools:", "tools: ''", "tools: []"])
def test_an_empty_list_of_tools_is_none_of_them(line: str) -> None:
    assert read_agent(f"---\nname: x\ndescription: y\n{line}\n---\n").definition.tools == []


def test_windows_line_ends_do_no_harm() -> None:
    assert read_agent(FILE.replace("\n", "\r\n")).definition == read_agent(FILE).definition


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("name: x\ndescription: y\nmaxTurns: zero", "line 4: max_turns must be a valid integer"),
        ("name: x\ndescription: y\nmodle: z", "line 4: modle is unknown; did you mean 'model'?"),
        ("name: x\nmodel: z", "line 1: description is missing"),
        ("name: -x\ndescription: y", "line 2: the agent name '-x' must not begin with '-'"),
        ("description: y\nname: 5", "line 3: the name of an agent must be a string, not int"),
        ("name: x\ndescription: [y", "line 4: invalid YAML: expected ',' or ']'"),
        ("name: x\ndescription: y\nbackground: 2026-13-45", "line 4: background must be a valid boolean"),
        ("name: x\nname: z\ndescription: y", "line 3: duplicate field name, first in line 2"),
        ("- a\n- b", "line 2: the front matter must consist of fields"),
        ("name: x\ndescription: y\nprompt: z", "line 4: the prompt belongs below the front matter"),
        ("name: x\ndescription: y\nPrompt: z", "line 4: the prompt belongs below the front matter"),
        (
            "name: x\ndescription: y\nmcpServers:\n  - a: {comand: y}",
            "line 4: mcp_servers server 'a': command is missing",
        ),
        ("", "line 1: description is missing"),
    ],
)
def test_a_mistake_is_reported_with_its_line(header: str, says: str) -> None:
    assert refused(f"---\n{header}\n---\nprompt").startswith(f"agents: agent, {says}")


@pytest.mark.parametrize(
    ("text", "says"),
    [("You review.", "the front matter is missing"), ("---\nname: x\n", "the front matter is not closed")],
)
def test_an_invalid_agent_file_is_refused(text: str, says: str) -> None:
    assert says in refused(text)


def test_unknown_fields_may_be_ignored() -> None:
    text = "---\nname: x\ndescription: y\nversion: 3\nprompt: z\n---\nbody"
    assert read_agent(text, unknown="ignore").definition == AgentDefinition(description="y", prompt="body")


@given(
    description=TEXT.filter(str.strip), prompt=PLAIN, tools=st.lists(st.sampled_from(["Read", "Bash(a, b)", "a: #b"]))
)
def test_a_written_agent_file_is_read_back(description: str, prompt: str, tools: list[str]) -> None:
    agent = AgentDefinition(description=description.replace("\\n", ""), prompt=prompt, tools=tools, observer=["a", "b"])
    if not agent.description.strip():
        return
    read = read_agent(agent.to_markdown("x"))
    assert (read.name, read.definition) == ("x", agent)


def test_a_directory_is_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "a.md").write_text(FILE)
    (tmp_path / "more" / "nameless.md").write_text("---\ndescription: y\n---\nprompt")
    (tmp_path / "notes.txt").write_text("not an agent")
    assert list(load_agents(tmp_path)) == ["reviewer", "nameless"]


def test_a_mistake_in_a_directory_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.md"
    path.write_text("---\nname: x\n---\n")
    with pytest.raises(OptionsError) as caught:
        load_agents(tmp_path)
    assert str(caught.value) == f"agents: {path}, line 1: description is missing"


def test_two_files_for_one_agent_are_refused(tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(FILE)
    with pytest.raises(OptionsError, match="both define 'reviewer'"):
        load_agents(tmp_path)


def test_an_unreadable_agent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="no such directory"):
        load_agents(tmp_path / "missing")
    (tmp_path / "latin.md").write_bytes(b"---\nname: \xff\n---\n")
    with pytest.raises(OptionsError, match=r"latin\.md cannot be read"):
        load_agents(tmp_path)


def test_without_pyyaml_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['yaml'] = None\n"
        "from claude_agent_py.agents import read_agent\n"
        "try: read_agent('---\\nname: x\\n---\\n')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install pyyaml" in done.stdout


def test_agents_are_defined_without_reading_pyyaml() -> None:
    code = "import sys, claude_agent_py.options; print('yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_readme_is_no_agent(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Our agents")
    (tmp_path / "one.md").write_text("---\nname: one\ndescription: d\n---\nWork.")
    assert list(load_agents(tmp_path)) == ["one"]
    (tmp_path / "README.md").write_text("---\ndescription: d\n---\nRead.")
    assert sorted(load_agents(tmp_path)) == ["README", "one"]

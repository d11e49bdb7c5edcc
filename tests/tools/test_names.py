"""What the CLI calls a tool."""

import pytest

from claude_agent_py import mcp_tool_name
from claude_agent_py.tools import mcp_server_name, split_tool_name


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("calc", "add", "mcp__calc__add"),
        ("my server.v1", "a.b", "mcp__my_server_v1__a_b"),
        ("my-server_1", "sp ace", "mcp__my-server_1__sp_ace"),
        ("ü", "ä", "mcp______"),
        ("😀", "x", "mcp______x"),
    ],
)
def test_names_are_made_as_the_cli_makes_them(server: str, tool: str, name: str) -> None:
    assert mcp_tool_name(server, tool) == name


def test_the_name_of_a_server_stands_for_all_its_tools() -> None:
    assert mcp_server_name("my server") == "mcp__my_server"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("mcp__calc__add", ("calc", "add")),
        ("mcp__calc__add__more", ("calc", "add__more")),
        ("Bash", None),
        ("mcp__calc", None),
        ("mcp__calc__", None),
        ("calc__add", None),
    ],
)
def test_names_are_taken_apart(name: str, parts: tuple[str, str] | None) -> None:
    assert split_tool_name(name) == parts

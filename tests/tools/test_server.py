"""What a server says about itself."""

from typing import Any, cast

import pytest

from claude_agent_py import Tool, ToolServer, tool
from claude_agent_py.errors import OptionsError
from claude_agent_py.tools import Prompt, Resource


@tool(timeout=10)
def quick() -> None: ...


@tool(timeout=60.5)
def slow() -> None: ...


def bare(a: int) -> int:
    """Do it."""
    return a


def test_functions_become_tools() -> None:
    server = ToolServer("my calc", [quick, bare])

    assert [item.name for item in server.tools] == ["quick", "bare"]
    assert server.tool_names == ["mcp__my_calc__quick", "mcp__my_calc__bare"]
    assert repr(server) == "<ToolServer my calc: quick, bare>"


def test_a_manifest_equals_the_handshake() -> None:
    server = ToolServer("calc", [quick], instructions="Use it.")

    assert server.manifest() == {
        "initializeResult": server.initialize_result("2025-11-25"),
        "toolsListResult": {"tools": [{**quick.definition(), "_meta": {"anthropic/alwaysLoad": True}}]},
    }


def loaded(server: ToolServer) -> list[Any]:
    """Return whether the model sees each tool from the start; None leaves it to the CLI, which defers the tool."""
    return [item.get("_meta", {}).get("anthropic/alwaysLoad") for item in server.definitions("tools")]


def described(chars: int, **settings: Any) -> Tool[..., Any]:
    return tool(name=f"tool_{chars}", description="x" * chars, **settings)(lambda: None)


def test_a_small_set_of_tools_is_shown_from_the_start() -> None:
    server = ToolServer("calc", [described(6_000), described(6_001)])

    assert loaded(server) == [True, True]
    server.add(described(500))
    assert loaded(server) == [None, None, None]
    server.remove("tool_500")
    assert loaded(server) == [True, True]


def test_settings_decide_before_the_size_of_the_set() -> None:
    hidden, shown = described(10, always_load=False), described(20, always_load=True)

    assert loaded(ToolServer("calc", [quick, hidden, shown])) == [True, False, True]
    assert loaded(ToolServer("calc", [quick, hidden, shown], always_load=False)) == [None, False, True]
    assert loaded(ToolServer("calc", [described(20_000), hidden, shown])) == [None, False, True]
    assert loaded(ToolServer("calc", [described(20_000), hidden], always_load=True)) == [True, False]


def test_the_cli_never_gives_up_before_we_do() -> None:
    server = ToolServer("calc", [quick], timeout=2.0)

    assert server.config() == {"timeout": 2**31 - 1}


def test_policies_go_to_the_cli() -> None:
    server = ToolServer("calc", [quick, bare], policies={"bare": "always_ask"})

    assert server.config()["tools"] == [{"name": "bare", "permission_policy": "always_ask"}]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": ""}, "a server needs a name"),
        ({"name": 5}, "name must be str, not int"),
        ({"version": 2}, "version must be str, not int"),
        ({"instructions": 5}, r"instructions must be str \| None, not int"),
        ({"always_load": "no"}, r"always_load must be bool \| None, not str"),
        ({"resources": ["a://b"]}, "resources must be Resource, not str"),
        ({"prompts": [bare]}, "prompts must be Prompt, not function"),
        ({"timeout": 0}, "timeout of server 'calc': must be a positive number"),
        ({"page_size": 0}, "page_size of server 'calc': must be a number of at least 1"),
        ({"policies": {"other": "always_ask"}}, "a policy names an unknown tool: 'other'"),
        ({"tools": [quick], "policies": {"quick": "never"}}, "always_ask or always_deny, not 'never'"),
        ({"tools": [tool(name="a.b")(bare), tool(name="a_b")(bare)]}, "same name for the CLI, mcp__calc__a_b"),
        ({"tools": [quick, quick]}, "same name for the CLI"),
    ],
)
def test_an_invalid_server_is_refused_at_once(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        ToolServer(**{"name": "calc", **arguments})


def test_a_server_takes_any_iterables() -> None:
    resources: Any = (Resource(uri, "text") for uri in ("a://b", "a://c"))
    prompts: Any = iter([Prompt(bare)])

    server = ToolServer("calc", iter([quick]), resources=resources, prompts=prompts)

    assert (list(server.resources), list(server.prompts)) == (["a://b", "a://c"], ["bare"])
    assert server.tool_names == ["mcp__calc__quick"]


def test_adding_a_tool_of_the_same_name_replaces_it() -> None:
    server = ToolServer("calc", [quick])

    made = server.add(tool(name="quick")(bare))

    assert server.get("quick") is made
    assert server.get("other") is None


def test_a_resource_has_a_uri() -> None:
    with pytest.raises(OptionsError, match="uri must be str, not int"):
        Resource(cast("Any", 5), "text")


def test_a_resource_names_a_variable_once() -> None:
    with pytest.raises(OptionsError, match="names a variable twice"):
        Resource("file://{a}/{a}", "text")

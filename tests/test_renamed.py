"""Names of the official SDKs that are not here: the errors say what is."""

import importlib
import re
from typing import Any

import pytest

import claude_agent_py
from claude_agent_py import Client, client
from claude_agent_py.renamed import ABSENT, CLIENT, NAMES

OURS = re.compile(r"\b(?:wire\.|options\.)?[A-Z]\w+\b")


def found(dotted: str) -> Any:
    """Give what a name of the package stands for."""
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(f"claude_agent_py.{module}".rstrip(".")), name)


@pytest.mark.parametrize("name", NAMES)
def test_what_to_use_instead_exists(name: str) -> None:
    assert [found(ours) for ours in OURS.findall(NAMES[name])] or "function" in NAMES[name]


@pytest.mark.parametrize("name", [*NAMES, *ABSENT])
def test_a_name_that_is_not_here_is_no_name_of_the_package(name: str) -> None:
    assert name not in claude_agent_py.__all__


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ClaudeSDKClient", "use Client;"),
        ("createSdkMcpServer", "use ToolServer"),
        ("PreToolUseHookInput", "use PreToolUseInput;"),
        ("PreToolUseHookSpecificOutput", "use PreToolUseOutput;"),
        ("listSessions", "sessions on disk are not read"),
        ("InMemorySessionStore", "there are no session stores"),
    ],
)
def test_a_name_of_the_official_sdk_says_what_to_use(name: str, told: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute {name!r}: {told}"):
        getattr(claude_agent_py, name)
    with pytest.raises(ImportError, match=f"cannot import name {name!r} from 'claude_agent_py': {told}"):
        exec(f"from claude_agent_py import {name}")
    assert not hasattr(claude_agent_py, name)


def test_any_other_name_is_as_unknown_as_ever() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'Cleint'$"):
        _ = claude_agent_py.Cleint  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match=r"cannot import name 'Cleint' from 'claude_agent_py' \("):
        exec("from claude_agent_py import Cleint")


@pytest.mark.parametrize("name", CLIENT)
def test_what_to_use_of_a_client_exists(name: str) -> None:
    attribute = re.match(r"(?:what )?(\w+)", CLIENT[name])
    assert attribute is not None
    assert hasattr(Client, attribute[1])
    assert not hasattr(Client, name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("disconnect", r"use close\(\);"),
        ("receive_response", r"use what query\(\) gives"),
        ("streamInput", r"use query\(\)"),
        ("setModel", "use set_model;"),
    ],
)
def test_an_attribute_of_the_official_client_says_what_to_use(name: str, told: str) -> None:
    with pytest.raises(AttributeError, match=f"Client has no attribute {name!r}: {told}"):
        getattr(Client(), name)
    assert not hasattr(Client(), name)


def test_any_other_attribute_is_as_unknown_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AttributeError, match="'Client' object has no attribute 'tusks'") as caught:
        _ = Client().tusks  # type: ignore[attr-defined]
    assert (caught.value.name, hasattr(Client(), "_private")) == ("tusks", False)

    def broken(self: Client) -> None:
        raise AttributeError("of something else")

    monkeypatch.setattr(client.Client, "pid", property(broken))
    with pytest.raises(AttributeError, match="of something else"):
        _ = Client().pid

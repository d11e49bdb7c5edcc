"""Configuration models: errors name the field and do not show its value."""

import pickle
from typing import Any

import pytest

from claude_agent_py import AgentDefinition, ClientOptions, Timeouts
from claude_agent_py.errors import OptionsError

WORKER = {"description": "Works", "prompt": "You work."}


def refused(**given: Any) -> OptionsError:
    with pytest.raises(OptionsError) as caught:
        ClientOptions(**given)
    return caught.value


@pytest.mark.parametrize(
    ("given", "option", "says"),
    [
        ({"modle": "x"}, "modle", "modle: is unknown; did you mean 'model'?"),
        ({"permissionMode": "plan"}, "permissionMode", "permissionMode: is unknown; did you mean 'permission_mode'?"),
        ({"mcp-server": {}}, "mcp-server", "mcp-server: is unknown; did you mean 'mcp_servers'?"),
        (
            {"spawn-claude-code-process": 1},
            "spawn-claude-code-process",
            "spawn-claude-code-process: is unknown; use spawn",
        ),
        ({"zzz": 1}, "zzz", "zzz: is unknown"),
        ({"sandbox": {"enabld": 1}}, "sandbox", "sandbox: enabld is unknown; did you mean 'enabled'?"),
        ({"sandbox": {"zzz": 1}}, "sandbox", "sandbox: zzz is unknown"),
        (
            {"sandbox": {"network": {"deniedDomain": []}}},
            "sandbox",
            "sandbox: network.deniedDomain is unknown; did you mean 'denied_domains'?",
        ),
        (
            {"sandbox": {"network": {"denied_domains": [5]}}},
            "sandbox",
            "sandbox: network.denied_domains[0] must be a valid string, not int",
        ),
        ({"agents": {"a": {"prompt": ""}}}, "agents", "agents: agent 'a': description is missing"),
        (
            {"agents": {"a b": WORKER | {"max_turns": 0}}},
            "agents",
            "agents: agent 'a b': max_turns must be greater than or equal to 1",
        ),
        ({"timeouts": 5}, "timeouts", "timeouts: must be a valid dictionary or instance of Timeouts, not int"),
        (
            {"timeouts": {"connect": -1, "contrl": 2}},
            "timeouts",
            "timeouts: connect must be greater than 0 (also: timeouts.contrl is unknown; did you mean 'control'?)",
        ),
    ],
)
def test_a_mistake_says_where(given: dict[str, Any], option: str, says: str) -> None:
    error = refused(**given)
    assert str(error) == says
    assert error.option == option
    assert pickle.loads(pickle.dumps(error)).option == option


def test_a_part_by_itself_names_its_class() -> None:
    with pytest.raises(OptionsError, match=r"^AgentDefinition.description: is missing$"):
        AgentDefinition(prompt="You work.")


def test_validating_an_object_raises_the_same() -> None:
    with pytest.raises(OptionsError, match=r"^Timeouts: must be a valid dictionary or instance of Timeouts, not int"):
        Timeouts.model_validate(5)
    assert ClientOptions.model_validate({"timeouts": {"connect": 1}}).timeouts == Timeouts(connect=1)


def test_no_value_is_shown_anywhere() -> None:
    error = refused(timeouts={"connect": "SECRET"})
    assert "SECRET" not in str(error)
    assert error.__context__ is None
    assert error.__cause__ is None


def test_a_value_cannot_be_changed_but_replaced() -> None:
    timeouts = Timeouts(connect=1)
    with pytest.raises(OptionsError, match="use replace"):
        timeouts.connect = 2  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        timeouts.conect = 2
    assert timeouts.replace(connect=2) == Timeouts(connect=2)
    assert timeouts.model_copy() == timeouts
    with pytest.raises(OptionsError, match=r"^Timeouts.connect: must be greater"):
        timeouts.model_copy(update={"connect": 0})


def test_a_repr_has_what_was_set_in_order() -> None:
    shown = repr(ClientOptions(title="x" * 100, model="opus"))
    assert shown == f"ClientOptions(model='opus', title='{'x' * 60}...')"

"""Permission rules go to the CLI in one text, which it splits (measured with 2.1.328): none may fall into pieces."""

import json

import pytest
from hypothesis import given, strategies as st
from launched_cli import LONG_LIST_CHARS
from plans import plan_of

from claude_agent_py import ClientOptions
from claude_agent_py.errors import OptionsError

WHOLE = [
    "Read",
    "Bash(git log *)",
    "Bash(git log, status)",
    "Bash(python -c 'f()')",
    "Skill(a:b)",
    "mcp__my_server__x",
]
MANY = [f"mcp__server__tool_{number}" for number in range(LONG_LIST_CHARS // 10)]


def split(rules: list[str]) -> list[str]:
    """Return the rules of a list that is too long for the command line, and is split here for the settings."""
    [text] = plan_of(ClientOptions(allowed_tools=[*rules, *MANY])).files.values()
    allowed: list[str] = json.loads(text)["permissions"]["allow"]
    assert allowed[-len(MANY) :] == MANY
    return allowed[: -len(MANY)]


def is_accepted(rule: str) -> bool:
    try:
        ClientOptions(allowed_tools=[rule])
    except OptionsError:
        return False
    return True


def test_a_long_list_is_split_into_its_rules() -> None:
    assert split([]) == []
    assert split(WHOLE) == WHOLE


RULES = st.text(alphabet="ab()', *").map(lambda inside: f"Bash({inside})")


@given(st.lists(RULES.filter(is_accepted), unique=True, max_size=4))
def test_rules_that_are_accepted_alone_stay_whole_together(rules: list[str]) -> None:
    assert split(rules) == rules


@pytest.mark.parametrize("rule", WHOLE)
def test_a_rule_that_stays_whole_is_accepted(rule: str) -> None:
    assert is_accepted(rule)


@pytest.mark.parametrize(
    "rule",
    [
        *("mcp__my server", "A,B", " Read", "Bash(a) b", "", "Bash(a (b) c)", "Bash(git", "Read,\tEdit"),
        *("Bash(git *) Edit", "Bash(a (b), c)", "mcp__my server__x,Skill(a:b)"),
    ],
)
def test_a_rule_that_falls_into_pieces_is_refused(rule: str) -> None:
    with pytest.raises(OptionsError, match="allowed_tools"):
        ClientOptions(allowed_tools=[rule])

"""Lists of rules in one text, split as the CLI splits them. The expectations were measured on CLI 2.1.328."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from claude_agent_py.wire.settings.rule_lists import split_rules, survives_splitting, tool_of


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", []),
        ("Read", ["Read"]),
        ("Bash(git log *),Read", ["Bash(git log *)", "Read"]),
        ("Bash(git log, status),Read", ["Bash(git log, status)", "Read"]),
        ("Read,\tEdit", ["Read", "Edit"]),
        ("Bash(git *) Edit", ["Bash(git *)", "Edit"]),
        ("Bash(a (b), c)", ["Bash(a (b)", "c)"]),
        ("Bash(python -c 'f()')", ["Bash(python -c 'f()')"]),
        ("mcp__my server__x,Skill(a:b)", ["mcp__my", "server__x", "Skill(a:b)"]),
    ],
)
def test_a_list_is_split_as_the_cli_does(text: str, rules: list[str]) -> None:
    assert split_rules(text) == rules


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # brackets rarely match
@given(st.lists(st.text(alphabet="ab()', *", min_size=1).filter(survives_splitting)))
def test_rules_that_survive_alone_survive_together(rules: list[str]) -> None:
    assert split_rules(",".join(rules)) == rules


@pytest.mark.parametrize("rule", ["mcp__my server", "A,B", " Read", "Bash(a) b", "", "Bash(a (b) c)", "Bash(git"])
def test_a_rule_that_falls_into_pieces_is_known(rule: str) -> None:
    assert not survives_splitting(rule)


def test_a_rule_is_about_a_tool() -> None:
    assert tool_of("Bash(git *)") == "Bash"
    assert tool_of("Read") == "Read"

"""Guides: they speak of what the model has, and reports are cut where a sentence ends."""

import pytest
from hypothesis import given, strategies as st

from claude_agent_py import AgentDefinition
from claude_agent_py.agents import DelegationGuide, agent_table, shorten_report
from claude_agent_py.errors import OptionsError
from claude_agent_py.formatting import text_length

AGENTS = {
    "reader": AgentDefinition(description="Reads a | b\n\nand more", prompt="p", tools=["Read"], model="haiku"),
    "doer": AgentDefinition(description="Does\nthings", prompt="p", disallowed_tools=["Write"]),
    "mute": AgentDefinition(description="x" * 50 + " y" * 500, prompt="p", tools=[]),
}


def test_the_table_has_a_row_for_each_agent() -> None:
    header, line, reader, doer, mute = agent_table(AGENTS).splitlines()
    assert header == "| agent | model | tools | use it for |"
    assert line == "|---|---|---|---|"
    assert reader == "| reader | haiku | Read | Reads a \\| b |"
    assert doer == "| doer | default | all but Write | Does things |"
    assert mute.startswith("| mute | default | none | xxx")
    assert mute.endswith(" ... |")
    assert len(mute) < 350


def test_a_guide_says_when_to_do_what() -> None:
    guide = DelegationGuide(delegate_when=["A"], use_tools_when=["B"], how_to=["C"], max_report_chars=2500)
    text = guide.text(AGENTS)
    assert agent_table(AGENTS) in text
    assert "Delegate when:\n- A" in text
    assert "Use a tool yourself when:\n- B" in text
    assert "- C\n- Ask for reports of at most 2,500 characters." in text


def test_a_guide_without_own_agents_describes_the_others() -> None:
    text = DelegationGuide().text()
    assert "You can delegate work to agents (tool `Agent`, parameter `subagent_type`)." in text
    assert "run it in the background" in text
    assert "|" not in text


def test_a_guide_names_only_what_the_model_has() -> None:
    subtasks = {"mcp__tools__create_subtask_doer": AGENTS["doer"]}
    text = DelegationGuide(max_report_chars=900).text(AGENTS, subtask_tools=subtasks, has_agent_tool=False)
    assert "| mcp__tools__create_subtask_doer | default | all but Write | Does things |" in text
    assert "`Agent`" not in text
    assert "| reader |" not in text
    assert "in the background" not in text  # a subtask tool waits for its agent
    assert DelegationGuide().text(AGENTS, has_agent_tool=False) == ""
    assert "in the background" not in DelegationGuide().text(AGENTS, has_background=False)


def test_a_mistake_in_a_guide_is_reported() -> None:
    with pytest.raises(OptionsError, match=r"^DelegationGuide.max_report_chars: must be greater than or equal to 1"):
        DelegationGuide(max_report_chars=0)


@pytest.mark.parametrize(
    ("report", "limit", "kept"),
    [
        ("Short.", 6, "Short."),
        ("Short.", None, "Short."),
        ("One is here. Two is there. Three " + "x" * 100, 92, "One is here. Two is there."),
        ('He said "stop!" and went. ' + "y" * 100, 77, 'He said "stop!"'),
        ("No end in sight " * 20, 90, "No end in sight No end in sight N"),
    ],
)
def test_a_report_is_cut_at_a_sentence(report: str, limit: int | None, kept: str) -> None:
    short = shorten_report(report, limit)
    assert short.removesuffix(f"\n\n[The report has {len(report):,} characters; this is its beginning.]") == kept


@given(st.text(), st.integers(0, 200))
def test_a_report_is_never_longer_than_allowed(report: str, limit: int) -> None:
    short = shorten_report(report, limit)
    assert text_length(short) <= max(limit, 0) or short == report
    assert short == report or text_length(report) > limit

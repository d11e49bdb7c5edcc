"""The table: every option stands in it, and nothing else."""

import pytest

from claude_agent_py import ClientOptions
from claude_agent_py.options.table import AWAITED, BY_DEFAULT, TABLE, Row


def test_every_option_is_in_the_table() -> None:
    assert {name for row in TABLE for name in row.reads} == ClientOptions.model_fields.keys()


def test_no_flag_is_written_twice() -> None:
    names = [row.name for row in TABLE if row.kind in ("flag", "variable", "field")]
    assert len(names) == len(set(names))


KNOWN_TO_THE_CLI = {
    *("agents", "agentProgressSummaries", "appendSubagentSystemPrompt", "appendSystemPrompt", "disallowedTools"),
    *("excludeDynamicSections", "forwardNestedSubagentToolCalls", "forwardSubagentText", "hooks", "jsonSchema"),
    *("managedSettings", "mcpServers", "perTaskStopAffordance", "planModeInstructions", "plugins"),
    *("promptSuggestions", "settings", "skills", "supportedDialogKinds", "systemPrompt", "systemPromptSnapshot"),
    *("title", "toolAliases", "workspaceTrust"),
}
"""Fields of `initialize`. The CLI ignores others without a word."""


def test_fields_are_those_of_the_request() -> None:
    assert {row.name for row in TABLE if row.kind == "field"} | AWAITED.keys() <= KNOWN_TO_THE_CLI


def test_long_lists_go_where_there_is_room() -> None:
    assert {row.when_long for row in TABLE if row.kind == "flag"} == {None, "settings", *AWAITED} - {
        "mcpServers",
        "managedSettings",
    }


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_options_as_they_come_tell_next_to_nothing(row: Row) -> None:
    if row.kind in ("here", "settings", "start"):
        return
    assert row.value(ClientOptions()) is None or row.name in BY_DEFAULT

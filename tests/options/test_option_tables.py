"""What a start, a child and a pool do with each option, and why. A new option fails these tests until it is decided."""

from dataclasses import dataclass

import pytest
from launched_cli import FLAGS
from peers import start_in_memory

from claude_agent_py import ClientOptions, Timeouts
from claude_agent_py.children.process_options import ANSWERING, INHERITED
from claude_agent_py.options.table import AWAITED, BY_DEFAULT, TABLE, Row
from claude_agent_py.pool.compatibility import NOT_PARKED, ONE_SESSION
from claude_agent_py.testing import FakeCLI, steps


@dataclass(frozen=True)
class Group:
    """Options that are treated alike, for one reason."""

    reason: str
    names: str
    inherited: bool = False
    parked: bool = True

    @property
    def options(self) -> list[str]:
        return self.names.split()


GROUPS = [
    # What a child inherits
    Group(
        "the program and its environment: a child runs where its parent runs",
        "cli_path cwd env inherit_env home login user client_app timeouts limits persist_session",
        inherited=True,
    ),
    Group(
        "the model and what it may spend",
        "model fallback_model thinking max_thinking_tokens effort betas max_budget_usd max_subagent_depth"
        " max_concurrent_subagents",
        inherited=True,
    ),
    Group(
        "what the model may do: a child may do no more",
        "tools disallowed_tools allowed_tools tool_aliases skills permission_mode permission_prompts"
        " allow_dangerously_skip_permissions setting_sources managed_settings strict_mcp_config",
        inherited=True,
    ),
    Group(
        "the same, but it depends on the directory",
        "additional_directories sandbox settings project_config_root spawn",
        inherited=True,
        parked=False,
    ),
    Group("what the parent shows of subagents", "forward_subagent_text forward_nested_subagent_tool_calls", True),
    Group("answers servers of this process", "on_sampling", inherited=True),
    # What it inherits by other rules
    Group("answers for a person, with these or with the child's own", " ".join(ANSWERING)),
    Group(
        "belongs to the handlers above", "supported_dialog_kinds question_preview_format permission_prompt_tool_name"
    ),
    Group("a child inherits the hooks about tool calls", "hooks"),
    Group("a child gets the servers that its definition names", "mcp_servers"),
    Group("a child has its own agents, and is one", "agents agent"),
    Group("a child's prompts are verbatim, because a model wrote them", "verbatim_prompts"),
    # What it does not inherit
    Group("names the parent's session", " ".join(ONE_SESSION)),
    Group("belongs to the parent's session", "title show_cut_off_calls enable_file_checkpointing session_mirror"),
    Group("the store keeps the parent's session; not tested with a claim", "session_store", parked=False),
    Group("belongs to the store", "session_store_project session_store_flush load_timeout on_store_error"),
    Group(
        "instructs the parent's model",
        "system_prompt plan_mode_instructions delegation_guide append_subagent_system_prompt task_list_tools"
        " task_budget",
    ),
    Group("ends a run of the parent", "max_turns late_tasks"),
    Group("adds tools", "custom_tools"),
    Group("adds tools and hooks, from paths", "plugins", parked=False),
    Group("any flag, which may name the parent's session", "extra_args"),
    Group("the output of the parent's runs", "output_type output_format prompt_suggestions"),
    Group(
        "what the program wants to know of the parent",
        "include_partial_messages include_hook_events agent_progress_summaries per_task_stop_affordance"
        " on_task_notification on_task_event on_stderr debug debug_file",
    ),
    Group("a child is part of its parent's traces", "telemetry"),
]


def test_every_option_is_in_one_group() -> None:
    assert sorted(name for group in GROUPS for name in group.options) == sorted(ClientOptions.model_fields)


def test_a_child_inherits_the_options_of_these_groups() -> None:
    assert {name for group in GROUPS if group.inherited for name in group.options} == {*INHERITED}


def test_a_parked_process_has_none_of_the_options_that_depend_on_the_directory() -> None:
    """Except `mcp_servers`, of which it may have those of this process."""
    assert {name for group in GROUPS if not group.parked for name in group.options} == {*NOT_PARKED}


OTHER_TIMEOUTS = {"connect", "control", "close"}
"""The time limits that are not about a run."""


@pytest.mark.anyio
async def test_every_time_limit_of_the_options_reaches_the_run() -> None:
    given = {name: float(number) for number, name in enumerate(Timeouts.model_fields, start=60)}
    async with start_in_memory(FakeCLI(steps.turn()), timeouts=Timeouts(**given)) as client:
        run = client.query("hi")
        (opened,) = client.session.router.open_runs
        limits = {name: getattr(opened.limits, name) for name in opened.limits.__struct_fields__}
        await run
    assert limits == {name: given[name] for name in given.keys() - OTHER_TIMEOUTS}


# The table of the start


def test_every_option_is_in_the_table() -> None:
    assert {name for row in TABLE for name in row.reads} == ClientOptions.model_fields.keys()


def test_the_flags_are_those_that_a_test_gives_to_the_cli() -> None:
    assert {row.name for row in TABLE if row.kind == "flag"} == FLAGS


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

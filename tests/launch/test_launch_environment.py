"""The environment: what is inherited, what is added, and who has the last word."""

from typing import Any

import pytest

from claude_agent_py.launch.environment import MARKS, environment
from claude_agent_py.options import ClientOptions

OWN = {"CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "CLAUDE_AGENT_SDK_CLIENT_APP"}


def test_the_surrounding_environment_is_added_to() -> None:
    env = environment(ClientOptions(env={"B": "2", "C": "3"}), {"A": "1", "B": "1"})
    assert {name: env[name] for name in env.keys() - OWN} == {"A": "1", "B": "2", "C": "3"}
    assert env.keys() >= OWN


def test_a_clean_environment_has_what_is_given_and_nothing_else() -> None:
    env = environment(ClientOptions(env={"B": "2"}, inherit_env=False), {"A": "1"})
    assert env.keys() == OWN | {"B"}


def test_marks_of_a_surrounding_session_are_not_passed_on() -> None:
    surrounding = dict.fromkeys(MARKS, "1") | {"CLAUDE_CODE_OAUTH_TOKEN": "t", "CLAUDE_CONFIG_DIR": "d"}
    env = environment(ClientOptions(), surrounding)
    assert env.keys() == OWN | {"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"}
    assert env["CLAUDE_CODE_ENTRYPOINT"] == "sdk-py"
    assert environment(ClientOptions(env={"CLAUDECODE": "1"}), {})["CLAUDECODE"] == "1"


def test_a_variable_can_be_taken_away() -> None:
    env = environment(ClientOptions(env={"A": None, "MISSING": None, "CLAUDE_CODE_ENTRYPOINT": None}), {"A": "1"})
    assert env.keys() == OWN - {"CLAUDE_CODE_ENTRYPOINT"}


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"task_list_tools": True}, "CLAUDE_CODE_ENABLE_TODO_TOOLS", "1"),
        ({"max_subagent_depth": 2}, "CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH", "2"),
        ({"max_concurrent_subagents": 5}, "CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS", "5"),
        ({"enable_file_checkpointing": True}, "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true"),
        ({"question_preview_format": "html"}, "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT", "html"),
        ({"client_app": "mine/1"}, "CLAUDE_AGENT_SDK_CLIENT_APP", "mine/1"),
    ],
)
def test_options_become_variables(options: dict[str, Any], name: str, value: str) -> None:
    assert environment(ClientOptions(**options), {name: "inherited"})[name] == value
    assert environment(ClientOptions(**options, env={name: "mine"}), {})[name] == "mine"
    assert environment(ClientOptions(), {name: "inherited"})[name] == "inherited"

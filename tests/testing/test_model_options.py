"""`ScriptedModel.options`."""

from pathlib import Path

import pytest

from claude_agent_py.errors import OptionsError
from claude_agent_py.permissions import deny_tools
from claude_agent_py.testing import ScriptedModel


def test_the_options_are_those_of_the_sandbox() -> None:
    with ScriptedModel() as model:
        options = model.options()
        assert options.inherit_env is False
        assert options.env == model.environment()
        assert options.cwd == model.sandbox.cwd
        assert options.permission_mode == "bypassPermissions"


def test_overrides_win_and_env_is_added(tmp_path: Path) -> None:
    with ScriptedModel() as model:
        options = model.options(cwd=tmp_path, permission_mode="default", env={"EXTRA": "1", "HOME": "/h"}, max_turns=3)
        assert (options.cwd, options.permission_mode, options.max_turns) == (tmp_path, "default", 3)
        assert options.env == model.environment() | {"EXTRA": "1", "HOME": "/h"}


def test_unknown_options_are_refused() -> None:
    with ScriptedModel() as model, pytest.raises(OptionsError, match="no_such_option"):
        model.options(no_such_option=1)


def test_permissions_are_bypassed_unless_something_answers_prompts() -> None:
    with ScriptedModel() as model:
        assert model.options().permission_mode == "bypassPermissions"
        assert model.options(can_use_tool=None, interactions=False).permission_mode == "bypassPermissions"
        assert model.options(can_use_tool=deny_tools("*")).permission_mode == "default"
        assert model.options(interactions=True).permission_mode == "default"
        assert model.options(permission_prompts="host").permission_mode == "default"
        assert model.options(hooks={"PermissionRequest": [lambda input, context: None]}).permission_mode == "default"
        assert model.options(can_use_tool=deny_tools("*"), permission_mode="plan").permission_mode == "plan"

"""Valid agent names."""

from typing import Any

from claude_agent_py._errors import OptionsError


def check_name(name: Any) -> str:
    """Return the name of an agent if the CLI accepts it. Raises OptionsError for other names."""
    if not isinstance(name, str):
        raise OptionsError(f"the name of an agent must be a string, not {type(name).__name__}", option="agents")
    if not name.strip() or name != name.strip():
        problem = "must not be empty or begin or end with a space"
    elif name.startswith("-"):
        problem = "must not begin with '-': the CLI drops the agent"
    elif "," in name or not name.isprintable():
        problem = "must not contain a comma or a control character"
    else:
        return name
    raise OptionsError(f"the agent name {name!r} {problem}", option="agents")

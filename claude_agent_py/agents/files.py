"""Agents in Markdown files, alone and in folders."""

from dataclasses import dataclass
from pathlib import Path

from claude_agent_py._errors import OptionsError
from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.agents.markdown import FENCE, Unknown, read_definition, read_text


@dataclass(frozen=True)
class AgentFile:
    """The agent in a file."""

    name: str
    definition: AgentDefinition


def load_agents(directory: str | Path, *, unknown: Unknown = "error") -> dict[str, AgentDefinition]:
    """Read all agents in a directory (`*.md`, including subdirectories) by name. Blocks while reading.

    A `README.md` without front matter is skipped.
    `unknown` sets how unknown fields are handled. Requires the extra `agents`.

    Raises:
        OptionsError: The directory is missing, a file is invalid, or two define the same agent. The message names the
            file and line.
        ImportError: PyYAML is not installed.
    """
    root = Path(directory).expanduser()
    if not root.is_dir():
        raise OptionsError(f"no such directory: {root}", option="agents")
    found: dict[str, tuple[Path, AgentDefinition]] = {}
    for path in sorted(root.rglob("*.md")):
        if path.name.lower() == "readme.md" and not read_text(path).startswith(FENCE):
            continue
        agent = read_agent(path, unknown=unknown)
        if agent.name in found:
            raise OptionsError(f"{path} and {found[agent.name][0]} both define {agent.name!r}", option="agents")
        found[agent.name] = (path, agent.definition)
    return {name: definition for name, (_, definition) in found.items()}


def read_agent(source: str | Path, *, unknown: Unknown = "error") -> AgentFile:
    """Read an agent from a file (a `Path`) or from its text (a `str`).

    Without a `name` in the front matter, a file's agent is named after the file and a text's agent is named `agent`.

    Raises:
        OptionsError: The source does not define an agent; the message names the file and line.
        ImportError: PyYAML is not installed.
    """
    return AgentFile(*read_definition(source, AgentDefinition, unknown=unknown))

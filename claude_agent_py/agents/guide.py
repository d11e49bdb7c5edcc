"""The text that tells the model when to delegate work to agents."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from claude_agent_py._configuration import ConfigModel
from claude_agent_py.agents.definition import AgentDefinition

DELEGATE_WHEN: Final = (
    "the work needs many searches or long output of which only the conclusion matters here",
    "several parts are independent of each other: start one agent for each, all in one message",
    "an agent below is made for exactly this kind of work",
    "the work takes long and you can continue without it: run it in the background",
)

USE_TOOLS_WHEN: Final = (
    "you know the file, the name or the command already: reading one file is one tool call",
    "the next step depends on details of what you find, not on a summary of them",
    "it takes fewer calls to do it than words to describe it",
    "you have already delegated it: do not do the same work twice",
)

HOW_TO: Final = (
    "An agent does not see this conversation. Tell it the goal, what you know, absolute paths, limits, and the form of "
    "the report you want.",
    "An agent's report goes to you, not to the user. Check it against the task, then tell the user what matters in it.",
    "A report is a summary. Where the exact words matter, read the source yourself.",
)

MAX_CELL_CHARS: Final = 300


class DelegationGuide(ConfigModel):
    """The text that tells the model when to hand work to an agent and when to use a tool itself.

    The option `delegation_guide` puts it at the end of the system prompt, with a table of the option `agents`.
    """

    delegate_when: list[str] = Field(default=list(DELEGATE_WHEN))
    use_tools_when: list[str] = Field(default=list(USE_TOOLS_WHEN))
    how_to: list[str] = Field(default=list(HOW_TO))
    """Advice on delegating."""
    max_report_chars: Annotated[int, Field(ge=1)] | None = None
    """Maximum length of reports. Agents are asked to keep to it, and reports of child agents are cut to it."""

    def text(self, agents: Mapping[str, AgentDefinition]) -> str:
        """Return the text for these agents; empty without agents."""
        if not agents:
            return ""
        limit = self.max_report_chars
        how_to = [*self.how_to, f"Ask for reports of at most {limit:,} characters."] if limit else self.how_to
        return "\n\n".join(
            (
                "# Delegating",
                "You can delegate work to these agents (tool `Agent`, parameter `subagent_type`):",
                agent_table(agents),
                f"Delegate when:\n{_bullets(self.delegate_when)}",
                f"Use a tool yourself when:\n{_bullets(self.use_tools_when)}",
                f"How to delegate:\n{_bullets(how_to)}",
            )
        )


def agent_table(agents: Mapping[str, AgentDefinition]) -> str:
    """Return a Markdown table of agents: name, model, tools, and when to use each."""
    rows = [
        (name, agent.model or "default", _tools(agent), agent.description.strip().split("\n\n")[0])
        for name, agent in agents.items()
    ]
    lines = [" | ".join(_cell(cell) for cell in row) for row in rows]
    return "\n".join(
        ["| agent | model | tools | use it for |", "|---|---|---|---|", *(f"| {line} |" for line in lines)]
    )


def _tools(agent: AgentDefinition) -> str:
    if agent.tools is not None:
        return ", ".join(agent.tools) or "none"
    return f"all but {', '.join(agent.disallowed_tools)}" if agent.disallowed_tools else "all"


def _cell(text: str) -> str:
    line = " ".join(text.split()).replace("|", "\\|")
    return line if len(line) <= MAX_CELL_CHARS else f"{line[:MAX_CELL_CHARS].rsplit(' ', 1)[0]} ..."


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)

"""The text that explains to the model when to delegate work to agents."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from claude_agent_py._base.configuration import ConfigModel
from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.formatting.truncation import take, text_length, truncate

PRINCIPLE: Final = (
    "Delegate when only the conclusion matters here; use a tool yourself when the details matter or one call answers."
)

COST: Final = (
    "Cost: an agent starts without context, rereads files that you have read, and bills a separate conversation."
)

IN_THE_BACKGROUND: Final = "the work takes long and you can continue without it: run it in the background"

DELEGATE_WHEN: Final = (
    "the work needs many searches or long output of which only the conclusion matters here",
    "several parts are independent of each other: start one agent for each, all in one message",
    "an agent is made for exactly this kind of work",
    IN_THE_BACKGROUND,
)

USE_TOOLS_WHEN: Final = (
    "you already know the file, the name or the command: reading one file is one tool call",
    "the next step depends on details of the findings, not on a summary",
    "doing it takes fewer calls than describing it takes words",
    "you have already delegated it: do not do the same work twice",
)

EXAMPLES: Final = (
    '"Where is the class Invoice defined?": search for `class Invoice` yourself. One call answers it.',
    '"Which services still rely on the old invoice format, and how?": delegate. It takes many searches over many '
    "files, and you need only the answer.",
)

HOW_TO: Final = (
    "An agent does not see this conversation. Tell it the goal, what you know, absolute paths, limits, and the form of "
    "the report you want.",
    "An agent's report goes to you, not to the user. Check it against the task, then tell the user what matters in it.",
    "A report is a summary. Where the exact words matter, read the source yourself.",
)

MAX_CELL_CHARS: Final = 300

MAX_LISTING_CHARS: Final = 9000
"""Maximum length of `cli_agents_text`. The CLI (2.1.328) writes longer texts of hooks, beyond 10,000 characters, to a
file."""

LISTING_INTRO: Final = (
    "The agents of the CLI and those defined in files (tool `Agent`, parameter `subagent_type`). The list of agent "
    "types says which tools each has."
)

ROOM_FOR_COUNT: Final = 100
"""How many characters of `cli_agents_text` are kept for the number of agents left out."""


class DelegationGuide(ConfigModel):
    """The text that explains to the model when to delegate work to an agent and when to use a tool itself.

    The option `delegation_guide` appends it to the system prompt, with tables of the option `agents` and of the tools
    that start child agents. The CLI's own agents and those in files, as the CLI lists them, come with the first prompt.
    """

    principle: str = PRINCIPLE
    """When to delegate, in one line."""
    delegate_when: list[str] = Field(default=list(DELEGATE_WHEN))
    use_tools_when: list[str] = Field(default=list(USE_TOOLS_WHEN))
    examples: list[str] = Field(default=list(EXAMPLES))
    how_to: list[str] = Field(default=list(HOW_TO))
    """Advice on delegating."""
    cost: str = COST
    """The cost of delegating, in one line."""
    max_report_chars: Annotated[int, Field(ge=1)] | None = None
    """Maximum length of the reports that the model reads, counted as the CLI does (UTF-16 code units).

    The guide asks for it. Reports of foreground subagents and of child agents are cut to it, at the end of a sentence.
    The CLI delivers reports of background subagents itself, and they cannot be cut: a background subagent with a
    longer report is asked once to shorten it. If its next report is also too long, it is delivered whole, with a
    warning in the log. The task keeps the full report (`Task.summary`), and the transcript has every report."""

    def text(
        self,
        agents: Mapping[str, AgentDefinition | Mapping[str, object]] | None = None,
        *,
        subtask_tools: Mapping[str, AgentDefinition] | None = None,
        has_agent_tool: bool = True,
        has_background: bool = True,
    ) -> str:
        """Return the text.

        Args:
            agents: The caller's agents by name.
            subtask_tools: The agents that tools start in separate processes, by the name of the tool.
            has_agent_tool: Whether the model has the tool `Agent`. Without it and without `subtask_tools` the text is
                empty.
            has_background: Whether agents can run in the background.
        """
        definitions = {name: AgentDefinition.model_validate(agent) for name, agent in (agents or {}).items()}
        subtask_tools = subtask_tools or {}
        if not has_agent_tool and not subtask_tools:
            return ""
        waits = not (has_agent_tool and has_background)
        delegate_when = [line for line in self.delegate_when if not (waits and line == IN_THE_BACKGROUND)]
        limit = self.max_report_chars
        how_to = [*self.how_to, f"Ask for reports of at most {limit:,} characters."] if limit else self.how_to
        parts = (
            "# Delegating",
            self.principle,
            _build_agents_part(definitions) if has_agent_tool else "",
            _build_subtasks_part(subtask_tools),
            _format_list("Delegate when:", delegate_when),
            _format_list("Use a tool yourself when:", self.use_tools_when),
            _format_list("Examples:", self.examples),
            _format_list("How to delegate:", how_to),
            self.cost,
        )
        return "\n\n".join(part for part in parts if part)


def agent_table(agents: Mapping[str, AgentDefinition]) -> str:
    """Return a Markdown table of agents: name, model, tools, and when to use each."""
    return _build_table("agent", agents)


def cli_agents_text(agents: Iterable[Any]) -> str:
    """Return a table of the agents that the CLI lists (`AgentInfo`): name, model, and when to use each.

    At most `MAX_LISTING_CHARS`; the remaining agents are only counted. Empty without agents.
    """
    rows = [(str(agent.name), agent.model or "default", agent.description or "") for agent in agents]
    if not rows:
        return ""
    lines = [LISTING_INTRO, "", *_build_head(("agent", "model", "use it for"))]
    room = MAX_LISTING_CHARS - text_length("\n".join(lines)) - ROOM_FOR_COUNT
    for count, line in enumerate(map(_build_row, rows)):
        room -= 1 + text_length(line)
        if room < 0:
            return "\n".join([*lines, "", f"{len(rows) - count} more are in the list of agent types."])
        lines.append(line)
    return "\n".join(lines)


def _build_agents_part(agents: Mapping[str, AgentDefinition]) -> str:
    if not agents:
        return "You can delegate work to agents (tool `Agent`, parameter `subagent_type`)."
    return (
        "You can delegate work to these agents (tool `Agent`, parameter `subagent_type`), and to the others that the "
        f"conversation lists:\n\n{agent_table(agents)}"
    )


def _build_subtasks_part(tools: Mapping[str, AgentDefinition]) -> str:
    if not tools:
        return ""
    return (
        "These tools each start an agent in a separate process, wait for it and return its report:\n\n"
        f"{_build_table('tool', tools)}"
    )


def _build_table(first: str, agents: Mapping[str, AgentDefinition]) -> str:
    rows = [(name, agent.model or "default", _format_tools(agent), agent.description) for name, agent in agents.items()]
    return "\n".join([*_build_head((first, "model", "tools", "use it for")), *map(_build_row, rows)])


def _build_head(names: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def _build_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_format_cell, cells))} |"


def _format_tools(agent: AgentDefinition) -> str:
    if agent.tools is not None:
        return ", ".join(agent.tools) or "none"
    return f"all but {', '.join(agent.disallowed_tools)}" if agent.disallowed_tools else "all"


def _format_cell(text: str) -> str:
    line = " ".join(text.strip().split("\n\n")[0].split()).replace("|", "\\|")
    return line if len(line) <= MAX_CELL_CHARS else f"{line[:MAX_CELL_CHARS].rsplit(' ', 1)[0]} ..."


def _format_list(title: str, lines: list[str]) -> str:
    return "\n".join([title, *(f"- {line}" for line in lines)]) if lines else ""


def shorten_report(report: str, max_chars: int | None) -> str:
    """Cut a report at the end of a sentence and note its full length; at most `max_chars` including the note.

    Cuts inside a sentence if no sentence ends in the second half of the allowed text. Shortens or omits the note if it
    does not fit. With None, nothing is cut. Lengths are counted as the CLI counts them (see `formatting.truncation`).
    """
    if max_chars is None or text_length(report) <= max_chars:
        return report
    total = text_length(report)
    note = f"\n\n[The report has {total:,} characters; this is its beginning.]"
    room = max_chars - text_length(note)
    if room <= 0:
        return truncate(report, max_chars)
    kept = take(report, room)
    ends = [match.end() for match in re.finditer(r"[.!?…][\"')\]]*(?=\s|\Z)|\n(?=\n)", kept)]
    whole = ends[-1] if ends and ends[-1] > len(kept) // 2 else len(kept)
    return kept[:whole].rstrip() + note

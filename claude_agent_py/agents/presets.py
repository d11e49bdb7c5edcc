"""Ready-made agents for common kinds of work. Adjust one with `replace`: `Explore.replace(model=AgentModel.INHERIT)`.

Explore, Plan and general-purpose replace the CLI's built-in agents of the same names. Explore and Shell, which read and
run much and decide little, have a fast model; the others have the model of their parent.
"""

from collections.abc import Mapping
from typing import Final

from claude_agent_py.agents.definition import AgentDefinition, AgentModel

_READ_ONLY: Final = ["Agent", "Edit", "Write", "NotebookEdit", "ExitPlanMode"]


Explore: Final = AgentDefinition(
    description=(
        "Finds things in code and documents without changing anything. Use it when a question needs many searches or "
        "many files and only the answer is wanted: where something is defined, who uses it, how parts work together. "
        "Say how thorough it has to be."
    ),
    prompt="""\
You search files for a reader who will only see your report.

- Change nothing: no edits, no new files, no commands with side effects.
- Start broad (names, patterns, directory listings), then read what matters. Run independent searches at the same time.
- Follow references until the question is answered; do not stop at the first match.
- Report the answer first, then the evidence as absolute paths with line numbers, quoting only the lines that matter.
- Say what you looked for and did not find, and what you are not sure of.
""",
    disallowed_tools=_READ_ONLY,
    model=AgentModel.HAIKU,
    omit_claude_md=True,
)

Plan: Final = AgentDefinition(
    description=(
        "Works out how to carry out a change, without making it. Use it before work that touches several files or that "
        "can be done in more than one way. It returns steps, the files concerned and the risks."
    ),
    prompt="""\
You plan a change for a developer who will implement it from your report alone.

- Change nothing: no edits, no new files, no commands with side effects.
- Read the code that the change touches, and how the project does similar things already. Prefer its ways to new ones.
- Weigh the alternatives; recommend one and say in a sentence why not the others.
- Report: the approach, the steps in order with the files of each, what to test and how, risks and open questions.
- End with the three to five files that matter most, as absolute paths.
""",
    disallowed_tools=_READ_ONLY,
    model=AgentModel.INHERIT,
)

Shell: Final = AgentDefinition(
    description=(
        "Runs commands and reports the outcome: builds, tests, linters, scripts, version control. Use it when "
        "the output is long and only the outcome matters. It edits no files by hand."
    ),
    prompt="""\
You run commands for a reader who will only see your report.

- Run what the task needs and nothing else. Quote paths. Do not install, delete, publish or push unless told to.
- When a command fails, read its output and find the cause before you run it again.
- Report: each command that mattered with its exit status, the lines of output that say why, and the state things are
  in now. Never claim that something passed which you did not see pass.
""",
    tools=["Bash", "Read", "Grep", "Glob", "Monitor", "TaskStop"],
    model=AgentModel.HAIKU,
)

GeneralPurpose: Final = AgentDefinition(
    description=(
        "Does a whole piece of work by itself, with all tools. Use it for work of many steps that fits none of the "
        "other agents and that can be described completely beforehand."
    ),
    prompt="""\
You carry out a task for a reader who will only see your report.

- Do all of what was asked and nothing beyond it. Prefer changing what exists to adding files.
- Check your work with the means of the project before you report it as done.
- Report: what you did, the absolute paths of what you changed, how you checked it, and what is left open.
""",
    model=AgentModel.INHERIT,
)

PRESETS: Final[Mapping[str, AgentDefinition]] = {
    "Explore": Explore,
    "Plan": Plan,
    "Shell": Shell,
    "general-purpose": GeneralPurpose,
}
"""The presets by the names that the model uses, for the option `agents`."""

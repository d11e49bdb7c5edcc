"""What a child agent is: a definition, and the options of the process that it runs in.

Owns the value that users write, and the start of a child from it. How its options come together is in
`process_options`, how it runs in `run`.
"""

import re
import warnings
from dataclasses import dataclass, field
from typing import Final, Literal

from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.agents.guide import DelegationGuide
from claude_agent_py.children.family import membership_of
from claude_agent_py.children.process_options import answers_itself, process_options, without_effect
from claude_agent_py.children.run import Assignment, ChildRun
from claude_agent_py.client import Client
from claude_agent_py.errors import OptionsError
from claude_agent_py.options.client_options import ClientOptions, OptionsWarning
from claude_agent_py.tasks.task import Task

REPORT_CHARS: Final = 4000
"""How long a report is at most that goes to a model, where nothing else is said."""

TITLE_CHARS: Final = 80
"""How much of the first line of a title is the description of the task."""


@dataclass(frozen=True)
class ChildAgent:
    """An agent that runs in a CLI process of its own. A value: it may be started any number of times, also at once.

    Raises:
        OptionsError: The id is no word, or a number is not positive.

    Warns:
        OptionsWarning: The definition has fields that do nothing in a process of its own.
    """

    definition: AgentDefinition
    """What it is. The whole session of its process is this agent."""
    id: str = field(default="", kw_only=True)
    """Its name: letters, digits, `_` and `-`. Made from the description where none is given."""
    options: ClientOptions | None = field(default=None, kw_only=True)
    """The options of its process; what the definition says wins. None takes from the parent where and how it works and
    what it may do, and neither its conversation nor its tools and agents. Either way, what is not answered by handlers
    of its own is asked of the parent's, and the parent's hooks about tool calls hold unless it has hooks of its own."""
    on_parent_cancel: Literal["cancel", "leave"] = field(default="cancel", kw_only=True)
    """What becomes of it when the tool call that waits for it is cancelled (an interrupt, a stop of the subagent that
    called, the end of the parent's process): it is cancelled too, or goes on in the background. Closing the client
    always ends it."""
    timeout: float | None = field(default=None, kw_only=True)
    """Seconds that it may work, waiting for people included; then it is `Error`. None is without limit."""
    max_report_chars: int | None = field(default=None, kw_only=True)
    """How long the report may be that goes to the parent's model. None is what the parent's `delegation_guide` says,
    else 4000. The whole of it is the task's."""

    def __post_init__(self) -> None:
        _check_type("definition", self.definition, AgentDefinition)
        if self.options is not None:
            _check_type("options", self.options, ClientOptions)
        _check_type("id", self.id, str)
        if self.on_parent_cancel not in ("cancel", "leave"):
            raise OptionsError(
                f"must be 'cancel' or 'leave', not {self.on_parent_cancel!r}", option="ChildAgent.on_parent_cancel"
            )
        name = self.id or "_".join(re.findall(r"[a-z0-9]+", self.definition.description.lower())[:4])
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", name):
            raise OptionsError("must be 1 to 64 letters, digits, '_' or '-'", option="ChildAgent.id")
        for option in ("timeout", "max_report_chars"):
            value = getattr(self, option)
            if value is not None and (not isinstance(value, int | float) or not value > 0):
                raise OptionsError("must be a number of more than 0", option=f"ChildAgent.{option}")
        if unused := without_effect(self.definition):
            warnings.warn(
                f"child agent {name!r}: {', '.join(unused)} of its definition mean nothing to a process of its own",
                OptionsWarning,
                stacklevel=3,
            )
        object.__setattr__(self, "id", name)

    async def spawn(self, client: Client, prompt: str, *, title: str | None = None) -> Task:
        """Start it under a client and give its task. Returns at once; the task is pending until a process is free.

        Args:
            client: Whose child it is to be.
            prompt: What it is to do.
            title: In a few words, for the task's description; None takes the first line of the prompt.

        Raises:
            OptionsError: The prompt is empty, or a limit for children is reached.
            ConnectionClosedError: The client is not open.
        """
        if not prompt.strip():
            raise OptionsError("it is empty; the agent needs something to do", option="prompt")
        return self.start(client, self.assignment(prompt, title or prompt, is_awaited=False)).task

    def assignment(
        self,
        prompt: str,
        title: str,
        *,
        is_awaited: bool,
        parent_task: Task | None = None,
        tool_use_id: str | None = None,
    ) -> Assignment:
        """Say what it is to be started for. `is_awaited`: a tool call blocks until it is over."""
        first_line = next(iter(title.strip().splitlines()), "")
        return Assignment(
            agent_id=self.id,
            prompt=prompt,
            title=first_line[:TITLE_CHARS],
            is_awaited=is_awaited,
            asks_parent=self.options is None or not answers_itself(self.options),
            parent_task_id=parent_task.id if parent_task is not None else None,
            tool_use_id=tool_use_id,
            timeout=self.timeout,
        )

    def start(self, client: Client, assignment: Assignment) -> ChildRun:
        """Start it and give the run.

        Raises:
            OptionsError: A limit for children is reached, or its options do not go together.
            ConnectionClosedError: The client is not open.
        """
        membership = membership_of(client)
        run = ChildRun(assignment, membership, self.options_under(client))
        run.begin()
        membership.define(self.id, self.definition)
        return run

    def options_under(self, client: Client) -> ClientOptions:
        """Give the options that its process has under a client.

        Raises:
            OptionsError: They do not go together.
        """
        features = client.session.answers
        return process_options(
            self.id,
            self.definition,
            self.options,
            client.options,
            mode=features.permission_mode,
            hooks=features.hooks.registered,
        )

    def report_chars_under(self, client: Client) -> int:
        """Give how long a report to the model of a client may be."""
        guide = client.options.delegation_guide
        asked = guide.max_report_chars if isinstance(guide, DelegationGuide) else None
        return self.max_report_chars or asked or REPORT_CHARS


def _check_type(name: str, value: object, expected: type) -> None:
    if not isinstance(value, expected):
        raise OptionsError(f"must be {expected.__name__}, not {type(value).__name__}", option=f"ChildAgent.{name}")

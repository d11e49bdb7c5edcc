"""What a child agent is: a definition, and the options of the process that it runs in.

Owns how the two and the parent's options become the options of the child. Does not know how a child runs (`run`).
"""

import re
import warnings
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from claude_agent_py.agents import AgentDefinition
from claude_agent_py.children.family import membership_of
from claude_agent_py.children.run import ChildRun
from claude_agent_py.client import Client
from claude_agent_py.errors import OptionsError
from claude_agent_py.options import ClientOptions, OptionsWarning
from claude_agent_py.tasks import Task

INHERITED: Final = (
    "cli_path",
    "cwd",
    "env",
    "inherit_env",
    "user",
    "model",
    "fallback_model",
    "effort",
    "permission_mode",
    "allow_dangerously_skip_permissions",
    "allowed_tools",
    "disallowed_tools",
    "additional_directories",
    "sandbox",
    "settings",
    "setting_sources",
    "timeouts",
    "limits",
)
"""What a child without options of its own takes from its parent: where and how, but neither the conversation nor the
handlers, tools and agents."""

ANSWERING: Final = ("can_use_tool", "on_question", "on_plan", "on_elicitation", "on_user_dialog", "interactions")
"""The options that answer for a person. A child that has none of them asks its parent's."""

OF_DEFINITION: Final = {
    "tools": "tools",
    "disallowed_tools": "disallowed_tools",
    "max_turns": "max_turns",
    "permission_mode": "permission_mode",
    "effort": "effort",
    "skills": "skills",
}
"""Fields of a definition that are options of a process by the same meaning."""


@dataclass(frozen=True)
class ChildAgent:
    """An agent that runs in a CLI process of its own. A value: it may be started any number of times, also at once.

    Raises:
        OptionsError: The id is no word.
    """

    definition: AgentDefinition
    """What it is: its prompt becomes the system prompt; model, tools, turns, mode and effort apply to its process."""
    id: str = field(default="", kw_only=True)
    """Its name: letters, digits, `_` and `-`. Made from the description where none is given."""
    options: ClientOptions | None = field(default=None, kw_only=True)
    """The options of its process; what the definition says wins. None takes the parent's directory, environment, model
    and permissions (`INHERITED`), and neither its conversation nor its handlers, tools and agents."""
    on_parent_cancel: Literal["cancel", "leave"] = field(default="cancel", kw_only=True)
    """What becomes of it when the tool call that waits for it is cancelled (an interrupt): it is cancelled too, or goes
    on as a background task. Closing the client always ends it."""
    timeout: float | None = field(default=None, kw_only=True)
    """Seconds that it may take; then it is `Error`. None is without limit."""
    max_report_chars: int = field(default=4000, kw_only=True)
    """How long the summary in its report may be."""

    def __post_init__(self) -> None:
        name = self.id or "_".join(re.findall(r"[a-z0-9]+", self.definition.description.lower())[:4])
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise OptionsError("must be 1 to 64 letters, digits, '_' or '-'", option="ChildAgent.id")
        object.__setattr__(self, "id", name)

    async def spawn(self, client: Client, prompt: str) -> Task:
        """Start it under a client and give its task. Returns at once; the task is pending until a process is free.

        Raises:
            OptionsError: The prompt is empty, or a limit for children is reached.
            ConnectionClosedError: The client is not open.
        """
        if not prompt.strip():
            raise OptionsError("it is empty; the agent needs something to do", option="prompt")
        return self.start(client, prompt, title=prompt.strip().splitlines()[0][:80], is_awaited=False).task

    def start(
        self,
        client: Client,
        prompt: str,
        *,
        title: str,
        is_awaited: bool,
        parent_task: Task | None = None,
        tool_use_id: str | None = None,
    ) -> ChildRun:
        """Start it and give the run. `is_awaited`: a tool call blocks until it is over.

        Raises:
            OptionsError: A limit for children is reached.
            ConnectionClosedError: The client is not open.
        """
        membership = membership_of(client)
        membership.admit(self.id)
        run = ChildRun(
            self.id,
            membership,
            self.options_under(client.options),
            prompt=prompt,
            title=title,
            is_awaited=is_awaited,
            parent_task_id=parent_task.id if parent_task is not None else None,
            tool_use_id=tool_use_id,
            timeout=self.timeout,
            max_report_chars=self.max_report_chars,
        )
        run.begin()
        return run

    def options_under(self, parent: ClientOptions) -> ClientOptions:
        """Give the options of its process under a parent with these options."""
        given = self.options or ClientOptions(
            **{name: getattr(parent, name) for name in INHERITED if name in parent.model_fields_set}
        )
        with warnings.catch_warnings():  # what is doubtful about the parent's options was said when they were made
            warnings.simplefilter("ignore", OptionsWarning)
            return given.replace(**self._from_definition(), **self._answering(given, parent))

    def _from_definition(self) -> dict[str, Any]:
        definition = self.definition
        changes: dict[str, Any] = {
            option: value
            for field_, option in OF_DEFINITION.items()
            if (value := getattr(definition, field_)) is not None
        }
        changes["system_prompt"] = definition.prompt
        if definition.model not in (None, "inherit"):
            changes["model"] = definition.model
        return changes

    def _answering(self, given: ClientOptions, parent: ClientOptions) -> dict[str, Any]:
        """Ask for what the parent can answer; the questions themselves go to it (`relay`)."""
        return {} if self.answers_itself(given) else {name: getattr(parent, name) for name in ANSWERING}

    @staticmethod
    def answers_itself(options: ClientOptions) -> bool:
        """Tell whether options have any handler of their own."""
        return any(getattr(options, name) is not None for name in ANSWERING)

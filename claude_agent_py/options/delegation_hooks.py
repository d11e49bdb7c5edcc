"""The hooks that implement options for delegation, because the CLI (2.1.328) has no other way.

- `max_report_chars`: reports of foreground subagents are replaced as results of the tool `Agent`. Reports of background
  subagents arrive as notifications, which no hook can change; SubagentStop asks their author to shorten them.
- `critical_system_reminder`: the CLI accepts the field and never delivers it. SubagentStart and PostToolBatch reach
  every request of a subagent; UserPromptSubmit and PostToolBatch reach those of a session that runs as the agent.
- `delegation_guide`: the CLI lists its agents in its reply to `initialize`, too late for the system prompt.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from claude_agent_py._base.log import logger
from claude_agent_py.agents.guide import cli_agents_text, shorten_report
from claude_agent_py.formatting.truncation import text_length
from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.final_filter import FinalFilter
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.hooks.signatures import HookAnswer, HookHandler
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.delegation import is_offered, reminders, report_limit, why_no_agent_tool
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.hooks import inputs, outputs
from claude_agent_py.wire.messages.catalog import AgentInfo
from claude_agent_py.wire.settings.rule_lists import AGENT_TOOLS

NEW_CONVERSATION: Final = "clear|compact"
"""The sources of SessionStart after which the conversation no longer has what hooks added to it."""


class DelegationHooks:
    """The hooks of one session.

    Args:
        options: The options of the session.
        find_agents: Returns the agents that the CLI lists, once it has replied to `initialize`. The CLI submits an
            `initial_prompt` on its own, and the session may read both at once.
    """

    def __init__(self, options: ClientOptions, find_agents: Callable[[], Awaitable[Sequence["AgentInfo"]]]) -> None:
        self._options = options
        self._find_agents = find_agents
        self._limit = report_limit(options)
        self._reminders = reminders(options)
        self._main = options.agent
        self._lists_agents = bool(options.delegation_guide) and why_no_agent_tool(options) is None
        self._has_listed = False
        self._asked: set[str] = set()
        """The agents that were asked to shorten their report."""

    def matchers(self) -> list[tuple[str, HookMatcher]]:
        """Return the hooks by event."""
        hooks: list[tuple[str, HookMatcher]] = []

        def add(event: str, handler: HookHandler, pattern: str | None = None) -> None:
            hooks.append((event, HookMatcher(pattern, handler, on_failure="continue")))

        if self._limit is not None:
            add("PostToolUse", _do_nothing, "Agent")  # the change itself is the last word
            add("SubagentStop", self._ask_to_shorten)
        if self._reminders:
            add("SubagentStart", self._remind_at_start)
            add("PostToolBatch", self._remind_after_tools)
        if self._main in self._reminders:
            add("UserPromptSubmit", self._remind_at_prompt)
        if self._lists_agents:
            add("UserPromptSubmit", self._list_once)  # a separate hook: the CLI truncates the output of each
            add("SessionStart", self._list_again, NEW_CONVERSATION)
        return hooks

    @property
    def last_word(self) -> FinalFilter | None:
        """What shortens reports of foreground subagents; None without a limit."""
        return None if self._limit is None else FinalFilter(AGENT_TOOLS, self._shorten)

    # Reports -----------------------------------------------------------------------------------------------------

    def _shorten(self, output: object, is_original: bool) -> JSONObject | None:
        """Return the output of the tool `Agent` with a shorter report; None if it needs none."""
        if not isinstance(output, Mapping):
            return None
        content = output.get("content")
        if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
            return None
        first, last = 0, len(content)
        if is_original:  # the CLI's notes stand around the report; it does not trust these numbers of a replacement
            first, last = _count(output, "harnessNoteCount"), last - _count(output, "harnessTailCount")
        report = "\n\n".join(str(block.get("text", "")) for block in content[first:last])
        short = shorten_report(report, self._limit)
        if short == report:
            return None
        return {**output, "content": [*content[:first], {"type": "text", "text": short}, *content[last:]]}

    async def _ask_to_shorten(self, data: inputs.SubagentStopInput, context: HookContext) -> HookAnswer:
        agent_id, length = data.agent_id, text_length(data.last_assistant_message or "")
        was_asked = agent_id in self._asked
        self._asked.discard(agent_id)
        runs_in_background = any(task.id == agent_id for task in data.background_tasks or ())
        if self._limit is None or length <= self._limit or not runs_in_background:
            return None
        if was_asked:
            logger.warning(
                "the report of the background subagent %r (%s) has %d characters; max_report_chars is %d, but the CLI "
                "delivers it whole",
                data.agent_type,
                agent_id,
                length,
                self._limit,
            )
            return None
        self._asked.add(agent_id)
        return outputs.SubagentStopOutput(
            decision="block",
            reason=f"Your report has {length:,} characters; its reader takes {self._limit:,} at most. Do no further "
            "work. Write the whole report again within that limit: the conclusion first, then what supports it.",
        )

    # Reminders ---------------------------------------------------------------------------------------------------

    async def _remind_at_start(self, data: inputs.SubagentStartInput, context: HookContext) -> HookAnswer:
        reminder = self._reminders.get(data.agent_type)
        return None if reminder is None else outputs.SubagentStartOutput(additional_context=reminder)

    async def _remind_after_tools(self, data: inputs.PostToolBatchInput, context: HookContext) -> HookAnswer:
        agent = self._main if data.agent_id is None else data.agent_type
        reminder = self._reminders.get(agent or "")
        return None if reminder is None else outputs.PostToolBatchOutput(additional_context=reminder)

    # Prompts -----------------------------------------------------------------------------------------------------

    async def _remind_at_prompt(self, data: inputs.UserPromptSubmitInput, context: HookContext) -> HookAnswer:
        return outputs.UserPromptSubmitOutput(additional_context=self._reminders[self._main or ""])

    async def _list_once(self, data: inputs.UserPromptSubmitInput, context: HookContext) -> HookAnswer:
        if self._has_listed:
            return None
        self._has_listed = True
        listing = await self._listing()
        return outputs.UserPromptSubmitOutput(additional_context=listing) if listing else None

    async def _list_again(self, data: inputs.SessionStartInput, context: HookContext) -> HookAnswer:
        return outputs.SessionStartOutput(additional_context=await self._listing() or None)

    async def _listing(self) -> str:
        own = self._options.agents or {}
        others = [a for a in await self._find_agents() if a.name not in own and is_offered(a.name, self._options)]
        return cli_agents_text(others)


async def _do_nothing(data: object, context: HookContext) -> None:
    """Do nothing. With this hook there is an answer, which `FinalFilter` can replace with the shortened report."""


def _count(output: Mapping[str, object], name: str) -> int:
    value = output.get(name)
    return value if isinstance(value, int) and value > 0 else 0

"""`FrontendTools`: tools that the client of a session runs itself, in its page. A call waits for its result."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import anyio

from claude_agent_py.durable import PROMPT_TOOLS, CallResult, make_prompt_tool
from claude_agent_py.errors import OptionsError
from claude_agent_py.tools import BUILTIN_TOOL_NAMES, Tool, ToolContext, ToolServer, split_tool_name
from claude_agent_py.wire import JSONObject

MAX_TOOLS: Final = 64
MOMENT: Final = 1.0
"""How many seconds calls of the same message may take before they are believed to wait."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_TAKEN: Final = frozenset(name.lower() for name in (*BUILTIN_TOOL_NAMES, "Task", "TaskOutput"))


class FrontendTool(NamedTuple):
    """A tool as the client describes it."""

    name: str
    description: str
    parameters: JSONObject

    def define(self) -> JSONObject:
        """Return the tool as MCP defines it."""
        return {"name": self.name, "description": self.description, "inputSchema": self.parameters}


class FrontendTools(ABC):
    """The tools of the client of one session.

    Args:
        allowed: The names that a client may use; True allows any.
    """

    def __init__(self, allowed: bool | Collection[str]) -> None:
        self._allowed = allowed
        self.offered: Sequence[FrontendTool] = ()
        """Those that the client has."""
        self.results: dict[str, CallResult] = {}
        """Results of calls: those that wait, and those that the CLI makes after an earlier one of the same message."""

    def offer(self, tools: Sequence[FrontendTool]) -> None:
        """Replace the tools. The model has them from its next turn on.

        Raises:
            ValueError: A name is not allowed, not valid, given twice, or that of a tool of the CLI.
        """
        self._check(tools)
        self.offered = tuple(tools)

    def _check(self, tools: Sequence[FrontendTool]) -> None:
        if len(tools) > MAX_TOOLS:
            raise ValueError(f"`tools` may have at most {MAX_TOOLS} tools, not {len(tools)}")
        for given in tools:
            if problem := self._find_problem(given.name):
                raise ValueError(f"`tools` must not have a tool {given.name!r}: {problem}")
        if len({given.name for given in tools}) < len(tools):
            raise ValueError("`tools` must not have two tools of the same name")

    def _find_problem(self, name: str) -> str:
        if _NAME.fullmatch(name) is None:
            return "a name is a letter and up to 63 letters, digits, `_` or `-`"
        if name.lower() in _TAKEN or name.startswith("mcp__"):
            return "the agent has a tool of this name"
        return "" if self._allowed is True or name in (self._allowed or ()) else "the server does not allow it"

    @abstractmethod
    async def answer(self, results: Mapping[str, CallResult]) -> None:
        """Give the results of calls, by their ids."""

    def forget(self) -> None:
        """Forget results that no call has taken: the turn has ended."""
        self.results.clear()


class ClientTools(FrontendTools):
    """Those of a session in this process, whose calls wait here.

    Args:
        allowed: The names that a client may use; True allows any.
        timeout: For how many seconds a call waits.
        tell: Called with the id of a call that begins to wait, and False; again with True if it still waits after a
            moment, because the CLI may hold back calls of the same message until it has its result.
    """

    def __init__(self, allowed: bool | Collection[str], timeout: float, tell: Callable[[str, bool], None]) -> None:
        super().__init__(allowed)
        self.server: ToolServer = ToolServer(PROMPT_TOOLS, always_load=True)
        self._timeout = timeout
        self._tell = tell
        self._waiting: dict[str, anyio.Event] = {}

    def offer(self, tools: Sequence[FrontendTool]) -> None:
        """Replace the tools. See `FrontendTools.offer`."""
        self._check(tools)
        made = [self._make(given) for given in tools if given not in self.offered]
        for name in {given.name for given in self.offered} - {given.name for given in tools}:
            self.server.remove(name)
        for tool in made:
            self.server.add(tool)
        self.offered: Sequence[FrontendTool] = tuple(tools)

    def _make(self, given: FrontendTool) -> Tool[..., Any]:
        try:
            return make_prompt_tool(given.define(), self._find_result)
        except OptionsError as error:
            raise ValueError(f"`tools`: {error}") from None

    # Calls --------------------------------------------------------------------------------------------------------

    async def _find_result(self, context: ToolContext, arguments: JSONObject) -> CallResult:
        """Wait until the client returns the result of a call, whose arguments it has from the model."""
        del arguments
        call = context.tool_use_id or ""
        if call not in self.results:
            self._waiting[call] = anyio.Event()
            self._tell(call, False)
            try:
                with anyio.move_on_after(self._timeout):
                    await self._wait(call, self._waiting[call])
            finally:
                del self._waiting[call]
        missing = f"the person's page has not answered {context.tool_name} within {self._timeout:g} seconds"
        return self.results.pop(call, CallResult(missing, is_error=True))

    async def _wait(self, call: str, answered: anyio.Event) -> None:
        with anyio.move_on_after(MOMENT):
            await answered.wait()
        if not answered.is_set():
            self._tell(call, True)
            await answered.wait()

    async def answer(self, results: Mapping[str, CallResult]) -> None:
        """Give the results of calls, by their ids."""
        self.results.update(results)
        for call in self._waiting.keys() & results.keys():
            self._waiting[call].set()


def strip_name(name: str) -> str:
    """Return the name of a tool for clients: that of a client's own tool as the client knows it."""
    found = split_tool_name(name)
    return found[1] if found is not None and found[0] == PROMPT_TOOLS else name

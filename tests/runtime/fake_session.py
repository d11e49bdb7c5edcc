"""The seam of the control requests: a session that records what is sent and answers what the test says."""

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import anyio

from claude_agent_py._connection.controls.mcp import MCPControls as MCPControls
from claude_agent_py._connection.controls.session_controls import SessionControls
from claude_agent_py._connection.controls.usage import UsageControls
from claude_agent_py._connection.runs.run_state import RunState as RunState
from claude_agent_py.tools import ToolServer
from claude_agent_py.tools.host import MCPHost

Body: TypeAlias = dict[str, Any]
Answer: TypeAlias = Body | BaseException | Callable[[Body], Body]


def never(*_arguments: object) -> NoReturn:
    raise AssertionError("nothing runs")


class FakeSession(SessionControls):
    """Answers with `answer`: a payload, an error to raise, or a function of the request's body."""

    def __init__(self, answer: Answer | None = None, **servers: ToolServer) -> None:
        self.host = MCPHost(servers, lambda *sent: None, report=never, cwd=None, ask=never, samples=False, start=never)
        self.sent: list[Body] = []
        self.timeouts: list[float | None] = []
        self._answer: Answer = {} if answer is None else answer

    @property
    def mcp(self) -> MCPControls:
        return MCPControls(self, self.host)

    @property
    def usage(self) -> UsageControls:
        return UsageControls(self)

    @property
    def _port(self) -> "FakeSession":
        return self

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> Body:
        await anyio.lowlevel.checkpoint()
        self.sent.append({"subtype": subtype, **fields})
        self.timeouts.append(timeout)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer(self.sent[-1]) if callable(self._answer) else self._answer

"""An agent for editors that speak the Agent Client Protocol (ACP): Zed, JetBrains, Toad and others.

`claude-agent-py acp module:options` is the program that an editor starts. `serve(options)` is the same as a function,
and `EditorAgent` the agent itself, for a connection of your own. Needs the extra `acp`, and asyncio.
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.acp.agent import EditorAgent as EditorAgent, MakeOptions as MakeOptions, serve as serve
    from claude_agent_py.acp.transport import EditorTransport as EditorTransport
else:
    _NAMES = {
        "claude_agent_py.acp.agent": "EditorAgent MakeOptions serve",
        "claude_agent_py.acp.transport": "EditorTransport",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

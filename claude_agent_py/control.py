"""Control requests in both directions, their replies, and the types that replies contain."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._base.errors import (
        ConnectionClosedError as ConnectionClosedError,
        ControlError as ControlError,
        ControlRejectedError as ControlRejectedError,
        ControlTimeoutError as ControlTimeoutError,
        MCPNotReadyError as MCPNotReadyError,
    )
    from claude_agent_py.wire.control.asks import *
    from claude_agent_py.wire.control.frames import *
    from claude_agent_py.wire.control.initialize import InitializeReply as InitializeReply
    from claude_agent_py.wire.control.replies import *
    from claude_agent_py.wire.control.requests import *
    from claude_agent_py.wire.messages.catalog import *
    from claude_agent_py.wire.messages.usage import (
        ContextAgent as ContextAgent,
        ContextCategory as ContextCategory,
        ContextMCPTool as ContextMCPTool,
        ContextMemoryFile as ContextMemoryFile,
        ContextOverLimit as ContextOverLimit,
        ContextSkill as ContextSkill,
        ContextUsage as ContextUsage,
        ExtraUsage as ExtraUsage,
        SessionUsage as SessionUsage,
        UsageLimit as UsageLimit,
        UsageLimits as UsageLimits,
        UsageReport as UsageReport,
    )
else:
    _NAMES = {
        "claude_agent_py._base.errors": """
            ConnectionClosedError ControlError ControlRejectedError ControlTimeoutError MCPNotReadyError
        """,
        "claude_agent_py.wire.control.asks": "*",
        "claude_agent_py.wire.control.frames": "*",
        "claude_agent_py.wire.control.initialize": "InitializeReply",
        "claude_agent_py.wire.control.replies": "*",
        "claude_agent_py.wire.control.requests": "*",
        "claude_agent_py.wire.messages.catalog": "*",
        "claude_agent_py.wire.messages.usage": """
            ContextAgent ContextCategory ContextMCPTool ContextMemoryFile ContextOverLimit ContextSkill ContextUsage
            ExtraUsage SessionUsage UsageLimit UsageLimits UsageReport
        """,
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

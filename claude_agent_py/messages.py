"""Messages, content blocks, stream events and usage statistics, and their unions (`Message`, `RunMessage`, ...)."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._connection.failures import HandlerFailed as HandlerFailed
    from claude_agent_py._connection.runs import (
        Prompt as Prompt,
        PromptContent as PromptContent,
        RunMessage as RunMessage,
        SessionEvent as SessionEvent,
        SessionMessage as SessionMessage,
        check_keeps_conversation as check_keeps_conversation,
        check_prompt as check_prompt,
    )
    from claude_agent_py._journal.text import TextFold as TextFold
    from claude_agent_py.formatting.api_messages import to_api_messages as to_api_messages
    from claude_agent_py.wire.frames import (
        Message as Message,
        SystemMessage as SystemMessage,
        TopLevelMessage as TopLevelMessage,
    )
    from claude_agent_py.wire.messages.content import *
    from claude_agent_py.wire.messages.conversation import *
    from claude_agent_py.wire.messages.occasional import *
    from claude_agent_py.wire.messages.origin import MessageOrigin as MessageOrigin, OriginKind as OriginKind
    from claude_agent_py.wire.messages.stream import *
    from claude_agent_py.wire.messages.system import *
    from claude_agent_py.wire.messages.tasks import (
        BackgroundTask as BackgroundTask,
        BackgroundTasksChangedMessage as BackgroundTasksChangedMessage,
        HandbackReport as HandbackReport,
        ResourceLink as ResourceLink,
        TaskMessage as TaskMessage,
        TaskNotificationMessage as TaskNotificationMessage,
        TaskPatch as TaskPatch,
        TaskProgressMessage as TaskProgressMessage,
        TaskStartedMessage as TaskStartedMessage,
        TaskType as TaskType,
        TaskUpdatedMessage as TaskUpdatedMessage,
        TaskUsage as TaskUsage,
    )
    from claude_agent_py.wire.messages.usage import (
        CacheCreation as CacheCreation,
        DeferredToolUse as DeferredToolUse,
        FastModeState as FastModeState,
        ModelUsage as ModelUsage,
        OutputTokensDetails as OutputTokensDetails,
        PermissionDenial as PermissionDenial,
        RateLimitInfo as RateLimitInfo,
        RateLimitStatus as RateLimitStatus,
        RateLimitType as RateLimitType,
        ServerToolUsage as ServerToolUsage,
        SubagentKills as SubagentKills,
        SubagentRefusals as SubagentRefusals,
        SubagentRequests as SubagentRequests,
        SubagentStats as SubagentStats,
        Usage as Usage,
    )
    from claude_agent_py.wire.unknown import MalformedFrame as MalformedFrame, UnknownMessage as UnknownMessage
else:
    _NAMES = {
        "claude_agent_py._connection.failures": "HandlerFailed",
        "claude_agent_py._connection.runs": """
            Prompt PromptContent RunMessage SessionEvent SessionMessage check_keeps_conversation check_prompt
        """,
        "claude_agent_py._journal.text": "TextFold",
        "claude_agent_py.formatting.api_messages": "to_api_messages",
        "claude_agent_py.wire.frames": "Message SystemMessage TopLevelMessage",
        "claude_agent_py.wire.messages.content": "*",
        "claude_agent_py.wire.messages.conversation": "*",
        "claude_agent_py.wire.messages.occasional": "*",
        "claude_agent_py.wire.messages.origin": "MessageOrigin OriginKind",
        "claude_agent_py.wire.messages.stream": "*",
        "claude_agent_py.wire.messages.system": "*",
        "claude_agent_py.wire.messages.tasks": """
            BackgroundTask BackgroundTasksChangedMessage HandbackReport ResourceLink TaskMessage
            TaskNotificationMessage TaskPatch TaskProgressMessage TaskStartedMessage TaskType TaskUpdatedMessage
            TaskUsage
        """,
        "claude_agent_py.wire.messages.usage": """
            CacheCreation DeferredToolUse FastModeState ModelUsage OutputTokensDetails PermissionDenial RateLimitInfo
            RateLimitStatus RateLimitType ServerToolUsage SubagentKills SubagentRefusals SubagentRequests SubagentStats
            Usage
        """,
        "claude_agent_py.wire.unknown": "MalformedFrame UnknownMessage",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

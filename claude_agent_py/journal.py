"""The journal of a session: numbered facts about what happened in it, and their JSON form.

`Client.journal` follows a running session, `Session.journal` reads a stored one, `read_recording` a recording, and
`Journal` folds frames of any other origin.
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._journal.encoding import (
        decode_fact as decode_fact,
        encode_fact as encode_fact,
        make_schema as make_schema,
    )
    from claude_agent_py._journal.facts import (
        MAIN as MAIN,
        VERSION as VERSION,
        CallEnded as CallEnded,
        CallProgressed as CallProgressed,
        CallRunning as CallRunning,
        CallStarted as CallStarted,
        Fact as Fact,
        Fault as Fault,
        InputAdded as InputAdded,
        MessageAdded as MessageAdded,
        PromptSent as PromptSent,
        RequestKind as RequestKind,
        RequestOpened as RequestOpened,
        RequestRetried as RequestRetried,
        RequestSettled as RequestSettled,
        RequestStatus as RequestStatus,
        Spent as Spent,
        StateChanged as StateChanged,
        TaskAnswered as TaskAnswered,
        TaskAsked as TaskAsked,
        TaskBackgrounded as TaskBackgrounded,
        TaskChanged as TaskChanged,
        TaskFinished as TaskFinished,
        TaskOutputAvailable as TaskOutputAvailable,
        TaskProgressed as TaskProgressed,
        TaskReopened as TaskReopened,
        TaskRevised as TaskRevised,
        TaskStarted as TaskStarted,
        TaskStatusChanged as TaskStatusChanged,
        Tokens as Tokens,
        ToolCallStatus as ToolCallStatus,
        TurnEnded as TurnEnded,
        TurnStarted as TurnStarted,
        TurnStatus as TurnStatus,
    )
    from claude_agent_py._journal.fold import Journal as Journal, ProcessEnd as ProcessEnd
    from claude_agent_py.observe.sources import read_recording as read_recording, recorded_frames as recorded_frames
    from claude_agent_py.observe.watching import FactStream as FactStream
else:
    _NAMES = {
        "claude_agent_py._journal.encoding": "decode_fact encode_fact make_schema",
        "claude_agent_py._journal.facts": """
            MAIN VERSION CallEnded CallProgressed CallRunning CallStarted Fact Fault InputAdded MessageAdded PromptSent
            RequestKind RequestOpened RequestRetried RequestSettled RequestStatus Spent StateChanged TaskAnswered
            TaskAsked TaskBackgrounded TaskChanged TaskFinished TaskOutputAvailable TaskProgressed TaskReopened
            TaskRevised TaskStarted TaskStatusChanged Tokens ToolCallStatus TurnEnded TurnStarted TurnStatus
        """,
        "claude_agent_py._journal.fold": "Journal ProcessEnd",
        "claude_agent_py.observe.watching": "FactStream",
        "claude_agent_py.observe.sources": "read_recording recorded_frames",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

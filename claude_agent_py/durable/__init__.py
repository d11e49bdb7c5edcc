"""A durable turn: one prompt of a session, which any engine may run again after a crash."""

from claude_agent_py._base.lazy_names import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from claude_agent_py.durable.deltas import Delta as Delta, DeltaKind as DeltaKind, DeltaReader as DeltaReader
    from claude_agent_py.durable.desk import Desk as Desk, MemoryDesk as MemoryDesk, PendingQuestion as PendingQuestion
    from claude_agent_py.durable.outcomes import (
        Done as Done,
        Failed as Failed,
        Interrupted as Interrupted,
        Later as Later,
        Lost as Lost,
        TurnOutcome as TurnOutcome,
        Waiting as Waiting,
    )
    from claude_agent_py.durable.prompt_tools import (
        PROMPT_TOOLS as PROMPT_TOOLS,
        CallResult as CallResult,
        add_prompt_server as add_prompt_server,
        check_tools as check_tools,
        make_prompt_tool as make_prompt_tool,
    )
    from claude_agent_py.durable.stopping import TurnStop as TurnStop
    from claude_agent_py.durable.turn import run_turn as run_turn
else:
    _NAMES = {
        "claude_agent_py.durable.deltas": "Delta DeltaKind DeltaReader",
        "claude_agent_py.durable.desk": "Desk MemoryDesk PendingQuestion",
        "claude_agent_py.durable.outcomes": "Done Failed Interrupted Later Lost TurnOutcome Waiting",
        "claude_agent_py.durable.prompt_tools": (
            "PROMPT_TOOLS CallResult add_prompt_server check_tools make_prompt_tool"
        ),
        "claude_agent_py.durable.stopping": "TurnStop",
        "claude_agent_py.durable.turn": "run_turn",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

"""Plans that need approval (the tool ExitPlanMode)."""

from dataclasses import dataclass

from claude_agent_py.wire.control.asks import CanUseToolRequest
from claude_agent_py.wire.fitting import Misfit, fit
from claude_agent_py.wire.tools.planning import ExitPlanModeInput

EXIT_PLAN_MODE = "ExitPlanMode"


@dataclass(frozen=True)
class Plan:
    """A plan of the model. Answer with `Allow()`, or with `Deny(reason)` to ask for a new plan.

    An approved plan runs in the mode `default`; `Allow(updated_permissions=[SetMode(mode="acceptEdits",
    destination="session")])` chooses another.
    """

    text: str
    """The plan; empty if the model has not written it down."""
    file_path: str | None = None
    """The file with the plan."""
    tool_use_id: str = ""


def read_plan(request: CanUseToolRequest) -> Plan:
    """Return the plan in a call."""
    try:
        data = fit(ExitPlanModeInput, request.input)[0]
    except Misfit:
        data = ExitPlanModeInput()
    return Plan(text=data.plan or "", file_path=data.plan_file_path, tool_use_id=request.tool_use_id)

"""A fleet: durable sessions on one machine or on many, which survive when a process or a machine dies.

On one machine it needs nothing else, on many a Temporal server and the extra `temporal`.
"""

from claude_agent_py._base.lazy_names import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from claude_agent_py._base.errors import (
        FleetError as FleetError,
        FleetRunError as FleetRunError,
        FleetTimeoutError as FleetTimeoutError,
    )
    from claude_agent_py.fleet._interactions import FleetInteraction as FleetInteraction
    from claude_agent_py.fleet.agents import FleetAgent as FleetAgent
    from claude_agent_py.fleet.fleet import Fleet as Fleet
    from claude_agent_py.fleet.metrics import FleetMetrics as FleetMetrics
    from claude_agent_py.fleet.records import (
        FleetAuditEntry as FleetAuditEntry,
        FleetDelta as FleetDelta,
        FleetEvent as FleetEvent,
        FleetOutcome as FleetOutcome,
        FleetSessionInfo as FleetSessionInfo,
        FleetTenantInfo as FleetTenantInfo,
        FleetWorkerInfo as FleetWorkerInfo,
    )
    from claude_agent_py.fleet.session import FleetSession as FleetSession
    from claude_agent_py.fleet.worker import Worker as Worker
    from claude_agent_py.fleet.workspaces import (
        Copy as Copy,
        Directory as Directory,
        GitWorktree as GitWorktree,
        Workspace as Workspace,
    )
else:
    _NAMES = {
        "claude_agent_py._base.errors": "FleetError FleetRunError FleetTimeoutError",
        "claude_agent_py.fleet._interactions": "FleetInteraction",
        "claude_agent_py.fleet.agents": "FleetAgent",
        "claude_agent_py.fleet.fleet": "Fleet",
        "claude_agent_py.fleet.metrics": "FleetMetrics",
        "claude_agent_py.fleet.records": "FleetAuditEntry FleetDelta FleetEvent FleetOutcome FleetSessionInfo "
        "FleetTenantInfo FleetWorkerInfo",
        "claude_agent_py.fleet.session": "FleetSession",
        "claude_agent_py.fleet.worker": "Worker",
        "claude_agent_py.fleet.workspaces": "Copy Directory GitWorktree Workspace",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

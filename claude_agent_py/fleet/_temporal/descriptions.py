"""What the server knows of a session's workflow: its memo, how it ended, and whether a command waits. Deleting it."""

from collections.abc import Mapping
from typing import Any, Final

from temporalio.api.common.v1 import WorkflowExecution as ExecutionId
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import WorkflowExecution, WorkflowExecutionDescription, WorkflowExecutionStatus

from claude_agent_py.errors import FleetError
from claude_agent_py.fleet._events import PROJECT
from claude_agent_py.fleet._state import ENDED
from claude_agent_py.fleet._temporal.events import EVENTS
from claude_agent_py.fleet._temporal.server import TemporalService, UnlessMissing
from claude_agent_py.fleet._temporal.workflow import MEMO, WorkflowSession
from claude_agent_py.sessions import SessionStore, implements

CUT_OFF: Final[Mapping[WorkflowExecutionStatus | None, str]] = {
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.TIMED_OUT: "timed out",
}
"""How a workflow ends before its session does. The session is cancelled then, whatever its memo and attributes say."""


async def read_session(found: WorkflowExecution) -> WorkflowSession:
    """Return the state of a session in its memo. Raises FleetError."""
    if MEMO not in found.raw_info.memo.fields:
        failure = FleetError(f"a schedule has begun the session {found.id!r}, which no worker has seen yet")
        failure.is_retryable = True
        raise failure
    try:
        session = await found.memo_value(MEMO, type_hint=WorkflowSession)
    except Exception as error:  # of a codec
        raise FleetError(
            f"what the server keeps of session {found.id!r} cannot be decoded: {type(error).__name__}; "
            "this Fleet needs the codec of its workers",
            session_id=found.id,
        ) from error
    if found.close_time is not None and found.status in CUT_OFF and session.state != "cancelled":
        session.reason = f"its workflow ended: {CUT_OFF[found.status]}"
        session.updated_at = found.close_time.timestamp()
        session.cancel(session.updated_at)
    return session


def has_unheard_command(found: WorkflowExecutionDescription) -> bool:
    """Return whether a command may wait for a worker."""
    is_running = found.status is WorkflowExecutionStatus.RUNNING
    return is_running and found.raw_description.HasField("pending_workflow_task")


async def prune_session(server: TemporalService, session: str, store: SessionStore | None, latest: float) -> bool:
    """Delete a session, unless it got a command since it was listed, or another process has deleted it."""
    client = await server.connect()
    with UnlessMissing():
        found = await client.get_workflow_handle(session).describe()
        s = await read_session(found)
        if s.state not in ENDED or s.updated_at > latest or has_unheard_command(found):
            return False
        if store is not None and implements(store, "delete"):
            deleting: Any = store
            for project in (EVENTS, PROJECT):
                await deleting.delete({"project_key": project, "session_id": s.conversation})
        execution = ExecutionId(workflow_id=session)
        request = DeleteWorkflowExecutionRequest(namespace=server.namespace, workflow_execution=execution)
        await client.workflow_service.delete_workflow_execution(request)
        return True
    return False

"""The DBOS workflows that execute runs: each is a workflow `<conversation>:<step>` with two steps, `run` and `settle`.

DBOS records the result of the first step before the second starts. If a worker dies in between, another one resumes the
workflow, and DBOS skips the finished step. DBOS also fires the schedules, each time once in the fleet.

DBOS allows one instance in a process, so a process can only have one worker, and none if the program uses DBOS itself.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final

import anyio
from anyio import to_thread
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID, error as dbos_errors

from claude_agent_py._base.errors import FleetError, OptionsError
from claude_agent_py._base.log import logger
from claude_agent_py.fleet._database import Database, launching
from claude_agent_py.fleet._execution import Execution
from claude_agent_py.fleet._tables import DBOS_SCHEMA, DBOS_WORKFLOWS
from claude_agent_py.wire.base import JSONObject

APPLICATION_VERSION: Final = "claude-agent-py-fleet-1"
"""Pinned: DBOS would derive it from the source, and workers of two releases could not resume each other's workflows.
Change it when the steps of the workflow change."""
POLL_SECONDS: Final = 1.0
START_SECONDS: Final = 30.0
"""Seconds within which a started or resumed workflow has to begin."""
HAS_DBOS: Final = (
    "this process has a DBOS already, of another fleet worker or of your program, and DBOS allows one: "
    "start the worker in a separate process"
)

Fire = Callable[[datetime, Mapping[str, Any]], Awaitable[None]]

_executions: Mapping[str, Execution] = {}
"""The executions of the worker in this process, by session id."""
_fire: Fire | None = None
"""Starts a scheduled session; None if no worker is running."""


@DBOS.workflow(name=DBOS_WORKFLOWS[0])
async def run_step(session: str, step: int) -> JSONObject:
    """Run the current prompt of a session that this worker has claimed."""
    execution = _executions.get(session)
    if execution is None or execution.claim.session["step"] != step or execution.finished.is_set():
        return {"kind": "stray"}
    execution.begun.set()
    try:
        outcome = await DBOS.run_step_async({"name": "run"}, execution.perform)
        await DBOS.run_step_async({"name": "settle"}, execution.settle, outcome)
    finally:
        execution.finished.set()
    return {"kind": outcome["kind"], "run": execution.claim.run["number"]}


@DBOS.workflow(name=DBOS_WORKFLOWS[1])
async def run_schedule(at: datetime, wanted: Any) -> None:
    """Start a scheduled session."""
    if _fire is not None:
        await _fire(at, wanted)


async def launch(worker: str, database: Database, executions: Mapping[str, Execution], fire: Fire) -> None:
    """Start DBOS. Blocks the event loop briefly, so that DBOS uses this loop.

    Raises:
        FleetError: This process has a DBOS already.
    """
    global _executions, _fire
    if _fire is not None:
        raise FleetError(HAS_DBOS)
    config: DBOSConfig = {
        "name": "claude-agent-py-fleet",
        "system_database_url": database.url,
        "application_version": APPLICATION_VERSION,
        "executor_id": worker,
        # By default, DBOS pickles data, and loading a pickle can run code.
        "serializer": DBOSPortableJSONSerializer(),
        "use_listen_notify": False,
        "log_level": "ERROR",
        "scheduler_polling_interval_sec": POLL_SECONDS,
    }
    if not database.is_sqlite:
        config["dbos_system_schema"] = DBOS_SCHEMA
        config["db_engine_kwargs"] = {"creator": database.connect}
    DBOS(config=config)
    # DBOS returns an existing instance instead of creating a second one.
    if DBOS.executor_id != worker:
        raise FleetError(HAS_DBOS)
    _executions = executions
    # A schedule may fire as soon as DBOS is launched.
    _fire = fire
    try:
        DBOS.listen_queues([queue_name(worker)])
        async with launching(database):
            DBOS.launch()
        await register_queue(worker)
    except BaseException:
        DBOS.destroy()
        _executions, _fire = {}, None
        raise


async def register_queue(worker: str) -> None:
    """Create the queue of a worker, unless it exists."""
    await DBOS.register_queue_async(queue_name(worker), polling_interval_sec=POLL_SECONDS)


async def shut_down(worker: str) -> None:
    """Stop DBOS. Finishes even if it is cancelled."""
    global _executions, _fire
    _executions = {}
    with anyio.CancelScope(shield=True):
        await delete_queue(worker)
        await to_thread.run_sync(DBOS.destroy)
    # Until then, a schedule may fire.
    _fire = None


def queue_name(worker: str) -> str:
    """Return the name of the queue on which a worker resumes workflows."""
    return f"fleet-{worker}"


async def execute(execution: Execution, worker: str) -> None:
    """Run the workflow of an execution, or resume it if a dead worker started it. Returns when it has ended here."""
    claim = execution.claim
    name = claim.workflow_id
    if claim.session["is_orphan"]:
        status = await DBOS.get_workflow_status_async(name)
        if status is not None and status.status not in ("SUCCESS", "ERROR"):
            # A worker that declared this one dead has deleted its queue.
            await register_queue(worker)
            await DBOS.resume_workflow_async(name, queue_name=queue_name(worker))
            await _wait_finished(execution)
            return
        if status is not None:
            name = f"{name}:{claim.epoch}"
    with SetWorkflowID(name):
        handle = await DBOS.start_workflow_async(run_step, claim.id, claim.session["step"])
    await _wait_finished(execution)
    if execution.is_settled:
        await handle.get_result()


async def _wait_finished(execution: Execution) -> None:
    """Wait until the workflow has ended in this process. Raises FleetError if it does not start."""
    with anyio.move_on_after(START_SECONDS):
        await execution.finished.wait()
    if not execution.begun.is_set() and not execution.finished.is_set():
        raise FleetError("its workflow did not start", session_id=execution.claim.id)
    await execution.finished.wait()


async def apply_schedules(wanted: Mapping[str, Mapping[str, object]]) -> None:
    """Create or update schedules, by name.

    Raises:
        OptionsError: A cron expression or a time zone is invalid.
    """
    if not wanted:
        return
    make: Callable[..., None] = DBOS.apply_schedules
    schedules = [
        {
            "schedule_name": name,
            "workflow_fn": run_schedule,
            "schedule": given["cron"],
            "context": {"name": name, **given},
            "cron_timezone": given["timezone"],
            "automatic_backfill": False,
        }
        for name, given in wanted.items()
    ]
    try:
        await to_thread.run_sync(make, schedules)
    except dbos_errors.DBOSException as error:
        raise OptionsError(str(error).removeprefix("DBOS Error: "), option="schedule") from error


async def resume_schedules(live: Collection[str]) -> None:
    """Resume the starts by schedules whose worker died before it had stored the session. A start may be repeated."""
    found = await DBOS.list_workflows_async(
        name=DBOS_WORKFLOWS[1], status="PENDING", load_input=False, load_output=False
    )
    for workflow in found:
        if workflow.executor_id not in live:
            await DBOS.resume_workflow_async(workflow.workflow_id)


async def delete_queue(worker: str) -> None:
    """Delete the queue of a worker that exits or is dead."""
    try:
        await DBOS.delete_queue_async(queue_name(worker))
    except Exception:
        logger.debug("deleting the queue of worker %s failed", worker, exc_info=True)

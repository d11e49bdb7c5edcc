"""DBOS, which executes the runs: each is a workflow `<session>:<step>` with two steps, `run` and `settle`.

What the first brought is on record before the second begins, so that a worker that dies in between costs nothing: the
adopter resumes the workflow, and DBOS skips what is done. DBOS also fires the schedules, each time once in the fleet.

There is one DBOS in a process, so a process has one worker at a time, and none beside a DBOS of its own.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final

import anyio
from anyio import to_thread
from dbos import DBOS, DBOSConfig, SetWorkflowID, error as dbos_errors

from claude_agent_py._errors import FleetError, OptionsError
from claude_agent_py.fleet._hold import Hold
from claude_agent_py.fleet._serializing import JSONSerializer
from claude_agent_py.fleet._tables import DBOS_SCHEMA, DBOS_WORKFLOWS

logger: logging.Logger = logging.getLogger("claude_agent_py")

APPLICATION_VERSION: Final = "claude-agent-py-fleet-1"
"""Pinned: DBOS would derive it from the source, and workers of two releases would not resume each other's workflows.
It changes with the steps of the workflow."""
POLL_SECONDS: Final = 1.0
START_SECONDS: Final = 30.0
"""Within how many seconds a workflow has to begin, once it was started or resumed."""
HAS_DBOS: Final = (
    "this process has a DBOS already, of another fleet worker or of your own program, and DBOS allows one: "
    "start the worker in a process of its own"
)


Fire = Callable[[datetime, Mapping[str, Any]], Awaitable[None]]

_holds: Mapping[str, Hold] = {}
"""What the worker of this process holds, by session."""
_fire: Fire | None = None
"""Starts the session of a schedule; None without a worker."""


@DBOS.workflow(name=DBOS_WORKFLOWS[0])
async def run_step(session: str, step: int) -> dict[str, Any]:
    """Run the prompt at hand of a session that this worker holds."""
    hold = _holds.get(session)
    if hold is None or hold.claim.session["step"] != step or hold.finished.is_set():
        return {"kind": "stray"}
    hold.begun.set()
    try:
        outcome = await DBOS.run_step_async({"name": "run"}, hold.perform)
        await DBOS.run_step_async({"name": "settle"}, hold.settle, outcome)
    finally:
        hold.finished.set()
    return {"kind": outcome["kind"], "run": hold.claim.run["number"]}


@DBOS.workflow(name=DBOS_WORKFLOWS[1])
async def run_schedule(at: datetime, wanted: Any) -> None:
    """Start the session of a schedule."""
    if _fire is not None:
        await _fire(at, wanted)


async def launch(worker: str, url: str, holds: Mapping[str, Hold], fire: Fire) -> None:
    """Start DBOS. Blocks the event loop for a moment, so that DBOS uses this one.

    Raises:
        FleetError: This process has a DBOS already.
    """
    global _holds, _fire
    if _fire is not None:
        raise FleetError(HAS_DBOS)
    config: DBOSConfig = {
        "name": "claude-agent-py-fleet",
        "system_database_url": url,
        "application_version": APPLICATION_VERSION,
        "executor_id": worker,
        "serializer": JSONSerializer(),
        "use_listen_notify": False,
        "log_level": "ERROR",
        "scheduler_polling_interval_sec": POLL_SECONDS,
    }
    if not url.startswith("sqlite"):
        config["dbos_system_schema"] = DBOS_SCHEMA
    DBOS(config=config)
    if DBOS.executor_id != worker:  # DBOS has returned the one that there is
        raise FleetError(HAS_DBOS)
    try:
        DBOS.listen_queues([queue_of(worker)])
        DBOS.launch()
        await listen(worker)
    except BaseException:
        DBOS.destroy()
        raise
    _holds, _fire = holds, fire


async def listen(worker: str) -> None:
    """Make the queue of a worker, unless it is there."""
    await DBOS.register_queue_async(queue_of(worker), polling_interval_sec=POLL_SECONDS)


async def shut_down(worker: str) -> None:
    """Stop DBOS. Finishes if it is cancelled."""
    global _holds, _fire
    _holds, _fire = {}, None
    with anyio.CancelScope(shield=True):
        await delete_queue(worker)
        await to_thread.run_sync(DBOS.destroy)


def queue_of(worker: str) -> str:
    """Return the name of the queue on which a worker resumes workflows."""
    return f"fleet-{worker}"


async def execute(hold: Hold, worker: str) -> None:
    """Execute the workflow of a hold, or resume it if a dead worker began it. Returns when it is over here."""
    claim = hold.claim
    name = claim.workflow_id
    if claim.session["is_orphan"]:
        status = await DBOS.get_workflow_status_async(name)
        if status is not None and status.status not in ("SUCCESS", "ERROR"):
            await listen(worker)  # whoever took this worker for dead has deleted its queue
            await DBOS.resume_workflow_async(name, queue_name=queue_of(worker))
            await _wait(hold)
            return
        if status is not None:
            name = f"{name}:{claim.epoch}"
    with SetWorkflowID(name):
        handle = await DBOS.start_workflow_async(run_step, claim.id, claim.session["step"])
    await _wait(hold)
    if hold.is_settled:
        await handle.get_result()


async def _wait(hold: Hold) -> None:
    """Wait until a workflow is over in this process. Raises FleetError if it does not begin."""
    with anyio.move_on_after(START_SECONDS):
        await hold.finished.wait()
    if not hold.begun.is_set() and not hold.finished.is_set():
        raise FleetError("its workflow does not begin", session_id=hold.claim.id)
    await hold.finished.wait()


async def apply_schedules(wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Enter schedules, by name; those that are there are changed.

    Raises:
        OptionsError: A cron expression or a time zone is not one.
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


async def delete_queue(worker: str) -> None:
    """Delete the queue of a worker that ends or is dead."""
    try:
        await DBOS.delete_queue_async(queue_of(worker))
    except Exception:
        logger.debug("the queue of worker %s cannot be deleted", worker, exc_info=True)

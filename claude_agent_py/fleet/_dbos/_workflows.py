"""The engine: DBOS, with a queue for each agent and version, and a workflow for each time that a session is to run.

The workflow `<conversation>:<step>` calls the worker, which begins the session, runs its prompt and settles it. If the
step is not the session's current one, it does nothing, so a workflow that the engine runs again does no harm. DBOS also
fires the schedules, each time once in the fleet.

DBOS allows one instance in a process, so a process can only have one worker, and none if the program uses DBOS itself.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import uuid4

import anyio
from anyio import to_thread
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, Queue, error as dbos_errors
from dbos._core import execute_dequeued_workflow
from dbos._dbos import _get_dbos_instance
from sqlalchemy.exc import DBAPIError

from claude_agent_py._base.errors import FleetError, OptionsError
from claude_agent_py.fleet._dbos._client import NAME, make_tables
from claude_agent_py.fleet._dbos._database import Database
from claude_agent_py.fleet._dbos._line import queue_name
from claude_agent_py.fleet._dbos._tables import APPLICATION_VERSION, DBOS_SCHEMA, DBOS_WORKFLOWS

POLL_SECONDS: Final = 1.0
UNLIMITED: Final = 1_000_000
CONTENDED: Final = ("40001", "40P01", "55P03")
"""Errors of PostgreSQL if another worker takes from the same queue at this moment."""
HAS_DBOS: Final = (
    "this process has a DBOS already, of another fleet worker or of your program, and DBOS allows one: "
    "start the worker in a separate process"
)


class Handlers(NamedTuple):
    """What the worker of this process does for the workflows."""

    run: Callable[[str, int], Awaitable[None]]
    """Run the current prompt of a session, if the step is its current one."""
    fire: Callable[[datetime, Mapping[str, Any]], Awaitable[None]]
    """Start a scheduled session."""


_handlers: Handlers | None = None
"""None if no worker is running."""


@DBOS.workflow(name=DBOS_WORKFLOWS[0], max_recovery_attempts=None)
async def run_step(session: str, step: int) -> None:
    """Run the current prompt of a session."""
    await _require_handlers().run(session, step)


@DBOS.workflow(name=DBOS_WORKFLOWS[1], max_recovery_attempts=None)
async def run_schedule(at: datetime, wanted: Any) -> None:
    """Start a scheduled session."""
    await _require_handlers().fire(at, wanted)


def _require_handlers() -> Handlers:
    """Raises CancelledError if the worker has ended: then DBOS records nothing, so another worker runs the workflow."""
    if _handlers is None:
        raise anyio.get_cancelled_exc_class()
    return _handlers


# In workers -----------------------------------------------------------------------------------------------------------


async def launch(worker: str, database: Database, handlers: Handlers) -> None:
    """Start DBOS. Blocks the event loop briefly, so that DBOS uses this loop.

    Raises:
        FleetError: This process has a DBOS already.
    """
    global _handlers
    if _handlers is not None:
        raise FleetError(HAS_DBOS)
    config: DBOSConfig = {
        "name": NAME,
        "system_database_url": database.url,
        "application_version": APPLICATION_VERSION,
        "executor_id": worker,
        # By default, DBOS pickles data, and loading a pickle can run code.
        "serializer": DBOSPortableJSONSerializer(),
        "use_listen_notify": False,
        "log_level": "ERROR",
        "scheduler_polling_interval_sec": POLL_SECONDS,
        "dbos_system_schema": DBOS_SCHEMA,
        # A ping before each transaction would be a transaction too. DBOS retries if a connection is broken.
        "db_engine_kwargs": {"creator": database.connect, "pool_pre_ping": False},
    }
    DBOS(config=config)
    # DBOS returns an existing instance instead of creating a second one.
    if DBOS.executor_id != worker:
        raise FleetError(HAS_DBOS)
    # A schedule may fire as soon as DBOS is launched.
    _handlers = handlers
    try:
        # The worker takes from the queues itself, because only it knows how much room it has.
        DBOS.listen_queues([])
        # Otherwise DBOS would do so, but two at a time behind a pooler.
        await to_thread.run_sync(make_tables, database.engine, database.client)
        DBOS.launch()
    except BaseException:
        DBOS.destroy()
        _handlers = None
        raise


async def shut_down() -> None:
    """Stop DBOS."""
    global _handlers
    await to_thread.run_sync(DBOS.destroy)
    # Until then, a schedule may fire.
    _handlers = None


async def register_queue(agent: str, version: str, limit: int | None) -> Queue:
    """Create or change the queue of an agent and version."""
    return await DBOS.register_queue_async(
        queue_name(agent, version), global_concurrency=limit, on_conflict="always_update"
    )


def dequeue(queue: Queue, place: str, room: int, taken: set[str]) -> None:
    """Take up to `room` workflows from a queue and start them. Adds their ids to `taken` first. Blocks.

    Raises:
        SQLAlchemyError: The database failed. The engine may count workflows as taken that do not run.
    """
    engine, owner = _get_dbos_instance(), str(uuid4())
    queue._worker_concurrency = UNLIMITED
    try:
        found, _ = engine._sys_db.start_queued_workflows(
            queue, DBOS.executor_id, APPLICATION_VERSION, place, UNLIMITED - room, owner_xid=owner
        )
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in CONTENDED:
            return
        raise
    for status in engine._sys_db.get_workflow_statuses(found):
        name = status["workflow_uuid"]
        taken.add(name)
        try:
            execute_dequeued_workflow(engine, status, owner)
        except BaseException:
            taken.discard(name)
            raise


def return_untaken(worker: str, taken: Collection[str]) -> None:
    """Put workflows back that the engine counts as taken by this worker, but that do not run. Blocks."""
    system = _get_dbos_instance()._sys_db
    pending = DBOS.list_workflows(executor_id=worker, status="PENDING", load_input=False, load_output=False)
    for workflow in pending:
        if workflow.workflow_id not in taken:
            system.reenqueue_for_recovery(workflow.workflow_id, [worker], workflow.queue_name or "")


def recover(dead: Sequence[str]) -> None:
    """Put the workflows of dead workers back into their queues. Blocks, for minutes if the database does not answer."""
    DBOS._recover_pending_workflows(list(dead))


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

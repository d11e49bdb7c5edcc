"""What the earlier processes of a session have spent: the CLI counts `max_budget_usd` for each process (2.1.328).

The CLI notes the cost in the transcript when it exits, and continues that count. If it was killed, the note is missing
or old; the cost is then estimated from the tokens of the answers, by prices that an earlier note or result implies.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

from claude_agent_py._base.errors import ClaudeAgentError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py._connection.reported import parse_session_id
from claude_agent_py._connection.runs.result import BudgetExceededError, describe_spent
from claude_agent_py._connection.session import Session
from claude_agent_py._journal.tasks.spending import Prices
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.output_shape import Output
from claude_agent_py.options.variables import config_directory, environment
from claude_agent_py.sessions.cost_notes import read_cost
from claude_agent_py.sessions.index import list_sessions
from claude_agent_py.sessions.resuming import find_title
from claude_agent_py.sessions.stored_session import get_session


class EarlierCost(NamedTuple):
    """The cost of the earlier processes of a session, in US dollars."""

    total: float = 0.0
    noted: float = 0.0
    """The part that the CLI knows and includes in its totals."""


NOTHING: Final = EarlierCost()


async def subtract_spent(
    options: ClientOptions[Output], config_dir: str | None, session: Session, last: Session | None
) -> ClientOptions[Output]:
    """Return the options of a process with what earlier processes of its session have left of the budget.

    Args:
        options: The options of the process.
        config_dir: Its private configuration folder, if it has one.
        session: Its session, which notes what the CLI does not know.
        last: The session of the last process, if it was in this client.

    Raises:
        BudgetExceededError: Nothing is left.
    """
    spent = await _read_spent(options, config_dir, Prices() if last is None else last.intake.ledger.prices)
    known = 0.0 if last is None else last.reported.spent_before_usd + last.reported.cost_usd
    total, limit = max(spent.total, known), options.max_budget_usd
    session.reported.spent_before_usd = total - spent.noted
    if limit is None or not total:
        return options
    if total >= limit:
        raise BudgetExceededError(describe_spent(total, limit))
    return options.replace(max_budget_usd=limit - total)


async def _read_spent(options: ClientOptions, config_dir: str | None, prices: Prices) -> EarlierCost:
    if options.resume is None and not options.continue_conversation:
        return NOTHING
    if config_dir is None and (options.spawn is not None or options.home is True):
        return NOTHING  # its transcript is in another place
    try:
        folder = Path(config_dir) if config_dir is not None else config_directory(environment(options, os.environ))
        return await run_file_work(_find_spent, options, folder, prices, abandon_on_cancel=True)
    except (ClaudeAgentError, OSError) as error:  # the CLI reports a session that does not exist
        logger.debug("the cost of the session to resume is unknown: %s", error)
        return NOTHING


def _find_spent(options: ClientOptions, config_dir: Path, prices: Prices) -> EarlierCost:
    session_id = _find_session_id(options, config_dir)
    if session_id is None:
        return NOTHING
    session = get_session(session_id, config_dir=config_dir)
    lines = (line for _, line in session.snapshot.forwards() if line is not None)
    notes = [note for line in lines if (note := read_cost(line)) is not None]
    for note in notes:
        prices.derive(note.model_usage)
    costs = [note.total_cost_usd or 0.0 for note in notes] or [0.0]
    estimate = prices.cost_of(session.totals.spent)  # None if a price is unknown
    return EarlierCost(max(*costs, estimate or 0.0), costs[-1])


def _find_session_id(options: ClientOptions, config_dir: Path) -> str | None:
    if options.resume is not None:
        return parse_session_id(options.resume) or find_title(options.resume, options.cwd, config_dir)
    listed = list_sessions(options.cwd or os.curdir, include_worktrees=False, config_dir=config_dir)
    return listed[0].id if listed else None

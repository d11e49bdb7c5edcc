"""Many sessions on one machine: processes that are started ahead, and many prompts at once."""

from claude_agent_py._errors import PoolTimeoutError
from claude_agent_py.pool.mapping import MapRuns, map_runs
from claude_agent_py.pool.outcome import MapProgress, RunOutcome
from claude_agent_py.pool.pool import Pool
from claude_agent_py.pool.stats import PoolStats
from claude_agent_py.retrying import RetryPolicy

__all__ = [
    "MapProgress",
    "MapRuns",
    "Pool",
    "PoolStats",
    "PoolTimeoutError",
    "RetryPolicy",
    "RunOutcome",
    "map_runs",
]

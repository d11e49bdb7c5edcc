"""Many sessions on one machine: pre-started processes, and many concurrent prompts."""

from claude_agent_py._base.lazy_names import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from claude_agent_py._base.errors import PoolTimeoutError as PoolTimeoutError
    from claude_agent_py.pool.mapping import MapRuns as MapRuns, map_runs as map_runs
    from claude_agent_py.pool.outcome import MapProgress as MapProgress, RunOutcome as RunOutcome
    from claude_agent_py.pool.pool import Pool as Pool
    from claude_agent_py.pool.targets import PoolStats as PoolStats
    from claude_agent_py.retrying import RetryPolicy as RetryPolicy
else:
    _NAMES = {
        "claude_agent_py._base.errors": "PoolTimeoutError",
        "claude_agent_py.pool.mapping": "MapRuns map_runs",
        "claude_agent_py.pool.outcome": "MapProgress RunOutcome",
        "claude_agent_py.pool.pool": "Pool",
        "claude_agent_py.pool.targets": "PoolStats",
        "claude_agent_py.retrying": "RetryPolicy",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

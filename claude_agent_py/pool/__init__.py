"""Many sessions on one machine: pre-started processes, and many concurrent prompts."""

from claude_agent_py._lazy_names import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from claude_agent_py._errors import PoolTimeoutError as PoolTimeoutError
    from claude_agent_py.pool.mapping import MapRuns as MapRuns, map_runs as map_runs
    from claude_agent_py.pool.outcome import MapProgress as MapProgress, RunOutcome as RunOutcome
    from claude_agent_py.pool.pool import Pool as Pool
    from claude_agent_py.pool.targets import PoolStats as PoolStats
    from claude_agent_py.retrying import RetryPolicy as RetryPolicy
else:
    __getattr__, __dir__ = attach(__name__)

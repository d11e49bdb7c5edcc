"""The engine for many machines: each session is a workflow of Temporal, and each call of `run_turn` an activity."""

from claude_agent_py._base.lazy_names import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from claude_agent_py.fleet._temporal.worker import TemporalWorker as TemporalWorker
else:
    # Only a process with a worker needs what runs prompts: half of what there is to import.
    __getattr__, __dir__ = attach(__name__, {"claude_agent_py.fleet._temporal.worker": "TemporalWorker"})

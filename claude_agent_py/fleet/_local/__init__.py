"""The engine for one machine: sessions in one SQLite file, run by workers that lease them."""

from claude_agent_py._base.lazy_names import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from claude_agent_py.fleet._local.worker import LocalWorker as LocalWorker
else:
    # Only a process with a worker needs what runs prompts: half of what there is to import.
    __getattr__, __dir__ = attach(__name__, {"claude_agent_py.fleet._local.worker": "LocalWorker"})

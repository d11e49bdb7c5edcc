"""What a running session tells those who watch it: its journal, and the views that observe it."""

from typing import Any

from claude_agent_py._journal.live import LiveJournal as LiveJournal
from claude_agent_py._journal.views import View as View
from claude_agent_py.cli._chat.conversation import Conversation as Conversation


def editor_updates() -> Any:
    """Return the view of an editor, which takes a second to import."""
    from claude_agent_py.acp.updates import Updates

    return Updates()

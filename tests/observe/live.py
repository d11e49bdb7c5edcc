"""What a running session tells those who watch it: its journal, and the views that observe it."""

from claude_agent_py._journal.live import LiveJournal as LiveJournal
from claude_agent_py._journal.views import View as View
from claude_agent_py.cli._chat.conversation import Conversation as Conversation

"""Permissions and questions: what the CLI asks a person, and who answers.

`policies`, `paths` and `commands` decide by rule; `questions`, `plans`, `elicitation` and `dialogs` are what a person
is asked; `interactions` and `inbox_sqlite` keep it until a person answers; `dispatcher` runs all of it for one session.
Every name that users need is available here; its module is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from claude_agent_py.lazy_names import loader

if TYPE_CHECKING:
    from claude_agent_py.permissions.commands import bash_commands as bash_commands
    from claude_agent_py.permissions.decisions import Allow as Allow
    from claude_agent_py.permissions.decisions import Decision as Decision
    from claude_agent_py.permissions.decisions import Deny as Deny
    from claude_agent_py.permissions.dialogs import Completed as Completed
    from claude_agent_py.permissions.dialogs import Dismissed as Dismissed
    from claude_agent_py.permissions.dispatcher import PermissionDispatcher as PermissionDispatcher
    from claude_agent_py.permissions.elicitation import Accept as Accept
    from claude_agent_py.permissions.elicitation import Cancel as Cancel
    from claude_agent_py.permissions.elicitation import Decline as Decline
    from claude_agent_py.permissions.elicitation import ElicitationRequest as ElicitationRequest
    from claude_agent_py.permissions.forms import Form as Form
    from claude_agent_py.permissions.forms import FormError as FormError
    from claude_agent_py.permissions.forms import FormField as FormField
    from claude_agent_py.permissions.inbox_sqlite import SQLiteInbox as SQLiteInbox
    from claude_agent_py.permissions.interactions import Inbox as Inbox
    from claude_agent_py.permissions.interactions import Interaction as Interaction
    from claude_agent_py.permissions.interactions import InteractionOpened as InteractionOpened
    from claude_agent_py.permissions.interactions import InteractionSettled as InteractionSettled
    from claude_agent_py.permissions.interactions import PendingInteractions as PendingInteractions
    from claude_agent_py.permissions.paths import within as within
    from claude_agent_py.permissions.plans import Plan as Plan
    from claude_agent_py.permissions.policies import Policy as Policy
    from claude_agent_py.permissions.policies import allow_tools as allow_tools
    from claude_agent_py.permissions.policies import ask as ask
    from claude_agent_py.permissions.policies import deny_tools as deny_tools
    from claude_agent_py.permissions.policies import first_of as first_of
    from claude_agent_py.permissions.policies import read_only as read_only
    from claude_agent_py.permissions.questions import Answers as Answers
    from claude_agent_py.permissions.questions import Option as Option
    from claude_agent_py.permissions.questions import Question as Question
    from claude_agent_py.permissions.requests import PermissionContext as PermissionContext
    from claude_agent_py.permissions.requests import PermissionRequest as PermissionRequest
    from claude_agent_py.permissions.requests import displayable as displayable
    from claude_agent_py.permissions.typed_answers import read_typed as read_typed

_NAMES = {
    "commands": "bash_commands",
    "decisions": "Allow Decision Deny",
    "dialogs": "Completed Dismissed",
    "dispatcher": "PermissionDispatcher",
    "elicitation": "Accept Cancel Decline ElicitationRequest",
    "forms": "Form FormError FormField",
    "inbox_sqlite": "SQLiteInbox",
    "interactions": "Inbox Interaction InteractionOpened InteractionSettled PendingInteractions",
    "paths": "within",
    "plans": "Plan",
    "policies": "Policy allow_tools ask deny_tools first_of read_only",
    "questions": "Answers Option Question",
    "requests": "PermissionContext PermissionRequest displayable",
    "typed_answers": "read_typed",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(_HOME)

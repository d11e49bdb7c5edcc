"""Permissions and questions: policies and handlers that answer the CLI's prompts, and inboxes for people."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.permissions.contexts import PermissionContext as PermissionContext
    from claude_agent_py.permissions.decisions import Allow as Allow, Decision as Decision, Deny as Deny
    from claude_agent_py.permissions.diffs import build_diff as build_diff
    from claude_agent_py.permissions.elicitation import Accept as Accept, Cancel as Cancel, Decline as Decline
    from claude_agent_py.permissions.guarding import guard as guard
    from claude_agent_py.permissions.inbox import Inbox as Inbox, PendingInteractions as PendingInteractions
    from claude_agent_py.permissions.inbox_sqlite import SQLiteInbox as SQLiteInbox
    from claude_agent_py.permissions.interactions import (
        AnswerSource as AnswerSource,
        Interaction as Interaction,
        InteractionOpened as InteractionOpened,
        InteractionSettled as InteractionSettled,
    )
    from claude_agent_py.permissions.open_questions import OpenQuestion as OpenQuestion
    from claude_agent_py.permissions.policies import (
        Policy as Policy,
        allow_tools as allow_tools,
        ask as ask,
        bash_commands as bash_commands,
        deny_tools as deny_tools,
        first_of as first_of,
        read_only as read_only,
        within as within,
    )
    from claude_agent_py.permissions.prompts import Completed as Completed, Dismissed as Dismissed, Plan as Plan
    from claude_agent_py.permissions.question_records import QuestionRecord as QuestionRecord
    from claude_agent_py.permissions.questions import Answers as Answers, Option as Option, Question as Question
    from claude_agent_py.permissions.requests import PermissionRequest as PermissionRequest, displayable as displayable
    from claude_agent_py.permissions.signatures import *
    from claude_agent_py.permissions.typed_answers import read_form as read_form, read_typed as read_typed
    from claude_agent_py.wire.control.asks import ElicitationRequest as ElicitationRequest
    from claude_agent_py.wire.control.forms import Form as Form, FormError as FormError, FormField as FormField
    from claude_agent_py.wire.control.permissions import (
        AddDirectories as AddDirectories,
        AddRules as AddRules,
        PermissionMode as PermissionMode,
        PermissionRuleValue as PermissionRuleValue,
        PermissionUpdate as PermissionUpdate,
        RemoveDirectories as RemoveDirectories,
        RemoveRules as RemoveRules,
        ReplaceRules as ReplaceRules,
        SetMode as SetMode,
        UnknownPermissionUpdate as UnknownPermissionUpdate,
    )
else:
    _NAMES = {
        "claude_agent_py.permissions.contexts": "PermissionContext",
        "claude_agent_py.permissions.decisions": "Allow Decision Deny",
        "claude_agent_py.permissions.diffs": "build_diff",
        "claude_agent_py.permissions.elicitation": "Accept Cancel Decline",
        "claude_agent_py.permissions.signatures": """
            CanUseTool QuestionHandler PlanHandler ElicitationHandler DialogHandler
        """,
        "claude_agent_py.permissions.guarding": "guard",
        "claude_agent_py.permissions.inbox": "Inbox PendingInteractions",
        "claude_agent_py.permissions.inbox_sqlite": "SQLiteInbox",
        "claude_agent_py.permissions.interactions": "AnswerSource Interaction InteractionOpened InteractionSettled",
        "claude_agent_py.permissions.open_questions": "OpenQuestion",
        "claude_agent_py.permissions.policies": """
            Policy allow_tools ask bash_commands deny_tools first_of read_only within
        """,
        "claude_agent_py.permissions.prompts": "Completed Dismissed Plan",
        "claude_agent_py.permissions.question_records": "QuestionRecord",
        "claude_agent_py.permissions.questions": "Answers Option Question",
        "claude_agent_py.permissions.requests": "PermissionRequest displayable",
        "claude_agent_py.permissions.typed_answers": "read_form read_typed",
        "claude_agent_py.wire.control.asks": "ElicitationRequest",
        "claude_agent_py.wire.control.forms": "Form FormError FormField",
        "claude_agent_py.wire.control.permissions": """
            AddDirectories AddRules PermissionMode PermissionRuleValue PermissionUpdate RemoveDirectories RemoveRules
            ReplaceRules SetMode UnknownPermissionUpdate
        """,
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

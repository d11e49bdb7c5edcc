"""Sessions behind a web page: one numbered stream of events for each, which any number of readers follow.

`Sessions` keeps them, or `FleetSessions` those of a fleet; `make_app` serves them over HTTP with a page, and
`make_agui_app` over AG-UI; the command `claude-agent-py serve` opens the page on loopback. The sessions need no extra,
the rest needs `serve`.
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.serve.agui_app import make_agui_app as make_agui_app
    from claude_agent_py.serve.client_session import ClientSession as ClientSession
    from claude_agent_py.serve.event_log import ServedEvent as ServedEvent
    from claude_agent_py.serve.fleet_session import (
        FleetServedSession as FleetServedSession,
        FleetSessions as FleetSessions,
    )
    from claude_agent_py.serve.session import ServedSession as ServedSession
    from claude_agent_py.serve.sessions import ListedSession as ListedSession, Sessions as Sessions
    from claude_agent_py.serve.web import (
        EXCEPTION_HANDLERS as EXCEPTION_HANDLERS,
        LOOPBACK as LOOPBACK,
        Server as Server,
        make_app as make_app,
        make_token as make_token,
    )
else:
    _NAMES = {
        "claude_agent_py.serve.agui_app": "make_agui_app",
        "claude_agent_py.serve.event_log": "ServedEvent",
        "claude_agent_py.serve.client_session": "ClientSession",
        "claude_agent_py.serve.fleet_session": "FleetServedSession FleetSessions",
        "claude_agent_py.serve.session": "ServedSession",
        "claude_agent_py.serve.sessions": "ListedSession Sessions",
        "claude_agent_py.serve.web": "EXCEPTION_HANDLERS LOOPBACK Server make_app make_token",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

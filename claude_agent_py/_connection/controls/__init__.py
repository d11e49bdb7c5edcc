"""The control requests of a client, in groups."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._connection.control_bodies import build_body as build_body, read_reply as read_reply
else:
    __getattr__, __dir__ = attach(__name__, {"claude_agent_py._connection.control_bodies": "build_body read_reply"})

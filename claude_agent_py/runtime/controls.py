"""`SessionControls`: every typed control request of a session in one place, for `Client` to inherit.

Owns nothing but the sum. One module for each topic: `controls_conversation`, `controls_settings`, `controls_facts`,
`controls_workspace`, `controls_mcp`. Whoever inherits provides `control` (a `ControlPort`) and `info`.

Not here, on purpose: `initialize`, which the session sends once; requests that a CLI on this machine refuses
(`claim_session`, `start_shell_task`, `list_directory`); logins and dialogs of other user interfaces. `control` sends
them all the same.
"""

from functools import cached_property

from claude_agent_py.runtime.controls_conversation import ConversationControls
from claude_agent_py.runtime.controls_facts import FactControls
from claude_agent_py.runtime.controls_mcp import MCPControls
from claude_agent_py.runtime.controls_settings import SettingsControls
from claude_agent_py.runtime.controls_workspace import WorkspaceControls
from claude_agent_py.runtime.mcp_control import MCPControl


class SessionControls(ConversationControls, SettingsControls, FactControls, WorkspaceControls, MCPControls):
    """Everything that can be asked of a running session, idle or in the middle of a turn.

    Each method sends one control request and returns when the CLI has answered it, which it does within milliseconds
    unless the request says otherwise. What a reply holds beyond its model is in its `raw`; what does not fit
    the model is left out of it (`control` gives a reply as it came).

    All methods may be called from any number of workers at once. Cancelling one stops the waiting; what was asked is
    not taken back. Besides what is said at a method, each raises:

    Raises:
        OptionsError: An argument is of a wrong type; nothing was sent.
        ControlRejectedError: The CLI refuses; `error` is what it says. `error_code` is `unsupported_request` where
            this version of the CLI does not know the request.
        ControlTimeoutError: It did not answer within `Timeouts.control`, or the method's `timeout`, in seconds.
        RemoteProtocolError: The reply makes no sense; `raw` has it.
        ConnectionClosedError: The session is not open, or was closed before the reply.
        CLIExitError: The CLI has ended.
    """

    @cached_property
    def mcp(self) -> MCPControl:
        """The MCP servers of the session, and waiting until they are up."""
        return MCPControl(self)

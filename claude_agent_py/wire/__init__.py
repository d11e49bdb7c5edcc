"""Models of the frames that the CLI and the SDK exchange, and the codec that reads and writes them.

The package does no I/O and keeps no state. Its models are public in `messages`, `control`, `tools`, `hooks` and
`permissions`.
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.wire.base import (
        CUT_OFF as CUT_OFF,
        INTERRUPTED as INTERRUPTED,
        JSONObject as JSONObject,
        dump as dump,
    )
    from claude_agent_py.wire.codec import decode as decode, encode as encode
    from claude_agent_py.wire.frames import Frame as Frame
else:
    _NAMES = {
        "claude_agent_py.wire.base": "CUT_OFF INTERRUPTED JSONObject dump",
        "claude_agent_py.wire.codec": "decode encode",
        "claude_agent_py.wire.frames": "Frame",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)

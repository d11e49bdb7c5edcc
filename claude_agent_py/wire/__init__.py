"""What is on the pipe: models of every frame, and the codec between lines and models.

Owns the shapes and nothing else: no I/O, no state, no meaning beyond the frame itself. `decode` gives a model for a
line and `encode` the line for a model. The models are public in `messages`, `control`, `tools`, `hooks` and
`permissions`.
"""

from typing import TYPE_CHECKING

from claude_agent_py.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.wire.codec import decode as decode, encode as encode
    from claude_agent_py.wire.frames import Frame as Frame
else:
    __getattr__, __dir__ = attach(__name__)

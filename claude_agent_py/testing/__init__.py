"""Test agents without a model.

`ScriptedModel` is a Messages API on loopback for the real CLI. `FakeCLI` replaces the CLI itself and is scripted with
`steps` and `frames`. A `Gate` blocks either until the test opens it. Everything here is public.
"""

from claude_agent_py.testing import frames, steps
from claude_agent_py.testing.fake_cli import FakeCLI, FakeTransport
from claude_agent_py.testing.gate import Gate
from claude_agent_py.testing.requests import RecordedRequest
from claude_agent_py.testing.sandbox import Sandbox
from claude_agent_py.testing.script import (
    Answer,
    AnyScript,
    Block,
    CutStream,
    Failure,
    LooseAnswer,
    RawBlock,
    Reply,
    Script,
    Text,
    Thinking,
    ToolCall,
    Usage,
    text,
    thinking,
    tool_use,
)
from claude_agent_py.testing.scripted_model import Match, ScriptedModel
from claude_agent_py.testing.store_contract import check_session_store
from claude_agent_py.testing.text_formats import check_text_format

__all__ = [
    "Answer",
    "AnyScript",
    "Block",
    "CutStream",
    "FakeCLI",
    "FakeTransport",
    "Failure",
    "Gate",
    "LooseAnswer",
    "Match",
    "RawBlock",
    "RecordedRequest",
    "Reply",
    "Sandbox",
    "Script",
    "ScriptedModel",
    "Text",
    "Thinking",
    "ToolCall",
    "Usage",
    "check_session_store",
    "check_text_format",
    "frames",
    "steps",
    "text",
    "thinking",
    "tool_use",
]

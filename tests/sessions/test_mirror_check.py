"""What a session store lacks by the end: prompts, answers and tool results that the CLI did not mirror."""

import pytest

from claude_agent_py._connection.mirror_check import MirrorCheck
from claude_agent_py.testing import frames
from claude_agent_py.wire import codec


@pytest.mark.parametrize("lost", ["answer", "tool result", None])
def test_one_lost_message_is_counted(lost: str | None) -> None:
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="toolu_1")])
    said = {"answer": call, "tool result": frames.tool_result("toolu_1", "a file")}
    check = MirrorCheck()
    for frame in said.values():
        check.take(codec.decode(frames.encode(frame).strip()))
    check.mirror([frame for name, frame in said.items() if name != lost])
    assert check.end() == (0 if lost is None else 1)

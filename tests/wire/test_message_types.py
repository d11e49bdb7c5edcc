"""What a type checker understands of the messages: tags narrow, blocks match, and wrong uses are errors."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from typing import Literal, assert_type

from claude_agent_py import AssistantMessage, ResultMessage, TextBlock, ToolUseBlock, UserMessage
from claude_agent_py.messages import (
    ContentBlock,
    ImageBlock,
    InitMessage,
    Message,
    MediaSource,
    StatusMessage,
    UnknownBlock,
    UnknownMessage,
    UserContent,
)


def told(message: Message) -> str:
    if isinstance(message, UnknownMessage):
        return message.type
    if message.type == "result":
        assert_type(message, ResultMessage)
        return message.error_text
    if isinstance(message, AssistantMessage):
        return " ".join(said(block) for block in message.content)
    if isinstance(message, StatusMessage | InitMessage):
        assert_type(message.type, Literal["system"])
    return message.uuid + message.session_id + str(message.raw)


def said(block: ContentBlock) -> str:
    match block:
        case TextBlock(text=text):
            return text
        case ToolUseBlock(name="Bash", input={"command": str(command)}):
            return command
        case UnknownBlock(raw=raw):
            return str(raw)
        case _:
            return block.type


content: list[ContentBlock] = [TextBlock(text="hi"), ImageBlock(source=MediaSource(type="a new word"))]
message = UserMessage(message=UserContent(role="user", content=content)).replace(uuid="u")
assert_type(message, UserMessage)
assert told(message).startswith("u{")
assert [said(block) for block in content] == ["hi", "image"]
"""

WRONG = """
from claude_agent_py import TextBlock

block = TextBlock(text="hi")
block.text = "other"
TextBlock("hi")
TextBlock(words="hi")
"""

CHECKERS = {
    "mypy": ["mypy", "--strict", "--config-file=", "--cache-dir=cache"],
    "pyright": ["pyright"],
}


def checked(checker: str, folder: Path, program: str) -> tuple[int, str]:
    pytest.importorskip(checker)
    (folder / "program.py").write_text(program)
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "include": ["program.py"]}')
    python = ["--pythonpath", sys.executable] if checker == "pyright" else []
    command = [sys.executable, "-m", *CHECKERS[checker], *python, *([] if python else ["program.py"])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_program_that_narrows_and_matches_is_well_typed(checker: str, tmp_path: Path) -> None:
    code, said = checked(checker, tmp_path, PROGRAM)
    assert code == 0, said
    exec(compile(PROGRAM, "program.py", "exec"), {})


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_message_is_neither_changed_nor_made_in_other_ways(checker: str, tmp_path: Path) -> None:
    _, said = checked(checker, tmp_path, WRONG)
    lines = [line for line in said.splitlines() if "program.py:" in line and "error" in line]
    assert {line.split("program.py:")[1].split(":")[0] for line in lines} == {"5", "6", "7"}, said

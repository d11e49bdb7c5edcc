"""What a type checker lets users write: everything that the pages say is taken, without plugins."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from claude_agent_py import AgentDefinition, ClientOptions

reviewer = AgentDefinition(description="d", prompt="p")
definitions = {"a": reviewer}
ClientOptions(
    agents={"a": {"description": "d", "prompt": "p"}, "b": reviewer},
    system_prompt={"type": "preset", "append": "x"},
    thinking={"type": "enabled", "budget_tokens": 5},
    plugins=["a", {"type": "local", "path": "b"}],
    tools={"type": "preset", "preset": "claude_code"},
)
ClientOptions(agents=definitions, system_prompt=["a", "b"], thinking="adaptive", tools=["Read"])
"""


def test_the_dicts_of_the_official_sdks_are_well_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    exec(compile(PROGRAM, "program.py", "exec"), {})

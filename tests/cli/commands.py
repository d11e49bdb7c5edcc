"""The command line in the process of the tests, since a process for each of its commands takes longer than they do."""

import os
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest

from claude_agent_py.cli import main

Command: TypeAlias = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs a command in an environment and a folder, and returns what it printed."""

    def run(*arguments: str, env: Mapping[str, str], cwd: Path = Path()) -> "CompletedProcess[str]":
        capfd.readouterr()
        with patch.dict(os.environ, env, clear=True), chdir(cwd):
            try:
                code: Any = main([*arguments])
            except SystemExit as ended:  # of argparse
                code = ended.code
        return CompletedProcess(arguments, code, *capfd.readouterr())

    return run

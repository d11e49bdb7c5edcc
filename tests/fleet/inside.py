"""What tests of the fleet reach into: statements of its database, the server and workflows of Temporal, commands."""

from typing import Any

from claude_agent_py._base.checks import read_size as read_size
from claude_agent_py.cli.program import make_parser as make_parser
from claude_agent_py.cli.temporal_server import TemporalServer as TemporalServer, find_program as find_program
from claude_agent_py.fleet._health import ANSWER_SECONDS as ANSWER_SECONDS, parse_address as parse_address
from claude_agent_py.fleet._local import _changes as changes, _file as file, _retention as retention


def workflows() -> list[type[Any]]:
    """Return the workflows of the Temporal engine, which take long to import."""
    from claude_agent_py.fleet._temporal.limits import LimitWorkflow
    from claude_agent_py.fleet._temporal.workflow import SessionWorkflow

    return [SessionWorkflow, LimitWorkflow]


__all__ = [
    "ANSWER_SECONDS",
    "TemporalServer",
    "changes",
    "file",
    "find_program",
    "make_parser",
    "parse_address",
    "read_size",
    "retention",
    "workflows",
]

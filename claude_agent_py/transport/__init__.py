"""Bytes to a `claude` program and back: the interface, the real subprocess, and the plan that it is started from."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach
from claude_agent_py._version import CLI_VERSION as CLI_VERSION, MINIMUM_CLI_VERSION as MINIMUM_CLI_VERSION
from claude_agent_py.transport.base import Transport
from claude_agent_py.transport.launch_plan import LaunchPlan
from claude_agent_py.transport.memory import can_measure, tree_memory
from claude_agent_py.transport.subprocess import SubprocessTransport

__all__ = [
    "CLI_VERSION",
    "MINIMUM_CLI_VERSION",
    "LaunchPlan",
    "SubprocessTransport",
    "Transport",
    "can_measure",
    "tree_memory",
]

if not TYPE_CHECKING:
    __getattr__, _ = attach(__name__, {})

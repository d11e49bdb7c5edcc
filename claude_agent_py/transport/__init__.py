"""Bytes to a `claude` program and back: the interface, the real subprocess, and the plan that it is started from."""

from claude_agent_py.transport.base import Transport
from claude_agent_py.transport.launch_plan import LaunchPlan
from claude_agent_py.transport.subprocess import SubprocessTransport

__all__ = ["LaunchPlan", "SubprocessTransport", "Transport"]

"""Bytes to a `claude` program and back: the interface, and the real subprocess."""

from claude_agent_py.transport.base import Transport
from claude_agent_py.transport.subprocess import SubprocessTransport

__all__ = ["SubprocessTransport", "Transport"]

"""The fixtures of tests with child agents."""

from child_clis import agent_of, clean

__all__ = ["agent_of", "clean"]

"""The dashboard of `claude-agent-py watch`: sessions of this machine and of a fleet, and pending questions."""

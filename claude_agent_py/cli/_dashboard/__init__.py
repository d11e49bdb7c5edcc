"""What `claude-agent-py watch` shows: the sessions of this machine, of a fleet, and what waits for a person."""

"""Session stores: transcripts kept outside of the machine that the CLI runs on.

`claude_agent_py.sessions` has the public names.
"""

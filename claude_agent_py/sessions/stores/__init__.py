"""Session stores, which keep transcripts outside the CLI's machine.

`claude_agent_py.sessions` exports the public names.
"""

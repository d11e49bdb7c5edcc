"""Session stores, which keep transcripts outside of the CLI's machine.

`claude_agent_py.sessions` has the public names.
"""

"""Input and output models of the built-in tools, which `registry` looks up by tool name. Public in `tools`.

To create an input, use its constructor: `TaskInput(description="...", prompt="...")`.
"""

"""The inputs and outputs of the built-in tools, typed. Public in `tools`.

The models are grouped by what the tools do (`agent`, `bash`, `files`, ...), and `registry` says which belongs to which
tool. Field names are snake_case. Inputs are constructible: `TaskInput(description="...", prompt="...")`.
"""

"""A running session on asyncio or trio: it moves bytes between a transport and the engine of `protocol`.

Read `session` first, then `run` (the user's view of a prompt) and `answers` (requests of the CLI).
"""

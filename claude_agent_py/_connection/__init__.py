"""A running session on asyncio or trio: it moves bytes between a transport and the engine of `_journal`.

Read `connection.py` first, then `runs/run.py` (the user's view of a prompt) and `answering/request_handlers.py`
(requests of the CLI).
"""

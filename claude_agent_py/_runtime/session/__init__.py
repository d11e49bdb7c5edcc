"""A session: one CLI process, its start, its workers and the readers of its messages."""

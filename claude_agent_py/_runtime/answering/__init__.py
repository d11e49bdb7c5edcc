"""Answering the requests of the CLI, and the log of handlers that fail."""

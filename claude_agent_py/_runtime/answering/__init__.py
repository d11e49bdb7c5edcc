"""Answers to what the CLI asks, and the log of handlers that fail."""

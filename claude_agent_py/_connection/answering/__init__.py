"""Answering the requests of the CLI."""

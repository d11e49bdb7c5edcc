"""Hooks on the wire: the events as data, what a hook is told, and what it may answer. Public in `hooks`."""

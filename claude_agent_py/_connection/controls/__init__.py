"""The control requests of a client, in groups."""

"""The files that tasks write: where they are, what is in them, and following them as they grow."""

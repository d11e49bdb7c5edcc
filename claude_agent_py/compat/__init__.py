"""Programs that were written for the official Python SDK: its names, with its arguments, shapes and errors."""

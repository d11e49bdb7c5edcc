"""The state of tasks, and how each signal of the CLI changes it. Sans-IO: time is an argument."""

"""What is known of tasks, and what each signal of the CLI changes about it. Pure: no I/O, and time is an argument."""

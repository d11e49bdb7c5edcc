"""Hook events, inputs and outputs. Public in `hooks`."""

"""Runs: prompts, the mailboxes of their messages, `Run` and `RunResult`."""

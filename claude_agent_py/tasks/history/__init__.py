"""A table of the facts about the tasks of many sessions, in an SQLite file."""

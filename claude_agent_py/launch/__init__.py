"""From options to a process: where the program is, and what it is started with.

`table` says for every option whether it is a flag, a variable or a field of `initialize`; `plan` makes the command line
of it, `environment` the variables, `settings` the settings file. `locate` finds the program, `install` fetches it.
"""

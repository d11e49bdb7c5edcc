"""The conversation with the CLI as pure code: bytes in, events out; intents in, bytes out; time is an argument.

Read `engine` first; it joins `lines`, `requests`, `turns` and `state`. `turns` has the rules of which run a message
belongs to, `verdict` and `text` what a run amounts to. `ports` and `handlers` are what the features share with a
session. Nothing here does I/O or is async.
"""

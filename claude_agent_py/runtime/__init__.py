"""The async shell: a session at work, on asyncio and trio.

Read `session` first (from options to an end), then `connection` (the workers that drive the engine), `prompting` and
`run` (from a prompt to its result). `features` puts together what answers the CLI, `answering` who answers what,
`controls` has the typed control requests. The decisions are made in `protocol`.
"""

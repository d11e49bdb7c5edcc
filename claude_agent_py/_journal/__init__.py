"""The pure core of a session, without I/O; time is an argument.

`engine` turns bytes into messages and requests, and back. `router` finds the runs of each message, by the `turns`.
`fold` makes the numbered `facts` of the journal, and everything else that shows a session is a view of them;
`observe.sources` and `sessions.entries` read the frames of sessions that are over.
"""

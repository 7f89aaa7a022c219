"""Everything that is said to a rented machine, as shell text: one file per concern, nothing is executed here.

Every function returns a Command whose text runs on dash, bash and the sh of macOS. Replies are lines
`key=value` (replies.py). What lies where on the machine, and what a job may rely on: docs/machine.md.
"""

"""The local bus: an agent's rows for programs on its machine, through a ZeroMQ PUB socket.

`place` says where the socket is, `message` what a message contains, `columns` how rows are packed. docs/local-bus.md is
the same for users.
"""

"""The local bus: offers each run's batches to programs on this machine, beside the way to the server.

In the order of data: waiting (records that the bus has not sent yet, bounded), positions (how far each stream has come,
told to readers that missed the end), messages (makes messages of records), bus (the socket and its thread).
"""

"""Names and images of containers, as their engines keep them.

Each module knows the files of some engines; `sockets` asks engines whose files are elsewhere; `lookup` asks them all.
"""

"""Closed days in blocks: thousands of rows in one, each column an array. An eighth of the size, and read as fast.

`layout` is how a block lies in its table, `rows` reads rows whether they lie in blocks or singly, `move` takes rows of
a day from the one to the other, `compaction` does so for all days that are closed, in the background.
"""

from scope_server.store.blocks.compaction import Compaction, compact

__all__ = ["Compaction", "compact"]

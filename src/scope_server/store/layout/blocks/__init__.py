"""Blocks: each holds thousands of rows, with an array per column. A fifth of the size of single rows, and as fast.

`packing` converts rows to blocks and back; `tables` defines the tables of blocks; `rows` reads rows from blocks.
`compaction` merges the writers' fresh blocks into large, compressed ones, in the background. `blocks` is all of these
as a layout.
"""

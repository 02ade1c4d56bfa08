"""Rows in blocks: thousands of rows in one, each column an array. A fifth of the size of single rows, and as fast.

`packing` makes blocks of rows, and rows of blocks; `layout` is how they lie in their tables; `rows` reads rows out of
them; `compaction` makes of fresh blocks, as writers leave them, large and compressed ones, in the background.
"""

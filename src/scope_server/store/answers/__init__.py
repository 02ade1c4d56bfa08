"""Many rows for one answer, in bounded work: `side` says which rows, `part` chooses blocks if there are too many.

`stacks` adds up the rows of a flame graph; `sample` takes rows, which `comparison` compares; `slowest` takes the
slowest ones; `texts` finds what keys stand for. `why` asks the totals of several streams for one process.
"""

"""Many rows for one answer, in bounded work: `side` says which rows, `part` chooses blocks if there are too many.

`stacks` adds up the rows of a flame graph; `sample` takes rows, which `comparison` compares; `slowest` takes the
slowest ones; `texts` finds what keys stand for. `asked` reads totals for answers that put several streams together:
`why` of one process, `processes` of a machine's. `request` splits the time of one row, `threads` tells what threads
did when.
"""

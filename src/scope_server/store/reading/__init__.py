"""Queries: `database` is the connection pool; `queries` has the statements by name; pages of events are composed.
`learnt` follows which streams other servers learn.

For pages, `filters` makes conditions on rows and blocks, `window` finds the time range of the first rows, and `reader`
reads the pages.
"""

"""Queries: `database` is the connection pool; `queries` has the statements by name; pages of events are composed.
`learnt` follows which streams other servers learn. A `replica` answers in place of the database; `replicas` says which.

A `selection` says which rows a question is about; `filters` makes conditions on rows and blocks of it. For pages,
`window` finds the time range of the first rows, and `reader` reads the pages.
"""

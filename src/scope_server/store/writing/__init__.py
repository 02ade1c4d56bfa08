"""Writes deliveries to the database: rows and event counts.

In the order of data: `delivery` (the input), `writer` (isolates what fails), `transaction`, then `runs`,
`dimensions` (`entries`, `described`), `rows`, `catalogue`, `books` (`sequences`), `rejections`, and finally
`connection` and `wire`. `quarantine` handles records that could not be written.
"""

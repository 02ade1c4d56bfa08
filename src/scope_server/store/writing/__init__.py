"""From what is handed over to committed rows and books.

In the order of data: `delivery` (what is handed over) - `writer` (halves a group that fails) - `transaction` - `runs`,
`dimensions` (`texts`, `described`), `rows`, `catalogue`, `books` (`sequences`), `rejections` - `connection`, `wire`.
`quarantine` is what people do with records that could not be written.
"""

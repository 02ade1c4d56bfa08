"""How rows lie in the database. `contract` says what differs between layouts; nothing else in the store may.

`blocks` is the layout of every store so far: thousands of rows in one row of PostgreSQL, with an array per column.
"""

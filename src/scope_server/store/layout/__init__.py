"""How rows lie in the database. `contract` says what differs between layouts; nothing else in the store may.

`blocks` is the default: thousands of rows in one row of PostgreSQL, with an array per column. `hypertables` are
TimescaleDB's, with single rows. `choice` has both by name; a database keeps the one that it was made with.
"""

"""Storage in PostgreSQL: `schema` makes the tables, `writing` fills them, `reading` queries them.

`dimensions` are the tables of values that rows refer to by key. `answers` reads many rows for one answer. `layout` has
the rows, `rollups` their totals, `latest` the newest row of each state. `retention` deletes old days; `upkeep` runs
background work. `postgres` is the private database server.
"""

"""PostgreSQL: `schema` makes the tables, `writing` fills them, `reading` answers.

Rows lie in `blocks`, what they add up to in `rollups`, the newest row of each state in `latest`; `retention` takes old
days away, and `upkeep` does in the background what all of these have to be done. `postgres` is the private instance.
"""

"""The database schema: `columns` and `arrow` convert a described stream to a table, `tables` are all known ones.

`migrate` creates tables and views, `flames` functions for flame graphs, `partitions` one table per day. `learning`
makes those of streams that agents describe, `descriptions` keeps the descriptions, `conflicts` sets aside columns that
contradict the catalogue. Numbered files in `migrations/` have the tables that belong to no stream. `reader_role` makes
the database role of programs that only read, such as Grafana.
"""

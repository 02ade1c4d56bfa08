"""The database schema: `columns` from the catalogue, `migrate` creates tables and views, `partitions` one per day.

Numbered files in `migrations/` have the tables that belong to no stream.
"""

"""What lies in the database: `columns` from the catalogue's schemas, `migrate` makes tables and views, a day each.

Numbered files in `migrations/` have what is no stream's own.
"""

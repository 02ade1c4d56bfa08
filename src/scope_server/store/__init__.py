"""PostgreSQL: the private instance, the schema, what writes rows and what reads them.

Writing: delivery (what is handed over) - writer (halving, quarantine) - transaction - runs, dimensions (texts,
described), partitions, rows, catalogue, books (sequences), rejections - connection (ADBC). Reading: reader - filters,
window - database (pool), queries. Schema: columns - schema, views. By hand: quarantine.
"""

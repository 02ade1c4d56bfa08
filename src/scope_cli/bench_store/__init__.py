"""`scope bench store`: fills a database as agents would, then measures what people ask of it.

In the order of a run: load (rows as agents send them) - fill (through the server's decoding and its writer) - questions
(what is asked, and how fast the answer has to be) - costs (bytes and CPU a row, the writer against a bare ingest).
"""

"""From the wire to a table to an answer: ingest, storage in PostgreSQL, and the REST API."""

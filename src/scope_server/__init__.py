"""The server: receives records, stores them in PostgreSQL, and answers through a REST API."""

"""PostgreSQL: the private instance, the schema, what writes rows and what reads them."""

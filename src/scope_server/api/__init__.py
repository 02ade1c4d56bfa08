"""The REST API: routing (what a route is), resources (what there is), table (all routes), description (OpenAPI)."""

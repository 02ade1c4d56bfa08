"""REST under /api/v1. One module a resource, each with its routes."""

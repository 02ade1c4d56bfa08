"""The REST API under /api/v1: input (checks requests), one module per resource, output and problems (answers)."""

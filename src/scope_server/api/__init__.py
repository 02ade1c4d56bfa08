"""REST under /api/v1: input (requests, checked) - a module a resource - output and problems (answers)."""

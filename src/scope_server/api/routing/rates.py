"""How often a caller may call a route."""

from scope_server.limits import Rate

READS = Rate(12_000, 2000)
WORK = Rate(1200, 300)  # answers for which many rows are read
CHANGES = Rate(3000, 1000)
OPEN = Rate(1200, 200)  # without a login

"""InfluxDB 1 and 2: address (where it is), lines (the line protocol), target (how they are written)."""

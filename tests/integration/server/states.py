"""Helpers: random rows of states, and queries of all rows, whose answers the latest states must equal."""

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from tests.integration.server.records import FIRST_KTIME_NS, Line
from tests.integration.server.tables import TABLES

# The newest row of each state, found among all rows.
HELD = """
SELECT machine_id, hostname, pid, start_ns, comm, memory, device, stack, ended <> 0 AS ended,
       sum(live_bytes)::bigint AS live_bytes, sum(live_count)::bigint AS live_count,
       sum(allocations)::bigint AS allocations,
       (sum(mean_age_ns::numeric * live_count) / sum(live_count))::bigint AS mean_age_ns, max(time) AS time
FROM (
    SELECT DISTINCT ON (machine_id, pid, start_ns, memory, device, stack_id) *
    FROM scope.cuda_live(%s)
    ORDER BY machine_id, pid, start_ns, memory, device, stack_id, time DESC, batch DESC, ordinal DESC
) AS latest
WHERE live_count > 0
GROUP BY machine_id, hostname, pid, start_ns, comm, memory, device, stack, ended <> 0
ORDER BY ended, live_bytes DESC"""
# Processes with unknown frees are included, even if they hold no known memory.
MEMORY = """
SELECT machine_id, hostname, pid, start_ns, comm, memory, device, ended <> 0 AS ended,
       sum(live_bytes)::bigint AS live_bytes, sum(live_count)::bigint AS live_count,
       sum(allocations)::bigint AS allocations, sum(unknown_frees)::bigint AS unknown_frees, max(time) AS time
FROM (
    SELECT DISTINCT ON (machine_id, pid, start_ns, memory, device) *
    FROM scope.cuda_memory(%s)
    ORDER BY machine_id, pid, start_ns, memory, device, time DESC, batch DESC, ordinal DESC
) AS latest
WHERE live_count > 0 OR unknown_frees > 0
GROUP BY machine_id, hostname, pid, start_ns, comm, memory, device, ended <> 0
ORDER BY ended, live_bytes DESC"""
GROUPS = """
SELECT process, machine, comm, memory, device, stack, ended, count(*), sum(live_bytes)
FROM latest.cuda_live WHERE live_count > 0 GROUP BY 1, 2, 3, 4, 5, 6, 7"""
RANKED = "SELECT process, machine, comm, memory, device, stack, ended, held, total FROM ranked.cuda_live WHERE held > 0"


def told(stream: str, count: int, **columns: Any) -> pa.RecordBatch:
    """Rows of a stream; columns that are not given are absent or 0."""
    schema = TABLES[stream].schema
    values = {field.name: [None if pa.types.is_dictionary(field.type) else 0] * count for field in schema}
    values |= {"ktime_ns": [FIRST_KTIME_NS + n for n in range(count)], "pid": [4711] * count, "start_ns": [500] * count}
    return pa.RecordBatch.from_pydict(values | columns, schema=schema)


def at_random(stream: str, count: int, random: np.random.Generator, seconds: range) -> pa.RecordBatch:
    """Random rows of few states, in no order; some states are over, some processes have ended."""

    def some(*values: Any) -> list[Any]:
        return [values[place] for place in random.integers(0, len(values), count)]

    columns = {
        "ktime_ns": (random.choice(np.array(seconds), count) * 10**9 + random.integers(0, 10**9, count)).tolist(),
        "pid": some(1, 2, 3),
        "comm": some("one", "one", "two", None),
        "memory": some("device", "pinned", None),
        "device": some(0, 1, None),
        "live_bytes": random.integers(0, 1 << 40, count).tolist(),
        "live_count": some(0, 1, 2, 7),
        "allocations": random.integers(0, 100, count).tolist(),
        "ended": some(0, 0, 0, 1),
        "stack_id": random.integers(0, 5, count).tolist(),
        "stack": some("main;a", "main;b", None),
        "mean_age_ns": random.integers(0, 10**12, count).tolist(),
        "unknown_frees": some(0, 0, 3),
    }
    return told(stream, count, **{name: columns[name] for name in TABLES[stream].schema.names if name in columns})


def by_all_rows(line: Line, statement: str, since: datetime) -> list[tuple[Any, ...]]:
    """The answer from all rows since a time."""
    return line.query(statement, since)


def assert_ranks(line: Line) -> None:
    """Asserts that each group equals the sum of its states."""
    assert sorted(line.query(RANKED), key=repr) == sorted(line.query(GROUPS), key=repr)

"""Rows of several machines, and of several boots of one, on one clock."""

import pyarrow as pa

from scope_views.machines import Machines
from scope_views.times import TIME

HOUR_NS = 3600 * 10**9


def _batch(*rows: tuple[str, int, int]) -> pa.RecordBatch:
    """Rows of machine, time since 1970 and time since boot; each process began at 5 ns."""
    ids, times, since_boot = zip(*rows, strict=True)
    columns = {
        "time": pa.array(times).cast(TIME.type),
        "machine_id": pa.array(ids).dictionary_encode(),
        "hostname": pa.array([f"host of {one}" for one in ids]).dictionary_encode(),
        "ktime_ns": pa.array(since_boot, pa.uint64()),
        "start_ns": pa.array([5] * len(ids), pa.uint64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_rows_are_moved_by_the_offset_of_their_machine_and_boot() -> None:
    """A clock that is set by less than a second keeps its offset, and a process its start; another boot has its own."""
    machines = Machines()
    first = _batch(("a", HOUR_NS + 10, 10), ("b", HOUR_NS + 20, 7), ("a", HOUR_NS + 40, 30), ("a", 3 * HOUR_NS, 50))
    found: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    for batch in (first, _batch(("a", HOUR_NS + 500_000_100, 100))):
        for number, part in machines.parts(batch):
            found[number] += list(zip(part["ktime_ns"].to_pylist(), part["start_ns"].to_pylist(), strict=True))
    assert machines.hostnames == ["host of a", "host of b"]
    assert found == {
        0: [
            (HOUR_NS + 10, HOUR_NS + 5),
            (HOUR_NS + 30, HOUR_NS + 5),
            (3 * HOUR_NS, 3 * HOUR_NS - 45),
            (HOUR_NS + 100, HOUR_NS + 5),
        ],
        1: [(HOUR_NS + 20, HOUR_NS + 18)],
    }

"""Threads over time: from switches to the nanosecond, from summaries spread over their intervals."""

import pyarrow as pa

from scope_views.why.lanes import of_summaries, of_switches

EPOCH = 1_700_000_000_000_000_000


def test_switches_are_exact() -> None:
    """A row's times lie before it, in order; what is outside of the steps does not count, and gaps are unknown."""
    rows = pa.table(
        {
            "tid": [7, 7, 8],
            "name": ["a", "b", None],
            "at_ns": [EPOCH + 10, EPOCH + 31, EPOCH + 50],
            "on_cpu_ns": [7, 4, 5],
            "run_queue_ns": [5, 6, None],
            "off_cpu_ns": [100, 2, None],
        }
    )
    first, second = of_switches(rows, [EPOCH, EPOCH + 20, EPOCH + 47])
    assert (first.tid, first.name) == (7, "b")
    assert (first.blocked_ns, first.run_queue_ns, first.on_cpu_ns) == ([1, 1], [3, 6], [7, 4])
    assert (second.tid, second.name, second.on_cpu_ns, second.total_ns) == (8, None, [0, 2], 2)


def test_summaries_are_spread() -> None:
    """The rows of an interval add up; an interval that lies in two steps is shared between them."""
    rows = pa.table(
        {
            "tid": [7, 7, 7],
            "name": ["a"] * 3,
            "at_ns": [EPOCH + 1000, EPOCH + 1000, EPOCH + 2000],
            "interval_ns": [1000] * 3,
            "on_cpu_ns": [600, 0, 0],
            "run_queue_ns": [0, 100, 0],
            "blocked_ns": [0, 300, 1000],
        }
    )
    (lane,) = of_summaries(rows, [EPOCH, EPOCH + 500, EPOCH + 1500, EPOCH + 2000])
    assert (lane.on_cpu_ns, lane.run_queue_ns, lane.blocked_ns) == ([300, 300, 0], [50, 50, 0], [150, 650, 500])


def test_nothing() -> None:
    """Without rows there are no lanes."""
    names = ("tid", "at_ns", "on_cpu_ns", "run_queue_ns", "off_cpu_ns")
    empty = pa.table({**{name: pa.array([], pa.int64()) for name in names}, "name": pa.array([], pa.string())})
    assert of_switches(empty, [0, 1]) == []

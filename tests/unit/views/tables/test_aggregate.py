"""The sums of a live table."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.views.streams import stream

from scope_catalogue.shown import Live
from scope_catalogue.stream import Column, Mode
from scope_views.groups import Group
from scope_views.tables import aggregate as aggregate_module
from scope_views.tables.aggregate import OTHER, Aggregate
from scope_views.tables.durations import Durations


def _aggregate(live: Live, gauge: bool = False) -> Aggregate:
    columns = {name: Column("") for name in live.totals}
    return Aggregate(stream(columns, live, mode=Mode.SUMMARY if gauge else Mode.EVENTS, gauge=gauge), live)


def _shown(aggregate: Aggregate) -> list[tuple[Group, list[Any]]]:
    return [(group, sums.numbers) for group, sums in aggregate.shown()]


def test_groups_are_added_up_over_batches() -> None:
    """A group has its rows, failures and totals over all batches; rows that `unless` marks are not counted."""
    live = Live(by=("comm",), totals=("bytes",), failures="ret", unless="nested")
    aggregate = _aggregate(live)
    for _ in range(2):
        columns = {
            "comm": ["a", "b", "a", "a"],
            "bytes": [1, 2, 4, 1000],
            "ret": [0, -5, -1, 0],
            "nested": [0, 0, 0, 1],
        }
        aggregate.add(pa.RecordBatch.from_pydict(columns))
    assert _shown(aggregate) == [(("a",), [4, 2, 10]), (("b",), [2, 2, 4])]
    assert aggregate.rows == 8


def test_what_was_cut_is_another_group() -> None:
    """A path whose beginning was cut begins with ... in its group, and is not added to the absolute path."""
    columns = {"path": Column("", cut_if="path_truncated"), "path_truncated": Column("")}
    live = Live(by=("comm", "path"))
    aggregate = Aggregate(stream(columns, live), live)
    assert "path_truncated" in aggregate.columns
    rows = {"comm": ["a"] * 4, "path": ["/x", "/x", "/x", None], "path_truncated": [0, 1, 1, 1]}
    aggregate.add(pa.RecordBatch.from_pydict(rows))
    assert _shown(aggregate) == [(("a", ".../x"), [2]), (("a", "/x"), [1]), (("a", None), [1])]


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_quantiles_are_near(share: float) -> None:
    """Quantiles are within 5 % of numpy's over all values; the longest is exact."""
    values = np.random.default_rng(7).lognormal(10, 2, 20_000).astype(np.uint64)
    aggregate = _aggregate(Live(by=("comm",), totals=("ns",), quantiles=("ns",)))
    for part in np.array_split(values, 7):
        aggregate.add(pa.RecordBatch.from_pydict({"comm": ["a"] * len(part), "ns": part}))
    ((_, sums),) = aggregate.shown()
    (durations,) = sums.durations
    assert durations.quantile(share) == pytest.approx(np.quantile(values, share), rel=0.05)
    assert (durations.longest, durations.exact) == (values.max(), True)
    assert Durations().quantile(share) is None


def test_a_table_of_some_rows() -> None:
    """A table with `only` counts the rows in which that column is a text, or a number other than 0."""
    rows = [
        {"comm": "a", "kind": "H2D", "result": 0, "bytes": 1},
        {"comm": "a", "kind": None, "result": 2, "bytes": 2},
        {"comm": "a", "kind": "D2H", "result": None, "bytes": 4},
    ]
    found = {}
    for only in ("kind", "result"):
        aggregate = _aggregate(Live(by=("comm",), totals=("bytes",), only=only))
        aggregate.add(pa.RecordBatch.from_pylist(rows))
        aggregate.add(pa.RecordBatch.from_pylist(rows[:1]).slice(1))
        found[only] = _shown(aggregate)
    assert found == {"kind": [(("a",), [2, 5])], "result": [(("a",), [1, 2])]}


def test_what_failed_moves_no_bytes() -> None:
    """A failed row counts with its duration, but without its bytes."""
    live = Live(by=("comm",), totals=("bytes", "duration_ns"), failed="result")
    columns = {name: Column("", unit) for name, unit in (("bytes", "bytes"), ("duration_ns", "ns"))}
    aggregate = Aggregate(stream(columns, live), live)
    rows = [{"comm": "a", "bytes": 1 << 41, "duration_ns": 5, "result": 2}]
    rows += [{"comm": "a", "bytes": 7, "duration_ns": 11, "result": 0}]
    aggregate.add(pa.RecordBatch.from_pylist(rows))
    assert _shown(aggregate) == [(("a",), [2, 7, 16])]


def test_a_rate_is_of_all_bytes_by_all_time() -> None:
    """The rate is all bytes divided by all time, of the rows that have a rate."""
    aggregate = _aggregate(Live(by=("kind",), totals=("bytes",), rate="bandwidth"))
    rows = [
        {"kind": "H2D", "bytes": 1000, "duration_ns": 10, "bandwidth": 1e11},
        {"kind": "H2D", "bytes": 1000, "duration_ns": 990, "bandwidth": 1e9},
        {"kind": "H2D", "bytes": 5000, "duration_ns": 1, "bandwidth": None},
        {"kind": "D2H", "bytes": None, "duration_ns": 7, "bandwidth": None},
    ]
    aggregate.add(pa.RecordBatch.from_pylist(rows))
    assert {group: sums.rate for group, sums in aggregate.shown()} == {("H2D",): 2e9, ("D2H",): None}


def test_a_gauge_shows_what_is_absent_as_absent() -> None:
    """A value that a device does not report is absent, not 0; a text may be among the totals."""
    live = Live(by=("device",), totals=("power_watts", "slowed_by", "used"))
    aggregate = _aggregate(live, gauge=True)
    aggregate.add(pa.RecordBatch.from_pylist([{"device": 1, "power_watts": None, "slowed_by": "idle", "used": 7}]))
    assert _shown(aggregate) == [((1,), [None, "idle", 7])]


def test_a_gauge_shows_what_is_and_not_what_was() -> None:
    """A gauge shows each group's latest values, except 0; `told_apart` separates groups with equal names."""
    live = Live(by=("stack",), totals=("live",), told_apart=("stack_id",))
    aggregate = _aggregate(live, gauge=True)
    for states in ([5, 7, 9], [3, 0, 9]):
        columns = {"stack": ["f", "f", "g"], "stack_id": [1, 2, 3], "live": states}
        aggregate.add(pa.RecordBatch.from_pydict(columns))
    assert _shown(aggregate) == [(("g", 3), [9]), (("f", 1), [3])]


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_quantiles_of_histograms_are_about_right(share: float) -> None:
    """Quantiles of power-of-two histograms are right to a factor of 1.5; no value is above the longest."""
    values = np.random.default_rng(7).lognormal(10, 2, 20_000).astype(np.uint64)
    octaves = np.bincount(np.log2(np.maximum(values, 1)).astype(int), minlength=40).tolist()
    live = Live(by=("comm",), totals=("count",), quantiles=("latency",))
    aggregate = Aggregate(stream({"count": Column("")}, live, mode=Mode.SUMMARY), live)
    histograms = pa.FixedSizeListArray.from_arrays(pa.array(octaves * 2, pa.uint64()), 40)
    aggregate.add(pa.RecordBatch.from_pydict({"comm": ["a", "a"], "count": [20_000] * 2, "latency": histograms}))
    ((_, sums),) = aggregate.shown()
    (durations,) = sums.durations
    assert sums.numbers == [40_000], "rows of a summary are intervals, which nobody counts"
    assert 1 / 1.5 < durations.quantile(share) / np.quantile(values, share) < 1.5
    assert values.max() <= durations.longest <= 2 * values.max()
    assert not durations.exact


def test_groups_are_ranked_by_several_columns() -> None:
    """Groups are ranked by the sum of the `ranked_by` columns."""
    aggregate = _aggregate(
        Live(by=("path",), totals=("read_ns", "writes", "write_ns"), ranked_by=("read_ns", "write_ns"))
    )
    columns = {"path": ["a", "b", "c"], "read_ns": [5, 0, 3], "writes": [99, 0, 7], "write_ns": [0, 4, 3]}
    aggregate.add(pa.RecordBatch.from_pydict(columns))
    assert [group for group, _ in aggregate.shown()] == [("c",), ("a",), ("b",)]


def test_the_total_is_of_all_groups() -> None:
    """The total adds the numbers and merges the durations of all groups; gauges have no total."""
    aggregate = _aggregate(Live(by=("comm",), totals=("ns",), quantiles=("ns",)))
    assert aggregate.total() is None
    aggregate.add(pa.RecordBatch.from_pydict({"comm": ["a", "b", "b"], "ns": [1, 10, 100]}))
    total = aggregate.total()
    assert total and total.numbers == [3, 111]
    assert (total.durations[0].buckets.total(), total.durations[0].longest) == (3, 100)
    assert _aggregate(Live(by=("comm",), totals=("ns",)), gauge=True).total() is None


def test_groups_beyond_the_limit_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups beyond the limit are merged into one; the total still includes them."""
    monkeypatch.setattr(aggregate_module, "MOST_GROUPS", 10)
    aggregate = _aggregate(Live(by=("pid",), totals=("ns",), quantiles=("ns",)))
    for first in range(0, 40, 8):
        pids = list(range(first, first + 8))
        aggregate.add(pa.RecordBatch.from_pydict({"pid": pids, "ns": [1 + pid for pid in pids]}))
    assert len(aggregate.groups) <= 11
    assert (OTHER,) in aggregate.groups
    total = aggregate.total()
    assert total and total.numbers == [40, sum(range(1, 41))]
    assert total.durations[0].buckets.total() == 40


def test_a_sum_of_nothing_is_absent() -> None:
    """Where no row of a group has a number, its sum is absent, not 0; the total is of those that have one."""
    aggregate = _aggregate(Live(by=("function",), totals=("duration_ns",)))
    durations = pa.array([None, None, 7], pa.uint64())
    for _ in range(2):
        aggregate.add(pa.RecordBatch.from_pydict({"function": ["f", "f", "g"], "duration_ns": durations}))
    assert _shown(aggregate) == [(("g",), [2, 14]), (("f",), [4, None])]
    total = aggregate.total()
    assert total and total.numbers == [6, 14]

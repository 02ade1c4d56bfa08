"""The groups of a table."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.views.streams import stream

from scope_catalogue.shown import Latest, Rollup
from scope_catalogue.stream import Column, Mode
from scope_catalogue.tables import Count, Failed, Quantiles, Rate, Share, Sum, Table
from scope_views.errors import InvalidView
from scope_views.groups import Group
from scope_views.tables import aggregate as aggregate_module
from scope_views.tables.aggregate import OTHER, Aggregate
from scope_views.tables.durations import Durations

UNITS = {"ns": "ns", "duration_ns": "ns", "wait_ns": "ns", "bytes": "bytes", "bandwidth": "B/s"}


def _aggregate(table: Table, *columns: str, **given: Any) -> Aggregate:
    """The aggregate of a stream with the table's columns and these."""
    cells = [getattr(cell, "column", "") for cell in table.cells]
    names = dict.fromkeys(filter(None, (*table.by, *cells, *columns)))
    return Aggregate(stream({name: Column("", UNITS.get(name, "")) for name in names}, table, **given), table)


def _states(table: Table, *columns: str, key: tuple[str, ...] = ()) -> Aggregate:
    """The same of a stream of states."""
    return _aggregate(table, *key, *columns, mode=Mode.SUMMARY, latest=Latest(key, table.by, ()))


def test_groups_are_added_up_over_batches() -> None:
    """A group has its rows, failures and sums over all batches; rows that the filter excludes are not counted."""
    table = Table(("comm",), (Count(), Failed(), Sum("weight")), where="nested = 0")
    aggregate = _aggregate(table, "ret", "nested", failed="ret < 0")
    for _ in range(2):
        columns = {
            "comm": ["a", "b", "a", "a"],
            "weight": [1, 2, 4, 1000],
            "ret": [0, -5, -1, 0],
            "nested": [0, 0, 0, 1],
        }
        aggregate.add(pa.RecordBatch.from_pydict(columns).select(sorted(aggregate.columns)))
    assert aggregate.shown() == [(("a",), [4, 2, 10]), (("b",), [2, 2, 4])]


def test_failures_of_rows_that_stand_for_several_events() -> None:
    """A summary's failures are its events that failed, and the bytes of such a row count: they are of its others."""
    table = Table(("comm",), (Failed(), Sum("bytes")))
    given: dict[str, Any] = {"mode": Mode.SUMMARY, "rollup": Rollup(count="count"), "failed": "errors > 0"}
    aggregate = _aggregate(table, "count", "errors", **given)
    rows = {"comm": ["a", "b", "a"], "count": [7, 2, 5], "errors": [3, 0, 2], "bytes": [11, 13, 17]}
    aggregate.add(pa.RecordBatch.from_pydict(rows).select(sorted(aggregate.columns)))
    assert aggregate.shown() == [(("a",), [5, 28]), (("b",), [0, 13])]


def test_what_was_cut_is_another_group() -> None:
    """A path whose beginning was cut begins with ... in its group, and is not added to the absolute path."""
    columns = {"comm": Column(""), "path": Column("", cut_if="path_truncated"), "path_truncated": Column("")}
    table = Table(("comm", "path"))
    aggregate = Aggregate(stream(columns, table), table)
    assert "path_truncated" in aggregate.columns
    rows = {"comm": ["a"] * 4, "path": ["/x", "/x", "/x", None], "path_truncated": [0, 1, 1, 1]}
    aggregate.add(pa.RecordBatch.from_pydict(rows))
    assert aggregate.shown() == [(("a", ".../x"), [2]), (("a", "/x"), [1]), (("a", None), [1])]


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_quantiles_are_near(share: float) -> None:
    """Quantiles are within 5 % of numpy's over all values; the longest is exact."""
    values = np.random.default_rng(7).lognormal(10, 2, 20_000).astype(np.uint64)
    aggregate = _aggregate(Table(("comm",), (Count(), Quantiles("ns"))))
    for part in np.array_split(values, 7):
        aggregate.add(pa.RecordBatch.from_pydict({"comm": ["a"] * len(part), "ns": part}))
    ((_, (_, durations)),) = aggregate.shown()
    assert durations.quantile(share) == pytest.approx(np.quantile(values, share), rel=0.05)
    assert (durations.longest, durations.exact) == (values.max(), True)
    assert Durations().quantile(share) is None


@pytest.mark.parametrize(
    ("where", "shown"), [("kind is not null", [2, 5]), ("result != 0", [1, 2]), ("result = 0 or kind = D2H", [2, 5])]
)
def test_a_table_of_some_rows(where: str, shown: list[int]) -> None:
    """A table's filter is that of `--where`; a comparison with what is absent is not true."""
    rows = [
        {"comm": "a", "kind": "H2D", "result": 0, "weight": 1},
        {"comm": "a", "kind": None, "result": 2, "weight": 2},
        {"comm": "a", "kind": "D2H", "result": None, "weight": 4},
    ]
    aggregate = _aggregate(Table(("comm",), (Count(), Sum("weight")), where=where), "kind", "result")
    aggregate.add(pa.RecordBatch.from_pylist(rows))
    aggregate.add(pa.RecordBatch.from_pylist(rows[:1]).slice(1))
    assert aggregate.shown() == [(("a",), shown)]


def test_what_failed_moves_no_bytes() -> None:
    """A failed row counts with its duration, but without its bytes."""
    table = Table(("comm",), (Count(), Sum("bytes"), Sum("duration_ns")))
    aggregate = _aggregate(table, "result", failed="result != 0")
    rows = [{"comm": "a", "bytes": 1 << 41, "duration_ns": 5, "result": 2}]
    rows += [{"comm": "a", "bytes": 7, "duration_ns": 11, "result": 0}]
    aggregate.add(pa.RecordBatch.from_pylist(rows))
    assert aggregate.shown() == [(("a",), [2, 7, 16])]


def test_a_rate_is_of_all_bytes_by_all_time() -> None:
    """The rate is the sum of the bytes divided by the sum of the times, of the rows that its filter selects."""
    rate = Rate("bytes", "duration_ns", where="bandwidth is not null")
    aggregate = _aggregate(Table(("kind",), (Count(), rate)), "bytes", "duration_ns", "bandwidth")
    rows = [
        {"kind": "H2D", "bytes": 1000, "duration_ns": 10, "bandwidth": 1},
        {"kind": "H2D", "bytes": 1000, "duration_ns": 990, "bandwidth": 1},
        {"kind": "H2D", "bytes": 5000, "duration_ns": 1, "bandwidth": None},
        {"kind": "D2H", "bytes": None, "duration_ns": 7, "bandwidth": None},
    ]
    aggregate.add(pa.RecordBatch.from_pylist(rows))
    assert {group: rated.per_second for group, (_, rated) in aggregate.shown()} == {("H2D",): 2e9, ("D2H",): None}


def test_states_show_what_is_absent_as_absent() -> None:
    """A value that a device does not report is absent, not 0; a value may be a text."""
    aggregate = _states(Table(("device",), tuple(map(Sum, ("power_watts", "slowed_by", "used")))))
    aggregate.add(pa.RecordBatch.from_pylist([{"device": 1, "power_watts": None, "slowed_by": "idle", "used": 7}]))
    assert aggregate.shown() == [((1,), [None, "idle", 7])]


def test_states_show_what_is_and_not_what_was() -> None:
    """Each state has its latest values, and is not shown at 0; states with equal names stay apart by their key."""
    aggregate = _states(Table(("stack",), (Sum("live"),)), key=("stack_id",))
    assert "stack_id" in aggregate.columns
    for states in ([5, 7, 9], [3, 0, 9]):
        columns = {"stack": ["f", "f", "g"], "stack_id": [1, 2, 3], "live": states}
        aggregate.add(pa.RecordBatch.from_pydict(columns))
    assert aggregate.shown() == [(("g", 3), [9]), (("f", 1), [3])]


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_quantiles_of_histograms_are_about_right(share: float) -> None:
    """Quantiles of power-of-two histograms are right to a factor of 1.5; no value is above the longest."""
    values = np.random.default_rng(7).lognormal(10, 2, 20_000).astype(np.uint64)
    octaves = np.bincount(np.log2(np.maximum(values, 1)).astype(int), minlength=40).tolist()
    aggregate = _aggregate(Table(("comm",), (Sum("count"), Quantiles("latency"))), mode=Mode.SUMMARY)
    histograms = pa.FixedSizeListArray.from_arrays(pa.array(octaves * 2, pa.uint64()), 40)
    aggregate.add(pa.RecordBatch.from_pydict({"comm": ["a", "a"], "count": [20_000] * 2, "latency": histograms}))
    ((_, (count, durations)),) = aggregate.shown()
    assert count == 40_000
    assert 1 / 1.5 < durations.quantile(share) / np.quantile(values, share) < 1.5
    assert values.max() <= durations.longest <= 2 * values.max()
    assert not durations.exact


def test_groups_are_ranked_by_several_columns() -> None:
    """Groups are ranked by the sum of the `ranked_by` columns."""
    cells = (Sum("read_ns"), Sum("writes"), Sum("write_ns"), Share("read_ns"))
    aggregate = _aggregate(Table(("path",), cells, ranked_by=("read_ns", "write_ns")))
    columns = {"path": ["a", "b", "c"], "read_ns": [5, 0, 3], "writes": [99, 0, 7], "write_ns": [0, 4, 3]}
    aggregate.add(pa.RecordBatch.from_pydict(columns))
    assert [group for group, _ in aggregate.shown()] == [("c",), ("a",), ("b",)]


def test_the_total_is_of_all_groups() -> None:
    """The total adds the numbers and merges the durations of all groups; states have no total."""
    aggregate = _aggregate(Table(("comm",), (Count(), Sum("ns"), Quantiles("ns"))))
    assert aggregate.total() is None
    aggregate.add(pa.RecordBatch.from_pydict({"comm": ["a", "b", "b"], "ns": [1, 10, 100]}))
    total = aggregate.total()
    assert total and total[:2] == [3, 111]
    assert (total[2].buckets.total(), total[2].longest) == (3, 100)
    assert [values[2].buckets.total() for _, values in aggregate.shown()] == [2, 1], "groups keep their own"
    assert _states(Table(("comm",), (Sum("ns"),))).total() is None


def test_groups_beyond_the_limit_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups beyond the limit are merged into one; the total still includes them."""
    monkeypatch.setattr(aggregate_module, "MOST_GROUPS", 10)
    aggregate = _aggregate(Table(("pid",), (Count(), Sum("ns"), Quantiles("ns"))))
    for first in range(0, 40, 8):
        pids = list(range(first, first + 8))
        aggregate.add(pa.RecordBatch.from_pydict({"pid": pids, "ns": [1 + pid for pid in pids]}))
    assert len(aggregate.groups) <= 11
    assert (OTHER,) in aggregate.groups
    total = aggregate.total()
    assert total and total[:2] == [40, sum(range(1, 41))]
    assert total[2].buckets.total() == 40


def test_a_sum_of_nothing_is_absent() -> None:
    """Where no row of a group has a number, its sum is absent, not 0; the total is of those that have one."""
    aggregate = _aggregate(Table(("function",), (Count(), Sum("duration_ns"))))
    durations = pa.array([None, None, 7], pa.uint64())
    for _ in range(2):
        aggregate.add(pa.RecordBatch.from_pydict({"function": ["f", "f", "g"], "duration_ns": durations}))
    shown: list[tuple[Group, list[Any]]] = [(("g",), [2, 14]), (("f",), [4, None])]
    assert aggregate.shown() == shown
    assert aggregate.total() == [6, 14]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (Table(("nothing",)), "no column 'nothing'"),
        (Table(("comm",), (Sum("nothing"),)), "no column 'nothing'"),
        (Table(("comm",), where="ns > soon"), "ns takes a whole number"),
        (Table(("comm",), ranked_by=("ns",)), "no sum of 'ns' ranks groups"),
        (Table(("comm",), (Quantiles("ns"),)), "neither a sum nor a count"),
    ],
)
def test_a_description_that_is_not_valid_is_refused(table: Table, reason: str) -> None:
    """A stream that another machine described may say anything; the error names the stream and the fault."""
    with pytest.raises(InvalidView, match=f"'some' is shown is not valid: .*{reason}"):
        Aggregate(stream({"comm": Column(""), "ns": Column("", "ns")}, table), table)

"""What a live table adds up."""

import numpy as np
import pyarrow as pa
import pytest

from scope_bpf.catalogue.shown import Live
from scope_bpf.catalogue.stream import Column, Mode, Stream
from scope_cli.aggregate import Aggregate


def _aggregate(live: Live, gauge: bool = False) -> Aggregate:
    columns = {name: Column("") for name in live.totals}
    stream = Stream("some", "something", columns, mode=Mode.SUMMARY if gauge else Mode.EVENTS, live=live, gauge=gauge)
    return Aggregate(stream, live)


def test_groups_are_added_up_over_batches() -> None:
    """Rows, failures and totals by group; rows that are not to be counted are left out."""
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
    assert aggregate.top(10) == [(("a",), [4, 2, 10]), (("b",), [2, 2, 4])]
    assert aggregate.rows == 8


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_quantiles_are_near(share: float) -> None:
    """Within the 9 % that are said, against numpy's on all values."""
    values = np.random.default_rng(7).lognormal(10, 2, 20_000).astype(np.uint64)
    aggregate = _aggregate(Live(by=("comm",), totals=("ns",), quantiles="ns"))
    for part in np.array_split(values, 7):
        aggregate.add(pa.RecordBatch.from_pydict({"comm": ["a"] * len(part), "ns": part}))
    assert aggregate.quantile(("a",), share) == pytest.approx(np.quantile(values, share), rel=0.09)
    assert aggregate.quantile(("nobody",), share) == 0


def test_a_table_of_some_rows() -> None:
    """Only those that have what it is about, as a text or as a number that is not 0."""
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
        found[only] = aggregate.top(10)
    assert found == {"kind": [(("a",), [2, 5])], "result": [(("a",), [1, 2])]}


def test_what_failed_moves_no_bytes() -> None:
    """It is counted, with the time that it took."""
    live = Live(by=("comm",), totals=("bytes", "duration_ns"), failed="result")
    columns = {name: Column("", unit) for name, unit in (("bytes", "bytes"), ("duration_ns", "ns"))}
    aggregate = Aggregate(Stream("some", "something", columns, live=live), live)
    rows = [{"comm": "a", "bytes": 1 << 41, "duration_ns": 5, "result": 2}]
    rows += [{"comm": "a", "bytes": 7, "duration_ns": 11, "result": 0}]
    aggregate.add(pa.RecordBatch.from_pylist(rows))
    assert aggregate.top(1) == [(("a",), [2, 7, 16])]


def test_a_rate_is_of_all_bytes_by_all_time() -> None:
    """Of the rows that have one; a short copy weighs as little as it lasts."""
    aggregate = _aggregate(Live(by=("kind",), totals=("bytes",), rate="bandwidth"))
    rows = [
        {"kind": "H2D", "bytes": 1000, "duration_ns": 10, "bandwidth": 1e11},
        {"kind": "H2D", "bytes": 1000, "duration_ns": 990, "bandwidth": 1e9},
        {"kind": "H2D", "bytes": 5000, "duration_ns": 1, "bandwidth": None},
        {"kind": "D2H", "bytes": None, "duration_ns": 7, "bandwidth": None},
    ]
    aggregate.add(pa.RecordBatch.from_pylist(rows))
    assert (aggregate.rate(("H2D",)), aggregate.rate(("D2H",))) == (2e9, None)


def test_a_gauge_shows_what_is_absent_as_absent() -> None:
    """What a device cannot tell is no 0, and a text may stand among the numbers."""
    live = Live(by=("device",), totals=("power_watts", "slowed_by", "used"))
    aggregate = _aggregate(live, gauge=True)
    aggregate.add(pa.RecordBatch.from_pylist([{"device": 1, "power_watts": None, "slowed_by": "idle", "used": 7}]))
    assert aggregate.top(10) == [((1,), [None, "idle", 7])]


def test_a_gauge_shows_what_is_and_not_what_was() -> None:
    """The latest values stand, groups are told apart by more than is shown, and those with nothing are left out."""
    live = Live(by=("stack",), totals=("live",), told_apart=("stack_id",))
    aggregate = _aggregate(live, gauge=True)
    for states in ([5, 7, 9], [3, 0, 9]):
        columns = {"stack": ["f", "f", "g"], "stack_id": [1, 2, 3], "live": states}
        aggregate.add(pa.RecordBatch.from_pydict(columns))
    assert aggregate.top(10) == [(("g", 3), [9]), (("f", 1), [3])]

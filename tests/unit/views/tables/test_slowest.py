"""The table of the slowest rows."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.views.streams import stream

from scope_catalogue.tables import SlowestRows
from scope_views.tables.slowest import MOST_ROWS, Slowest

MS = 1_000_000
TABLE = SlowestRows(
    ("number", "all_ns"), duration="all_ns", parts=("here_ns", "there_ns"), where="number > 0 and odd = 0"
)
STREAM = stream(("number", "all_ns", "here_ns", "there_ns", "odd"), TABLE)


def _batch(first: int, rows: list[tuple[int | None, int | None]], odd: int = 0) -> pa.RecordBatch:
    here, there = ([row[index] for row in rows] for index in (0, 1))
    return pa.RecordBatch.from_pydict(
        {
            "number": list(range(first, first + len(rows))),
            "here_ns": pa.array(here, pa.uint64()),
            "there_ns": pa.array(there, pa.uint64()),
            "all_ns": pa.array([(one or 0) + (other or 0) for one, other in rows], pa.uint64()),
            "odd": [odd] * len(rows),
        }
    )


def _slowest(*batches: pa.RecordBatch) -> Slowest:
    slowest = Slowest(STREAM, TABLE)
    for batch in batches:
        slowest.add(batch.select(sorted(slowest.columns)))
    return slowest


def _numbers(slowest: Slowest) -> list[Any]:
    return [row["number"] for row in slowest.rows]


def test_the_slowest_rows_of_all_batches_are_kept() -> None:
    """They are sorted by their duration; rows that the table is not about are left out."""
    usual = [(MS, MS)] * 50
    slowest = _slowest(
        _batch(0, [(900 * MS, MS)]),  # its number is 0
        _batch(1, [*usual, (7 * MS, MS), *usual]),
        _batch(200, [(MS, 9 * MS)]),
        _batch(300, [(800 * MS, MS)], odd=1),
    )
    assert _numbers(slowest)[:2] == [200, 51]
    assert len(slowest.rows) == MOST_ROWS
    assert slowest.count == 102


def test_what_took_longer_is_told_the_most_first() -> None:
    """Only parts that took longer than in the median row are named, and only those worth telling."""
    usual = [(MS, MS)] * 99
    rows: list[tuple[int | None, int | None]] = [(7 * MS, MS), (6 * MS, 21 * MS), (101 * MS, 2 * MS), (None, 300 * MS)]
    slowest = _slowest(_batch(1, [*usual, *rows]))
    told = {row["number"]: slowest.usual.longer_parts(row) for row in slowest.rows[:4]}
    assert {number: list(parts) for number, parts in told.items()} == {
        100: ["here_ns"],
        101: ["there_ns", "here_ns"],
        102: ["here_ns"],
        103: [],
    }
    assert told[101]["there_ns"] == pytest.approx(20 * MS, rel=0.05)


def test_what_slowed_a_row_is_told_first() -> None:
    """A column that is not 0 names its cause, even if the row's parts are unknown."""
    causes = {"odd != 0": "another prompt", "there_ns > 0": "a stop"}
    slowest = Slowest(STREAM, replace(TABLE, where="", causes=causes))
    slowest.add(_batch(1, [(MS, 0)] * 99))
    slowest.add(_batch(100, [(7 * MS, 0), (None, 8 * MS)], odd=3))
    slowest.add(_batch(102, [(MS, 6 * MS), (9 * MS, 0)]))
    told = {row["number"]: (slowest.causes(row), list(slowest.usual.longer_parts(row))) for row in slowest.rows[:4]}
    assert told == {
        100: (["another prompt"], ["here_ns"]),
        101: (["another prompt", "a stop"], []),
        102: (["a stop"], ["there_ns"]),
        103: ([], ["here_ns"]),
    }


def test_rows_without_a_duration_are_left_out() -> None:
    """A row that has not ended has no duration yet."""
    batch = _batch(1, [(MS, MS), (2 * MS, MS)])
    durations = pa.array([None, 3 * MS], pa.uint64())
    slowest = _slowest(batch.set_column(batch.schema.get_field_index("all_ns"), "all_ns", durations))
    assert (_numbers(slowest), slowest.count) == ([2], 1)

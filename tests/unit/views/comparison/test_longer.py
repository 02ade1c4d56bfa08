"""What rows took longer for: parts of their duration add up, and causes are told with the share that they slowed."""

from typing import Any

import pyarrow as pa
from tests.unit.views.streams import stream

from scope_catalogue.tables import SlowestRows
from scope_views.comparison.longer import Cause, PartTime, longer

NAMES = ("total_ns", "wait_ns", "work_ns", "draft", "others")
STREAM = stream(NAMES)
HOW = SlowestRows(
    columns=(),
    duration="total_ns",
    parts=("wait_ns", "work_ns"),
    causes={"others > 0": "another one", "draft < 0": "never"},
    where="draft = 0",
)


def rows(*given: tuple[Any, ...]) -> pa.Table:
    schema = pa.schema([(name, pa.int64()) for name in NAMES])
    return pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in given], schema=schema)


def test_parts_that_took_longer_come_first() -> None:
    """Means of the rows that the view is about; rows without a part, and a part that took no longer, are left out."""
    inside = rows((110, 90, 20, 0, 7), (130, 110, 20, 0, 0), (9000, 0, 9000, 1, 7), (500, None, None, 0, 7))
    outside = rows((30, 10, 20, 0, 0), (30, 10, 20, 0, 0))
    found = longer(STREAM, HOW, inside, outside)
    assert found is not None
    assert found.duration == PartTime("total_ns", 120, 30)
    assert list(found.parts) == [PartTime("wait_ns", 100, 10)]
    assert list(found.causes) == [Cause("another one", 0.5, 0)]


def test_nothing_is_told_of_rows_that_took_no_longer() -> None:
    """Nor of a side without rows."""
    slow, fast = rows((130, 110, 20, 0, 7)), rows((30, 10, 20, 0, 0))
    assert longer(STREAM, HOW, fast, slow) is None
    assert longer(STREAM, HOW, slow, rows()) is None
    assert longer(STREAM, HOW, rows(), fast) is None

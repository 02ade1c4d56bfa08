"""Functions with their own time, and with that of the functions that they call."""

import pyarrow as pa
from tests.unit.views.streams import stream

from scope_catalogue.tables import Count, Sum, Table
from scope_catalogue.tables import Inclusive as Cell
from scope_views.tables.inclusive import Inclusive


def test_a_function_has_the_time_of_what_it_calls() -> None:
    """Over batches; once a row, however often it is in the stack. Functions that only call others come last."""
    shown = Table(("comm", "function"), (Count(), Sum("ns"), Cell("stack", "ns")))
    table = Inclusive(stream(("comm", "function", "stack", "ns"), shown), shown)
    for stacks, times in ((["main;a;b", "main;a"], [5, 2]), (["[cut];a;b;a;b", None], [3, 7])):
        table.add(
            pa.RecordBatch.from_pydict(
                {
                    "comm": pa.array(["worker"] * 2).dictionary_encode(),
                    "function": pa.array([text and text.split(";")[-1] for text in stacks]).dictionary_encode(),
                    "stack": pa.array(stacks).dictionary_encode(),
                    "ns": pa.array(times, pa.uint64()),
                }
            )
        )
    assert [(group[1], *values) for group, values in table.shown()] == [
        ("b", 2, 8, 8),
        (None, 1, 7, None),
        ("a", 1, 2, 10),
        ("main", None, None, 7),
    ]
    assert table.total() == [4, 17, 17]

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


def test_a_line_of_python_has_the_time_of_what_it_calls() -> None:
    """Only Python's frames are lines, whatever ran below them."""
    shown = Table(("python",), (Sum("ns"), Cell("stack", "ns", "python")), where="python is not null")
    table = Inclusive(stream(("python", "stack", "ns"), shown), shown)
    table.add(
        pa.RecordBatch.from_pydict(
            {
                "python": pa.array(["leaf (a.py:3)", "leaf (a.py:3)", "main (a.py:7)", None]).dictionary_encode(),
                "stack": pa.array(
                    [
                        "_start;main (a.py:7);builtin_sum;leaf (a.py:3);operator()(int)",
                        "_start;main (a.py:7);leaf (a.py:3)",
                        "_start;main (a.py:7);malloc",
                        "_start",
                    ]
                ).dictionary_encode(),
                "ns": pa.array([5, 2, 1, 100], pa.uint64()),
            }
        )
    )
    assert table.shown() == [(("leaf (a.py:3)",), [7, 7]), (("main (a.py:7)",), [1, 8])]
    assert table.total() == [8, 8]

"""The table of each stream at several widths, compared with stored text pictures.

`SCOPE_KEEP_PICTURES=1 pytest tests/unit/cli/trace/test_tables.py` stores new ones; look at them before a commit.
"""

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.views.streams import stream

from scope_bpf.catalogue.described import described_stream
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.stream import Stream
from scope_bpf.probes import probes
from scope_catalogue.shown import Latest
from scope_catalogue.stream import Column, DescribedStream, Mode
from scope_catalogue.tables import AnyTable, Count, LatestRows, Quantiles, Sum, Table
from scope_cli.text_table import width_of
from scope_cli.trace.tables import TableSink, Wanted, headings, table_lines
from scope_views.tables import aggregate

PICTURES = Path(__file__).parent / "pictures"
WIDTHS = (80, 140, None)
TEXTS = {
    "comm": ["python3", "postgres", "kworker/1:2", "a-name-of-15-by"],
    "thread_comm": ["python3", "worker"],
    "path": ["/etc/passwd", "/usr/lib/x86_64-linux-gnu/" + "very-long-name-" * 4 + "libc.so.6", "/tmp/ä ö\\n"],
    "kernel": ["void gemm<float, 128, 128>(float const*, float const*, float*, int, int, int)", "touch(int*)"],
    "stack": ["main;train(int);cudaMalloc [libcudart.so.13 1a2b]", "main;[libtorch.so+0x1234 77]"],
}


@pytest.mark.parametrize(
    ("probe", "of"),
    [(probe, stream) for probe in probes().values() for stream in probe.public_streams],
    ids=lambda value: value.name,
)
def test_each_stream_looks_as_it_did(probe: Probe, of: Stream) -> None:
    """Each table equals its stored picture, in a pipe and in terminals of 80 and 140 columns, and fits the width."""
    described = described_stream(probe, of)
    sink = TableSink([described])
    for seed in range(3):
        sink.write(described, _rows(described, probe.schema(of), seed))
    pictures = []
    for width in WIDTHS:
        lines = [line for _, line in table_lines(sink.views, Wanted(top=7), width)]
        assert width is None or max(map(width_of, lines)) <= width
        pictures.append(f"== {width or 'pipe'}\n" + "".join(f"{line}\n" for line in lines))
    kept = PICTURES / f"{of.name}.txt"
    if os.environ.get("SCOPE_KEEP_PICTURES"):
        kept.write_text("".join(pictures))
    assert kept.read_text() == "".join(pictures)


def _rows(of: DescribedStream, schema: pa.Schema, seed: int) -> pa.RecordBatch:
    chance = random.Random(f"{of.name} {seed}")
    described = of.by_name
    columns = [[_value(field, described[field.name], chance) for _ in range(53)] for field in schema]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )


def _value(field: pa.Field, column: Column, chance: random.Random) -> Any:
    kind = field.type
    if field.name in TEXTS or pa.types.is_string(kind) or pa.types.is_dictionary(kind):
        return chance.choice([*TEXTS.get(field.name, (f"{field.name}_one", f"{field.name}_two")), None])
    if pa.types.is_fixed_size_list(kind):
        return [chance.randrange(50) if 8 < octave < 24 else 0 for octave in range(kind.list_size)]
    if pa.types.is_list(kind):
        return ["sh", "-c", "echo 'a b'\nexit"]
    if pa.types.is_boolean(kind):
        return chance.random() < 0.5
    if column.unit in ("ns", "bytes", "B/s"):
        return int(chance.lognormvariate(10, 4))
    return chance.choice([0, 0, 1, 2, -2 if pa.types.is_signed_integer(kind) else 7])


def _sink(table: AnyTable, columns: dict[str, Column], rows: list[dict[str, Any]]) -> tuple[TableSink, DescribedStream]:
    shown = stream(columns, table)
    sink = TableSink([shown])
    sink.write(shown, pa.RecordBatch.from_pylist(rows))
    return sink, shown


def _shown(sink: TableSink, wanted: Wanted, width: int | None = None) -> list[str]:
    return [line for _, line in table_lines(sink.views, wanted, width)][2:]


def test_numbers_and_headings_are_never_cut() -> None:
    """In a narrow terminal texts are cut, and whole columns are left out and named; a path keeps its end."""
    columns = {"path": Column(""), "bytes": Column("", "bytes"), "duration_ns": Column("", "ns")}
    table = Table(("path",), (Count(), Sum("bytes"), Sum("duration_ns"), Quantiles("duration_ns")))
    sink, _ = _sink(
        table, columns, [{"path": "/a/rather/long/path/to/a.file", "bytes": 1 << 40, "duration_ns": 10**18}]
    )
    assert _shown(sink, Wanted(), 50) == [
        "path          count     bytes             duration",
        "…h/to/a.file      1  1.00 TiB  1,000,000,000.00 s",
        "total             1  1.00 TiB  1,000,000,000.00 s",
        "no room for: p50, p99, max, share of duration; use",
        "a wider terminal, or a pipe",
    ]


@pytest.mark.parametrize(
    ("sort", "order"),
    [("", ["b", "a", "c"]), ("count", ["a", "b", "c"]), ("max", ["c", "b", "a"]), ("comm", ["a", "b", "c"])],
)
def test_groups_are_sorted_by_a_column(sort: str, order: list[str]) -> None:
    """Groups are sorted by the table's ranking or by any heading: the largest number first, texts in order."""
    columns = {"comm": Column(""), "duration_ns": Column("", "ns"), "weight": Column("")}
    table = Table(("comm",), (Count(), Sum("weight"), Quantiles("duration_ns")))
    rows = [("a", 1, 2), ("a", 1, 3), ("b", 5, 7), ("c", 9, 1)]
    named = [{"comm": comm, "duration_ns": ns, "weight": weight} for comm, ns, weight in rows]
    sink, shown = _sink(table, columns, named)
    assert [line.split()[0] for line in _shown(sink, Wanted(sort=sort))[1:4]] == order
    assert sort in headings([shown]) | {""}


def test_states_that_are_dropped_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """To limit memory, only the largest states stay; a remark says how many were dropped."""
    monkeypatch.setattr(aggregate, "MOST_GROUPS", 10)
    states = stream(("n", "size"), Table(("n",), (Sum("size"),)), mode=Mode.SUMMARY, latest=Latest(("n",), (), ()))
    sink = TableSink([states])
    sink.write(states, pa.RecordBatch.from_pylist([{"n": number, "size": number} for number in range(1, 14)]))
    heading, largest, *_, remark = _shown(sink, Wanted())
    assert (heading.split()[:2], largest.split()[:2]) == (["n", "size"], ["13", "13"])
    assert remark == "too many groups for a table: the 8 smallest were dropped; see --json"


def test_what_is_left_out_is_said() -> None:
    """A remark says how many groups, or how many rows before the latest, are not shown."""
    sink, _ = _sink(Table(("n",)), {"n": Column("")}, [{"n": number} for number in range(1234)])
    assert _shown(sink, Wanted(top=3))[-1] == "1,231 more groups; --top 1234 shows all"
    rows = [{"n": number, "ktime_ns": 1000 - abs(number - 1000)} for number in range(1234)]
    sink, _ = _sink(LatestRows(("n",)), {"n": Column("")}, rows)
    *latest, remark = _shown(sink, Wanted())
    assert latest[-1].strip() == "1000", "the latest by time, in whatever order rows come"
    assert remark == "the latest 12 of 1,234 rows; --lines shows each"

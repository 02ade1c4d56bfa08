"""Rows as lines of text."""

import io
import re
from typing import Any

import pyarrow as pa
from tests.unit.views.streams import stream

from scope_bpf.capture.account import Account
from scope_bpf.probes import probes
from scope_catalogue.shown import Shown
from scope_catalogue.stream import Column, DescribedStream
from scope_cli.trace.lines import LinesSink


def _lines(of: DescribedStream, rows: list[dict[str, Any]]) -> list[str]:
    """The lines without their times and without the heading."""
    file = io.BytesIO()
    sink = LinesSink(file, lambda: {}, [of.name])
    sink.write(of, pa.RecordBatch.from_pylist(rows))
    sink.close()
    return [re.sub(r"^[\d:.]+ +", "", line) for line in file.getvalue().decode().splitlines()[1:]]


def test_what_was_cut_is_marked() -> None:
    """A cut list ends with `...`, a cut path begins with it; an absent value is a dash."""
    columns = {
        "path": Column("", cut_if="path_truncated"),
        "args": Column("", cut_if="args_truncated"),
        "args_truncated": Column(""),
        "path_truncated": Column(""),
    }
    some = stream({"comm": Column(""), "pid": Column(""), **columns}, shown=Shown(line=("path", "args")))
    whole = {"ktime_ns": 1, "comm": "a", "pid": 7, "path": "/x", "args": ["ls", "/"]}
    rows = [
        whole | {"path_truncated": 0, "args_truncated": 0},
        whole | {"path_truncated": 1, "args_truncated": 1},
        whole | {"path_truncated": 1, "args_truncated": 1, "path": None, "args": None},
    ]
    assert _lines(some, rows) == ["a       7  /x     ls /", "a       7  .../x  ls /...", "a       7  -      -"]
    read = LinesSink(io.BytesIO(), lambda: {}, [some.name]).columns(some)
    assert read and {"path_truncated", "args_truncated"} <= {*read}


def test_lines_are_in_order_of_time_and_complete() -> None:
    """Rows are printed in order of time, each as a whole line."""
    some = stream({name: Column("") for name in ("comm", "pid", "n")}, shown=Shown(line=("n",)))
    rows = [{"ktime_ns": number, "comm": "ä", "pid": 7, "n": number} for number in (3, 1, 2)]
    assert _lines(some, rows) == [f"ä       7  {number}" for number in (1, 2, 3)]


def test_losses_are_told_once_with_or_without_rows() -> None:
    """A loss is told at the next flush, also if no row comes."""
    file = io.BytesIO()
    lost: dict[str, int] = {}
    sink = LinesSink(file, lambda: {"some": Account(lost=lost)}, ["some"])
    sink.flush()
    lost["ring_full"] = 1009
    sink.flush()
    sink.flush()
    sink.close()
    assert file.getvalue().decode() == "1,009 rows of some were lost here (ring_full)\n"


def test_what_tells_a_cut_is_a_column() -> None:
    """In every stream, `cut_if` names a column of the same stream."""
    streams = [stream for probe in probes().values() for stream in probe.streams]
    cut = {(stream.name, column.cut_if) for stream in streams for column in stream.described().values()}
    known = {(stream.name, name) for stream in streams for name in stream.described()}
    assert ("exec", "args_truncated") in cut
    assert {(stream, name) for stream, name in cut if name} <= known

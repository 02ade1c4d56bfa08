"""Rows as NDJSON."""

import json

import pyarrow as pa
from tests.unit.views.streams import stream

from scope_views.ndjson import began, loss, ndjson
from scope_views.times import TIME

TIMES = pa.array([10**18, 10**18 + 1], TIME.type)


def test_a_line_per_row() -> None:
    """The stream's name and the time, to the nanosecond, come first; what is absent is null."""
    rows = pa.RecordBatch.from_pylist([{"ret": -2, "args": ["ls", "/"]}, {"ret": None, "args": None}])
    lines = ndjson(stream(("ret", "args"), name="exec"), TIMES, rows).decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"type": "exec", "time": "2001-09-09T01:46:40.000000000Z", "ret": -2, "args": ["ls", "/"]},
        {"type": "exec", "time": "2001-09-09T01:46:40.000000001Z", "ret": None, "args": None},
    ]
    assert ndjson(stream(("ret", "args")), TIMES.slice(2), rows.slice(2)) == b""


def test_texts_have_no_effect() -> None:
    """Control characters are escaped and mean the same; other characters stay as they are."""
    name = "\x1b[2J\u202e\x7fgrößer"
    text = ndjson(stream(("comm",)), TIMES[:1], pa.RecordBatch.from_pylist([{"comm": name}])).decode()
    assert text.rstrip("\n").isprintable() and "größer" in text
    assert json.loads(text)["comm"] == name


def test_what_is_told_between_rows() -> None:
    """When recording began, and where rows were lost."""
    assert json.loads(began("2026-01-31T12:00:00Z")) == {"type": "began", "time": "2026-01-31T12:00:00Z"}
    told = {"type": "loss", "stream": "exec", "reason": "ring_full", "count": 1009}
    assert json.loads(loss("exec", "ring_full", 1009)) == told

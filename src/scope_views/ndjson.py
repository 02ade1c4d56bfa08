"""Rows as NDJSON: a JSON object a line."""

import io
import json
from typing import Any

import pyarrow as pa

from scope_views.described import Described
from scope_views.printable import printable_json
from scope_views.times import readable, rfc3339


def ndjson(stream: Described, times: pa.Array | None, batch: pa.RecordBatch) -> bytes:
    """A line per row: the stream's name as `type`, `time`, then the columns by name. Control characters are escaped.

    Args:
        times: of the rows, of the type of `times.TIME`; None: they have none.
    """
    import polars  # noqa: PLC0415  # takes 0.3 s and 33 MB, which only who reads rows has to pay

    if not batch.num_rows:
        return b""
    frame: Any = polars.from_arrow(readable(batch))
    first = [] if times is None else [polars.lit(polars.from_arrow(rfc3339(times))).alias("time")]
    frame = frame.select(polars.lit(stream.name).alias("type"), *first, polars.all())
    lines = io.BytesIO()
    frame.write_ndjson(lines)
    text = lines.getvalue()
    is_plain = text.isascii() and b"\x7f" not in text  # polars escapes the other control characters itself
    return text if is_plain else printable_json(text.decode()).encode()


def began(time: str) -> bytes:
    """The line that a file begins with, `{"type":"began","time":...}`: what happened before is not in the file.

    Args:
        time: when recording began, as RFC 3339 has it.
    """
    return _line({"type": "began", "time": time})


def loss(stream: str, reason: str, count: int | None) -> bytes:
    """The line that says where rows were lost: `{"type":"loss","stream":...,"reason":...,"count":...}`.

    Args:
        count: None: nobody knows.
    """
    return _line({"type": "loss", "stream": stream, "reason": reason, "count": count})


def _line(told: dict[str, str | int | None]) -> bytes:
    return f"{json.dumps(told, separators=(',', ':'))}\n".encode()

"""A trace as NDJSON: a JSON object a line."""

import io
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO

import pyarrow as pa

from scope_bpf.catalogue.stream import Stream
from scope_cli.printable import printable_json
from scope_cli.trace.sink import Accounts, Losses
from scope_cli.trace.times import WallClock, now_rfc3339, rfc3339


class NdjsonSink:
    """Rows as JSON objects: the stream's name as `type`, `time`, then the stream's columns by name.

    Rows are in order of arrival, not of time.

    Where rows were lost, the next line is `{"type":"loss","stream":...,"reason":...,"count":...}`. A file begins with
    `{"type":"began","time":...}`: what the program did before that time is not in the file.
    """

    def __init__(self, file: BinaryIO, accounts: Accounts, name: str = "") -> None:
        self._file, self._is_file, self.name = file, bool(name), name or "standard output"
        self._losses, self._clock = Losses(accounts), WallClock()
        self._rows, self._began = 0, now_rfc3339()  # every probe is attached when outputs are opened
        if self._is_file:
            self._write_line({"type": "began", "time": self._began})

    def columns(self, stream: Stream) -> Collection[str] | None:
        """All."""
        return None

    def write(self, stream: Stream, batch: pa.RecordBatch) -> None:
        """Writes a batch."""
        import polars

        if not batch.num_rows:
            return
        frame: Any = polars.from_arrow(batch)
        time = polars.from_arrow(rfc3339(self._clock.times(batch)))
        frame = frame.select(polars.lit(stream.name).alias("type"), polars.lit(time).alias("time"), polars.all())
        lines = io.BytesIO()  # polars would report a closed pipe as an error of its own
        frame.write_ndjson(lines)
        text = lines.getvalue()
        is_plain = text.isascii() and b"\x7f" not in text  # polars escapes the other control characters itself
        self._file.write(text if is_plain else printable_json(text.decode()).encode())
        self._rows += batch.num_rows

    def flush(self) -> None:
        """Tells what was lost meanwhile."""
        self._tell_losses()
        self._file.flush()

    def close(self) -> list[str]:
        """Ends the file."""
        self.flush()
        if not self._is_file:
            return []
        self._file.close()
        return [f"{self.name}: {self._rows:,} rows since {self._began}"]

    def _tell_losses(self) -> None:
        for stream, reason, count in self._losses.new():
            self._write_line({"type": "loss", "stream": stream, "reason": reason, "count": count})

    def _write_line(self, told: Mapping[str, str | int]) -> None:
        import json

        self._file.write(f"{json.dumps(told, separators=(',', ':'))}\n".encode())

"""A trace as NDJSON: a JSON object a line."""

from collections.abc import Collection
from typing import BinaryIO

import pyarrow as pa

from scope_catalogue.stream import DescribedStream
from scope_cli.trace.sink import Accounts, Losses
from scope_cli.trace.times import WallClock, now_rfc3339
from scope_views.ndjson import began, loss, ndjson


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
            file.write(began(self._began))

    def columns(self, stream: DescribedStream) -> Collection[str] | None:
        """All."""
        return None

    def write(self, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        """Writes a batch."""
        if not batch.num_rows:
            return
        self._file.write(ndjson(stream, self._clock.times(batch), batch))
        self._rows += batch.num_rows

    def flush(self) -> None:
        """Tells what was lost meanwhile."""
        for stream, reason, count in self._losses.new():
            self._file.write(loss(stream, reason, count))
        self._file.flush()

    def close(self) -> list[str]:
        """Ends the file."""
        self.flush()
        if not self._is_file:
            return []
        self._file.close()
        return [f"{self.name}: {self._rows:,} rows since {self._began}"]

"""Rows as a file, piece by piece: NDJSON, CSV, an Arrow IPC stream, or Parquet. The pieces, in order, are the file."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from scope_views.csv import csv
from scope_views.described import Described, described
from scope_views.ndjson import loss, ndjson
from scope_views.times import TIME

_SLICE = 2048  # rows of a piece of text
Format = Literal["ndjson", "csv", "arrow", "parquet"]
MEDIA: Mapping[Format, str] = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
Lost = tuple[str, int | None]  # reason and count; None: nobody knows


class Encoder(Protocol):
    """Encodes one file."""

    def rows(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Pieces with these rows."""

    def end(self) -> bytes:
        """The last piece."""


class Ndjson:
    """A JSON object a line, as `scope_views.ndjson` has it; lines about losses are last."""

    def __init__(self, stream: Described, schema: pa.Schema, lost: Iterable[Lost]) -> None:
        self._stream, self._lost = stream, lost

    def rows(self, batch: pa.RecordBatch) -> Iterator[bytes]:  # noqa: D102  # as in Encoder
        times, rest = None, batch
        if TIME.name in batch.schema.names:
            times, rest = batch[TIME.name], batch.drop_columns([TIME.name])
        for place in range(0, batch.num_rows, _SLICE):
            some = None if times is None else times.slice(place, _SLICE)
            yield ndjson(self._stream, some, rest.slice(place, _SLICE))

    def end(self) -> bytes:  # noqa: D102
        return b"".join(loss(self._stream.name, reason, count) for reason, count in self._lost)


class Csv:
    """CSV, as `scope_views.csv` has it. It has no place for losses: readers take every line for a row."""

    def __init__(self, stream: Described, schema: pa.Schema, lost: Iterable[Lost]) -> None:
        self._head = csv(pa.RecordBatch.from_pylist([], schema=schema), head=True)

    def rows(self, batch: pa.RecordBatch) -> Iterator[bytes]:  # noqa: D102
        for place in range(0, batch.num_rows, _SLICE):
            yield self._begin() + csv(batch.slice(place, _SLICE), head=False)

    def _begin(self) -> bytes:
        head, self._head = self._head, b""
        return head

    def end(self) -> bytes:  # noqa: D102
        return self._begin()


class _Written(io.RawIOBase):
    """A file whose content is taken while it is written."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self._pieces.append(bytes(data))  # type: ignore[call-overload]  # a buffer
        self._length += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._length

    def taken(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


class Arrow:
    """An Arrow IPC stream; the schema's metadata says what columns mean and, as `lost`, what was lost."""

    def __init__(self, stream: Described, schema: pa.Schema, lost: Iterable[Lost]) -> None:
        self._file, self._schema = _Written(), described(stream, schema, _about(lost))
        self._writer = pa.ipc.new_stream(self._file, self._schema)

    def rows(self, batch: pa.RecordBatch) -> Iterator[bytes]:  # noqa: D102
        self._writer.write_batch(batch.cast(self._schema))
        yield self._file.taken()

    def end(self) -> bytes:  # noqa: D102
        self._writer.close()
        return self._file.taken()


class Parquet:
    """A Parquet file; the schema's metadata says what columns mean and, as `lost`, what was lost."""

    def __init__(self, stream: Described, schema: pa.Schema, lost: Iterable[Lost]) -> None:
        self._file, self._schema = _Written(), described(stream, schema, _about(lost))
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")

    def rows(self, batch: pa.RecordBatch) -> Iterator[bytes]:  # noqa: D102
        self._writer.write_batch(batch.cast(self._schema))
        yield self._file.taken()

    def end(self) -> bytes:  # noqa: D102
        self._writer.close()
        return self._file.taken()


FORMATS: Mapping[Format, Callable[[Described, pa.Schema, Iterable[Lost]], Encoder]] = {
    "ndjson": Ndjson,
    "csv": Csv,
    "arrow": Arrow,
    "parquet": Parquet,
}


def losses(lost: Iterable[Lost]) -> str:
    """What was lost, on one line, such as `7 (ring_full); unknown (not_recorded)`; empty: nothing."""
    return "; ".join(f"{'unknown' if count is None else count} ({reason})" for reason, count in lost)


def _about(lost: Iterable[Lost]) -> dict[str, str]:
    return {"lost": losses(lost)}

"""Batches: records of one stream as the kernel's bytes, or rows that are columns already."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.binding.rows import fixed_parts
from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.resolver import Resolver
from scope_bpf.layout.fields import Layout


@dataclass(frozen=True)
class RawBatch:
    """Records of one stream.

    Attributes:
        rows: structured array, shape (count,), of the layout's dtype.
        schema: schema of the result of `to_arrow`.
        native: the `scope_rows *` with the rows and their tails; None for a summary.
        names: batches of the stream with the names for this stream.
        resolver: computes the stream's resolved columns; None: they are absent.
    """

    stream: Stream
    layout: Layout
    schema: pa.Schema
    rows: Rows
    native: Any = None
    names: tuple["RawBatch", ...] = ()
    resolver: Resolver | None = None

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.rows)

    @property
    def first_ktime_ns(self) -> int:
        """The earliest time in the batch, CLOCK_BOOTTIME."""
        return int(self.rows["ktime_ns"].min())

    @property
    def last_ktime_ns(self) -> int:
        """The latest time in the batch, CLOCK_BOOTTIME."""
        return int(self.rows["ktime_ns"].max())


@dataclass(frozen=True)
class SampledBatch:
    """Rows of a sampled stream, which are columns already."""

    stream: Stream
    rows: pa.RecordBatch

    @property
    def schema(self) -> pa.Schema:
        """The stream's schema."""
        return self.rows.schema

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.rows.num_rows)


Batch = RawBatch | SampledBatch


def raw_batch(stream: Stream, layout: Layout, schema: pa.Schema, native: Any) -> RawBatch:
    """A batch over the records of a `scope_rows *`, without a copy."""
    return RawBatch(stream, layout, schema, np.frombuffer(fixed_parts(native), layout.dtype), native)

"""When rows of a stream last, by thread or by process, and the samples of another stream within these times."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from psycopg import sql

from scope_server.store.answers.lasting import Lasting
from scope_server.store.layout.contract import Lookup
from scope_server.store.reading.filters import array
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable
from scope_views.matching import matching

_LAST_NS = 1 << 62  # of the boot clock: 146 years
_LONGEST_US = 400 * 86_400_000_000
# Times of two streams are told by clocks that were read apart. They only choose blocks: the boot clock decides.
_DRIFT = timedelta(seconds=5)

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """When rows lasted: spans of threads, or of whole processes, without overlaps.

    Attributes:
        process, tid: whose each span is; tid 0: of the whole process. Shape (spans,), in order.
        begin, end: by the boot clock, in ns; both included.
        since: no span begins before.
        until: all have ended before.
    """

    process: Numbers
    tid: Numbers
    begin: Numbers
    end: Numbers
    since: datetime
    until: datetime
    of_thread: bool

    @property
    def holding(self) -> Lookup:
        """The condition on rows, which are called `r`, that one of the spans holds the row's time."""
        return Lookup([self._held])

    @property
    def holding_none(self) -> Lookup:
        """The condition on rows, which are called `r`, that no span holds the row's time."""
        return Lookup([sql.SQL("NOT "), self._held])

    @cached_property
    def _held(self) -> sql.Composed:
        # Ranges are made in the database, which reads numbers much faster than texts of ranges; and only once: in a
        # nested loop, which is planned where few rows are expected, they would be made anew for each row.
        return sql.SQL(
            "EXISTS (SELECT FROM (WITH s AS MATERIALIZED"
            " (SELECT process, tid, range_agg(int8range(first, last, '[]')) AS times"
            " FROM unnest({}, {}, {}, {}) AS s (process, tid, first, last) GROUP BY process, tid) SELECT * FROM s) AS s"
            " WHERE s.process = r.process{} AND s.times @> r.ktime_ns)"
        ).format(
            *(array(numbers.tolist()) for numbers in (self.process, self.tid, self.begin, self.end)),
            sql.SQL(" AND s.tid = r.tid" if self.of_thread else ""),
        )

    @property
    def processes(self) -> list[int]:
        """The keys of their processes."""
        found: list[int] = np.unique(self.process).tolist()
        return found


def spans(rows: pa.Table, how: Lasting) -> Spans:
    """When rows lasted.

    Args:
        rows: with `how.columns`, as stored. A row without a length does not last, and of a row that its thread may not
            have been in, it is not known who was.
    """
    if how.by_thread is not None:
        rows = rows.filter(matching(how.by_thread, rows))
    rows = rows.filter(rows[how.slices.lasting].is_valid())
    lengths = rows[how.slices.lasting].to_numpy()
    length = np.where(lengths >= 0, np.minimum(lengths, _LAST_NS), _LAST_NS).astype(np.int64)
    at = np.clip(rows["ktime_ns"].to_numpy(), 0, _LAST_NS)
    begin, end = (np.maximum(at - length, 0), at) if how.slices.ending else (at, np.minimum(at + length, _LAST_NS))
    process = rows["process"].to_numpy()
    tid = rows["tid"].to_numpy().astype(np.int64) if how.of_thread else np.zeros(len(rows), np.int64)
    since, until = _window(
        rows["time"].cast(pa.int64()).to_numpy(), np.minimum(length // 1000, _LONGEST_US), how.slices.ending
    )
    return Spans(*_united(process, tid, begin, end), since, until, how.of_thread)


def _united(process: Numbers, tid: Numbers, begin: Numbers, end: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """The spans of each process and thread as spans without overlaps."""
    order = np.lexsort((begin, tid, process))
    process, tid, begin, end = process[order], tid[order], begin[order], end[order]
    is_new = np.concatenate(([True], (np.diff(process) != 0) | (np.diff(tid) != 0)))[: len(order)]
    # How far the spans up to each one reach, of its process and thread: the highest place in their order by ends.
    by_end = np.lexsort((end, np.cumsum(is_new)))
    places = np.empty(len(order), np.int64)
    places[by_end] = np.arange(len(order))
    reached = end[by_end][np.maximum.accumulate(places)]
    first = np.flatnonzero(is_new | np.concatenate(([True], begin[1:] > reached[:-1]))[: len(order)])
    last = np.append(first[1:], len(order))[: len(first)] - 1
    return process[first], tid[first], begin[first], reached[last]


def _window(time_us: Numbers, length_us: Numbers, ending: bool) -> tuple[datetime, datetime]:
    if not len(time_us):
        return datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(0, UTC)
    first, last = (time_us - length_us, time_us) if ending else (time_us, time_us + length_us)
    since, until = (
        datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(us)) for us in (first.min(), last.max())
    )
    return since - _DRIFT, until + _DRIFT


@dataclass(frozen=True)
class Within(Selection):
    """Samples of a stream within spans, and not within others.

    Attributes:
        spans: that hold the samples.
        besides: that hold none of them.
    """

    spans: Spans = field(kw_only=True)
    besides: Spans | None = field(kw_only=True, default=None)


def within(table: StreamTable, of: Spans, besides: Spans | None = None) -> Within:
    """The samples of a stream within spans, and not within others."""
    return Within(table, None, of.since, of.until, spans=of, besides=besides)

"""How much longer the rows of one sample took than those of another, and what the time was spent on."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.stream import DescribedStream
from scope_catalogue.tables import SlowestRows
from scope_views.chosen import Chosen

_WORTH_TELLING = 0.1  # of what rows took longer


@dataclass(frozen=True)
class PartTime:
    """A part of the duration, in ns of the mean row."""

    column: str
    inside_ns: float
    outside_ns: float

    @property
    def longer_ns(self) -> float:
        """By how much."""
        return self.inside_ns - self.outside_ns


@dataclass(frozen=True)
class Cause:
    """What slows rows, with the share of rows that it slowed on each side."""

    text: str
    inside: float
    outside: float


@dataclass(frozen=True)
class Longer:
    """How long the mean row took on each side, in ns.

    Attributes:
        parts: those that took longer, the most first, without what is under a tenth of the difference.
        causes: those that slowed a larger share of the rows inside, the largest difference first.
    """

    duration: PartTime
    parts: Sequence[PartTime]
    causes: Sequence[Cause]


def longer(stream: DescribedStream, how: SlowestRows, inside: pa.Table, outside: pa.Table) -> Longer | None:
    """Compares durations and their parts, which add up, so that a difference of means is the sum of its parts'.

    Rows without one of them are left out; None: a side has no others, or those inside took no longer.

    Raises:
        InvalidView: how slow rows are shown does not suit the stream.
    """
    times = (how.duration, *how.parts)
    sides = [_rows(stream, how, rows) for rows in (inside, outside)]
    if not all(rows.num_rows for rows in sides):
        return None
    whole, *parts = (PartTime(name, *(float(pc.mean(rows[name]).as_py()) for rows in sides)) for name in times)
    if whole.longer_ns <= 0:
        return None
    told = [part for part in parts if part.longer_ns >= _WORTH_TELLING * whole.longer_ns]
    return Longer(whole, sorted(told, key=lambda part: -part.longer_ns), _causes(stream, how, sides))


def _rows(stream: DescribedStream, how: SlowestRows, rows: pa.Table) -> pa.RecordBatch:
    (batch,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    batch = Chosen(stream, how.where).of(batch)
    for name in (how.duration, *how.parts):
        batch = batch.filter(batch[name].is_valid())
    return batch


def _causes(stream: DescribedStream, how: SlowestRows, sides: Sequence[pa.RecordBatch]) -> list[Cause]:
    conditions: dict[str, list[Chosen]] = {}
    for where, text in how.causes.items():
        conditions.setdefault(text, []).append(Chosen(stream, where))
    found = [Cause(text, *(_share(rows, any_of) for rows in sides)) for text, any_of in conditions.items()]
    return sorted((one for one in found if one.inside > one.outside), key=lambda one: one.outside - one.inside)


def _share(rows: pa.RecordBatch, any_of: Sequence[Chosen]) -> float:
    slowed = pa.repeat(pa.scalar(False), rows.num_rows)
    for condition in any_of:
        slowed = pc.or_(slowed, condition.mask(rows).fill_null(False))
    return float(pc.mean(slowed.cast(pa.int8())).as_py())

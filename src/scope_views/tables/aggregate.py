"""Batches added up for a table: groups with totals, or the latest rows. Work is per batch and per group."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.shown import Live
from scope_catalogue.stream import DescribedStream, Mode
from scope_views.cut import cut_marked
from scope_views.groups import Group, groups_of
from scope_views.tables.durations import Durations

LATEST_ROWS = 12
MOST_GROUPS = 20_000  # memory stays bounded: beyond this, the smaller half becomes one group

OTHER = "(other)"


@dataclass
class Sums:
    """The totals of a group.

    Attributes:
        numbers: the values of the aggregate's `numbers`; None: no row has one.
        durations: one for each of the table's `quantiles`.
        rated: bytes and nanoseconds of the rows that have a rate.
    """

    numbers: list[Any]
    durations: list[Durations]
    rated: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def rate(self) -> float | None:
        """Bytes per second; None: no row has a rate."""
        amount, ns = self.rated
        return amount / (ns / 1e9) if ns else None

    def add(self, other: "Sums") -> None:
        """Adds the totals of another group."""
        pairs = zip(self.numbers, other.numbers, strict=True)
        self.numbers = [one if another is None else (one or 0) + another for one, another in pairs]
        for mine, others in zip(self.durations, other.durations, strict=True):
            mine.add(others)
        self.rated = [one + another for one, another in zip(self.rated, other.rated, strict=True)]


@dataclass
class Aggregate:
    """What one table shows of a stream.

    Attributes:
        rows: all rows of the stream so far.
        groups: the sums by group.
        latest: the last rows in order of time, of a table without groups.
        dropped: how many groups of a gauge were dropped to bound the memory.
    """

    stream: DescribedStream
    live: Live
    rows: int = 0
    groups: dict[Group, Sums] = field(default_factory=dict)
    latest: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0

    def __post_init__(self) -> None:
        self._described = self.stream.by_name

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        live = self.live
        rate = (live.rate, "bytes", "duration_ns") if live.rate else ()
        single = filter(None, (live.failures, live.unless, live.only, live.failed, *rate))
        grouped = (*live.by, *self._flags(live.by), *live.told_apart)
        return (*grouped, *live.totals, *live.quantiles, *single, *self._of_latest)

    @property
    def _of_latest(self) -> list[str]:
        """The columns of its latest rows: times, those that are shown, and which of these were cut."""
        shown = self.live.latest
        return list(dict.fromkeys(("ktime_ns", *shown, *self._flags(shown)))) if shown else []

    def _flags(self, names: Sequence[str]) -> list[str]:
        """The columns that tell which values of these were cut."""
        return [self._described[name].cut_if for name in self._cut(names)]

    def _cut(self, names: Sequence[str]) -> list[str]:
        """Those of these columns that have values that may have been cut."""
        return [name for name in names if name in self._described and self._described[name].cut_if]

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers of a group, in order; `count` and `failed` are counted, the others columns."""
        counted = ("count",) if self.stream.mode is Mode.EVENTS else ()  # a row of a summary is an interval, no event
        return (*counted, *(("failed",) if self.live.failures else ()), *self.live.totals)

    @property
    def ranked_by(self) -> tuple[str, ...]:
        """Those of `numbers` whose sum ranks the groups."""
        return self.live.ranked_by or self.numbers[-1:]

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of the stream; it needs no more than `columns`."""
        self.rows += batch.num_rows
        live = self.live
        if not live.by:
            newest = batch.take(pc.sort_indices(batch["ktime_ns"])[-LATEST_ROWS:])
            rows = newest.select(self._of_latest).to_pylist()
            self.latest = sorted((*self.latest, *rows), key=lambda row: int(row["ktime_ns"]))[-LATEST_ROWS:]
            return
        batch = self._chosen(batch)
        if not batch.num_rows:
            return
        groups, places = groups_of(self._marked(batch), (*live.by, *live.told_apart))
        if self.stream.gauge:
            self._replace(batch, groups, places)
        else:
            self._add_up(batch, groups, places)
        if len(self.groups) > MOST_GROUPS:
            self._fold()

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the table is about."""
        if self.live.unless:
            batch = batch.filter(pc.equal(batch[self.live.unless], 0))
        return batch.filter(_is_something(batch[self.live.only])) if self.live.only else batch

    def _marked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, with ... in texts that make groups and were cut."""
        for name in self._cut(self.live.by):
            texts = cut_marked(batch[name].cast(pa.string()), batch, name, self._described[name])
            batch = batch.set_column(batch.schema.get_field_index(name), name, texts)
        return batch

    def _add_up(self, batch: pa.RecordBatch, groups: list[Group], places: Any) -> None:
        count = len(groups)
        numbers = [self._added(name, batch, places, count) for name in self.numbers]
        durations = [Durations.by_group(batch[name], places, count) for name in self.live.quantiles]
        rated = self._rated(batch, places, count)
        for index, group in enumerate(groups):
            new = Sums([each[index] for each in numbers], [each[index] for each in durations], rated[index])
            if known := self.groups.get(group):
                known.add(new)
            else:
                self.groups[group] = new

    def _added(self, name: str, batch: pa.RecordBatch, places: Any, count: int) -> list[int | None]:
        """A number of each group of a batch; None: no row of the group has one."""
        live, known = self.live, np.ones(count, bool)
        if name == "count" and name not in live.totals:
            amounts = None  # one for each row
        elif name == "failed" and name not in live.totals:
            amounts = pc.less(batch[live.failures], 0).fill_null(False)
        else:
            amounts = batch[name].fill_null(0)
            known = np.bincount(places, batch[name].is_valid(), count) > 0
            if live.failed and self._described[name].unit == "bytes":
                amounts = pc.if_else(_is_something(batch[live.failed]), 0, amounts)
        added = np.bincount(places, amounts, count).tolist()
        return [int(amount) if is_known else None for amount, is_known in zip(added, known.tolist(), strict=True)]

    def _rated(self, batch: pa.RecordBatch, places: Any, count: int) -> list[list[int]]:
        if not self.live.rate:
            return [[0, 0] for _ in range(count)]
        has = pc.is_valid(batch[self.live.rate])
        parts = [
            np.bincount(places, pc.if_else(has, batch[name], 0).fill_null(0), count).astype(np.int64).tolist()
            for name in ("bytes", "duration_ns")
        ]
        return [list(pair) for pair in zip(*parts, strict=True)]

    def _replace(self, batch: pa.RecordBatch, groups: list[Group], places: Any) -> None:
        last = np.zeros(len(groups), np.int64)
        last[places] = np.arange(len(places))  # of several the later one stays
        rows = [batch[name].take(pa.array(last)).to_pylist() for name in self.live.totals]
        for group, *numbers in zip(groups, *rows, strict=True):
            self.groups[group] = Sums(numbers, [])

    def _fold(self) -> None:
        ranked = sorted(self.groups.items(), key=lambda item: -self.rank(item[1]))
        kept, folded = ranked[: MOST_GROUPS // 2], ranked[MOST_GROUPS // 2 :]
        self.groups = dict(kept)
        if self.stream.gauge:
            self.dropped += len(folded)  # states are not added up
            return
        other = (OTHER, *(None for _ in kept[0][0][1:]))
        for _, sums in folded:
            if other in self.groups:
                self.groups[other].add(sums)
            else:
                self.groups[other] = sums

    def rank(self, sums: Sums) -> float:
        """What groups are ranked by, the largest first."""
        named = dict(zip(self.numbers, sums.numbers, strict=True))
        return float(sum(named[name] or 0 for name in self.ranked_by))

    def shown(self) -> list[tuple[Group, Sums]]:
        """The groups, those with the largest `rank` first; of a gauge, without groups whose rank is 0."""
        found = [item for item in self.groups.items() if not self.stream.gauge or self.rank(item[1])]
        return sorted(found, key=lambda item: -self.rank(item[1]))

    def total(self) -> Sums | None:
        """The sum of all groups; None for states, which are not added up, and without groups."""
        if self.stream.gauge or not self.groups:
            return None
        total = Sums([None] * len(self.numbers), [Durations() for _ in self.live.quantiles])
        for sums in self.groups.values():
            total.add(sums)
        return total


def _is_something(column: pa.Array) -> pa.Array:
    """Whether each value is present and not 0."""
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return pc.not_equal(column, 0).fill_null(False) if numeric else column.is_valid()

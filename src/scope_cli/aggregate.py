"""Batches added up for a live table: groups with totals, or the latest rows. Work is per batch and per group."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.catalogue.shown import Live
from scope_bpf.catalogue.stream import Stream
from scope_cli.groups import Group, groups_of

LATEST_ROWS = 12
MOST_GROUPS = 20_000  # memory stays bounded: beyond, the smaller half is folded into one group

_PER_OCTAVE = 8
_BUCKETS = 64 * _PER_OCTAVE

OTHER = "(other)"


@dataclass
class Aggregate:
    """What one table shows of a stream."""

    stream: Stream
    live: Live
    rows: int = 0
    totals: dict[Group, list[Any]] = field(default_factory=dict)  # of a gauge, absent ones and texts too
    latest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LATEST_ROWS))
    durations: dict[Group, Counter[int]] = field(default_factory=dict)  # rows by bucket of Live.quantiles
    rates: dict[Group, list[float]] = field(default_factory=dict)  # bytes and ns of the rows that have Live.rate

    def __post_init__(self) -> None:
        self._described = self.stream.described()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        live = self.live
        rate = (live.rate, "bytes", "duration_ns") if live.rate else ()
        single = filter(None, (live.failures, live.unless, live.only, live.failed, live.quantiles, *rate))
        return (*live.by, *live.told_apart, *live.totals, *single, *live.latest)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of the stream; it needs no more than `columns`."""
        self.rows += batch.num_rows
        live = self.live
        if not live.by:
            self.latest.extend(batch.slice(max(0, batch.num_rows - LATEST_ROWS)).select(list(live.latest)).to_pylist())
            return
        if live.unless:
            batch = batch.filter(pc.equal(batch[live.unless], 0))
        if live.only:
            batch = batch.filter(_is_something(batch[live.only]))
        if not batch.num_rows:
            return
        groups, places = groups_of(batch, (*live.by, *live.told_apart))
        if self.stream.gauge:
            self._replace(batch, groups, places)
        else:
            self._add_up(batch, groups, places)
        if len(self.totals) > MOST_GROUPS:
            self._fold()

    def _add_up(self, batch: pa.RecordBatch, groups: list[Group], places: Any) -> None:
        live = self.live
        sums = [np.bincount(places, minlength=len(groups))]
        if live.failures:
            sums.append(np.bincount(places, pc.less(batch[live.failures], 0).fill_null(False), len(groups)))
        for name in live.totals:
            amounts = batch[name].fill_null(0)
            if live.failed and self._described[name].unit == "bytes":
                amounts = pc.if_else(_is_something(batch[live.failed]), 0, amounts)
            sums.append(np.bincount(places, amounts, len(groups)))
        for group, *numbers in zip(groups, *(column.tolist() for column in sums), strict=True):
            known = self.totals.setdefault(group, [0] * len(numbers))
            for index, number in enumerate(numbers):
                known[index] += number
        if live.rate:
            has = pc.is_valid(batch[live.rate])
            for name, place in (("bytes", 0), ("duration_ns", 1)):
                amounts = np.bincount(places, pc.if_else(has, batch[name], 0).fill_null(0), len(groups))
                for group, amount in zip(groups, amounts.tolist(), strict=True):
                    self.rates.setdefault(group, [0.0, 0.0])[place] += amount
        if live.quantiles:
            buckets = _buckets(batch[live.quantiles].to_numpy())
            both, counts = np.unique(places.astype(np.int64) * _BUCKETS + buckets, return_counts=True)
            for code, count in zip(both.tolist(), counts.tolist(), strict=True):
                self.durations.setdefault(groups[code // _BUCKETS], Counter())[code % _BUCKETS] += count

    def _replace(self, batch: pa.RecordBatch, groups: list[Group], places: Any) -> None:
        last = np.zeros(len(groups), np.int64)
        last[places] = np.arange(len(places))  # of several the later one stays
        rows = [batch[name].take(pa.array(last)).to_pylist() for name in self.live.totals]
        for group, *numbers in zip(groups, *rows, strict=True):
            self.totals[group] = numbers

    def quantile(self, group: Group, share: float) -> float:
        """About the value that this share of a group's rows does not exceed, to 9 % (an eighth of a power of two)."""
        counts = self.durations.get(group, Counter())
        wanted, seen = share * counts.total(), 0
        for bucket in sorted(counts):
            seen += counts[bucket]
            if seen >= wanted:
                return float(2 ** ((bucket + 0.5) / _PER_OCTAVE))
        return 0.0

    def rate(self, group: Group) -> float | None:
        """Bytes a second of a group's rows that have a rate; None: there are none."""
        amount, ns = self.rates.get(group, [0.0, 0.0])
        return amount / (ns / 1e9) if ns else None

    def _fold(self) -> None:
        ranked = sorted(self.totals.items(), key=_rank)
        kept, folded = ranked[: MOST_GROUPS // 2], ranked[MOST_GROUPS // 2 :]
        self.totals = dict(kept)
        self.durations = {group: counts for group, counts in self.durations.items() if group in self.totals}
        self.rates = {group: amounts for group, amounts in self.rates.items() if group in self.totals}
        if self.stream.gauge:
            return  # states are not added up; the smaller ones are not shown
        other = (OTHER, *(None for _ in kept[0][0][1:]))
        sums = [self.totals[other]] if other in self.totals else []
        sums += [totals for _, totals in folded]
        self.totals[other] = [sum(numbers) for numbers in zip(*sums, strict=True)]

    def top(self, count: int) -> list[tuple[Group, list[Any]]]:
        """The groups with the most, by the last total; of a gauge those that have something."""
        shown = [item for item in self.totals.items() if item[1][-1] or not self.stream.gauge]
        return sorted(shown, key=_rank)[:count]


def _rank(item: tuple[Group, list[Any]]) -> float:
    return -float(item[1][-1] or 0)


def _is_something(column: pa.Array) -> pa.Array:
    """Whether each value is there, and is not 0."""
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return pc.not_equal(column, 0).fill_null(False) if numeric else column.is_valid()


def _buckets(values: Any) -> Any:
    return (np.log2(np.maximum(values, 1)) * _PER_OCTAVE).astype(np.int64)

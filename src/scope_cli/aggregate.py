"""Batches added up for a live table: groups with totals, or the latest rows. Work is per batch and per group."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.catalogue import Stream

LATEST_ROWS = 12
MOST_GROUPS = 20_000  # memory stays bounded: beyond, the smaller half is folded into one group

Group = tuple[object, ...]
OTHER = "(other)"


@dataclass
class Aggregate:
    """What has been seen of one stream."""

    stream: Stream
    rows: int = 0
    totals: dict[Group, list[float]] = field(default_factory=dict)
    latest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LATEST_ROWS))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        live = self.stream.live
        return (*live.by, *live.totals, *filter(None, (live.failures, live.unless)), *live.latest)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of the stream; it needs no more than `columns`."""
        self.rows += batch.num_rows
        live = self.stream.live
        if not live.by:
            self.latest.extend(batch.slice(max(0, batch.num_rows - LATEST_ROWS)).select(list(live.latest)).to_pylist())
            return
        if live.unless:
            batch = batch.filter(pc.equal(batch[live.unless], 0))
        codes, texts = self._coded(batch)
        encoded = codes.dictionary_encode()  # groups present in this batch, numbered from 0
        groups, places = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        sums = [np.bincount(places, minlength=len(groups))]
        if live.failures:
            sums.append(np.bincount(places, pc.less(batch[live.failures], 0).fill_null(False), len(groups)))
        for name in live.totals:
            sums.append(np.bincount(places, batch[name].fill_null(0), len(groups)))
        for code, *numbers in zip(groups, *(column.tolist() for column in sums), strict=True):
            known = self.totals.setdefault(_group(code, texts), [0] * len(numbers))
            for index, number in enumerate(numbers):
                known[index] += number
        if len(self.totals) > MOST_GROUPS:
            self._fold()

    def _coded(self, batch: pa.RecordBatch) -> tuple[pa.Array, list[list[object]]]:
        """One number a row for its group, and what the digits of that number stand for."""
        codes, texts = None, []
        for name in self.stream.live.by:
            column = batch[name] if pa.types.is_dictionary(batch[name].type) else batch[name].dictionary_encode()
            texts.append([*column.dictionary.to_pylist(), None])
            digit = column.indices.fill_null(len(texts[-1]) - 1).cast(pa.int64())
            codes = digit if codes is None else pc.add(pc.multiply(codes, len(texts[-1])), digit)
        return codes, texts

    def _fold(self) -> None:
        ranked = self.top(MOST_GROUPS)
        kept, folded = ranked[: MOST_GROUPS // 2], ranked[MOST_GROUPS // 2 :]
        other = (OTHER, *(None for _ in self.stream.live.by[1:]))
        self.totals = dict(kept)
        self.totals[other] = [sum(numbers) for numbers in zip(*(totals for _, totals in folded), strict=True)]

    def top(self, count: int) -> list[tuple[Group, list[float]]]:
        """The groups with the most, by the last total."""
        return sorted(self.totals.items(), key=lambda item: -item[1][-1])[:count]


def _group(code: int, texts: list[list[object]]) -> Group:
    group = []
    for digits in reversed(texts):
        code, digit = divmod(code, len(digits))
        group.append(digits[digit])
    return tuple(reversed(group))

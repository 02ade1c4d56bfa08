"""The slowest rows of a stream, and what took longer in them than in the median row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_views.tables.aggregate import LATEST_ROWS, Aggregate
from scope_views.tables.durations import Durations

_WORTH_TELLING = 0.1  # of what the row took longer


@dataclass
class Slowest(Aggregate):
    """What a table of the slowest rows shows: they are in `latest`, the slowest first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._seen = {name: Durations() for name in (self.live.slowest, *self.live.parts)}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        chosen = filter(None, (self.live.unless, self.live.only))
        return tuple(dict.fromkeys((*self.live.latest, *self._seen, *self.live.causes, *chosen)))

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of the stream; it needs no more than `columns`."""
        batch = self._chosen(batch)
        self.rows += batch.num_rows
        if not batch.num_rows:
            return
        together = np.zeros(batch.num_rows, np.int64)
        for name, seen in self._seen.items():
            (found,) = Durations.by_group(batch[name], together, 1)
            seen.add(found)
        slowest = self.live.slowest
        longest = pc.select_k_unstable(batch, LATEST_ROWS, [(slowest, "descending")])
        rows = batch.take(longest).select(list(self.columns)).to_pylist()
        self.latest = sorted((*self.latest, *rows), key=lambda row: -int(row[slowest]))[:LATEST_ROWS]

    def longer_ns(self, row: dict[str, Any], name: str) -> float:
        """How much longer a part of a row, or the whole row, took than the median."""
        return float(row[name] or 0) - (self._seen[name].quantile(0.5) or 0)

    def causes(self, row: dict[str, Any]) -> list[str]:
        """What slowed the row, as far as its columns say."""
        return list(dict.fromkeys(text for name, text in self.live.causes.items() if row[name]))

    def longer_parts(self, row: dict[str, Any]) -> dict[str, float]:
        """Which parts took longer, by how many ns, the most first; none if a part is not known."""
        if any(row[name] is None for name in self.live.parts):
            return {}
        longer = {name: self.longer_ns(row, name) for name in self.live.parts}
        least = _WORTH_TELLING * max(1, *longer.values())
        told = {name: ns for name, ns in longer.items() if ns >= least}
        return dict(sorted(told.items(), key=lambda item: -item[1]))

"""The rows and accounts that a probe recorded."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from scope_bpf.capture.account import Account, PlaceAccount
from scope_bpf.capture.batch import Batch
from scope_bpf.capture.columns import to_arrow

ONE_INTERVAL_MS = 3_600_000  # so long that a summary is read once, at the end, even on a slow machine


@dataclass
class Recording:
    """The rows and accounts of one recorded command."""

    pid: int = 0
    status: int | None = None
    accounts: dict[str, Account] = field(default_factory=dict)
    places: list[PlaceAccount] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    batches: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def add(self, raw: Batch) -> None:
        self.batches.setdefault(raw.stream.name, []).append(to_arrow(raw))

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """The rows of a stream as dicts, in order of time."""
        rows = [row for batch in self.batches.get(stream, []) for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: int(row["ktime_ns"]))

    def table(self, stream: str) -> pa.Table:
        """The rows of a stream as columns."""
        return pa.Table.from_batches(self.batches[stream]).unify_dictionaries()

    def count(self, stream: str) -> int:
        """How many rows of a stream arrived."""
        return sum(batch.num_rows for batch in self.batches.get(stream, []))


Record = Callable[..., Recording]
Compile = Callable[[str, str], None]

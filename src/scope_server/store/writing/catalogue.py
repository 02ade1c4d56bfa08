"""The catalogue of batches: the run, stream and time range of each."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from scope_server.errors import WentBack
from scope_server.store.writing.connection import WriterConnection, integers, moments, strings
from scope_server.store.writing.delivery import Decoded

_DRAW = "SELECT nextval('store.batch_ids') AS id FROM generate_series(1, {count})"


@dataclass(frozen=True)
class Entry:
    """A stored batch; `run` and `machine` are keys."""

    number: int
    run: int
    sequence: int
    machine: int
    stream: str
    decoded: Decoded


class Catalogue:
    """Adds batches over one connection. For one thread."""

    def __init__(self, connection: WriterConnection) -> None:
        self._connection = connection
        self._numbers: list[int] = []
        self._highest = 0  # of all that were drawn

    def numbers(self, count: int) -> list[int]:
        """Increasing ids for `count` batches. Ids of a failed transaction are used again.

        Raises:
            WentBack: the database gave lower ids than before.
        """
        lacking = count - len(self._numbers)
        if lacking > 0:
            drawn = [row["id"] for row in self._connection.query(_DRAW.format(count=lacking))]
            before, self._highest = self._highest, drawn[-1]
            if drawn[0] <= before:
                self._numbers = []
                raise WentBack("the database was restored from an older copy; its keys are asked for again")
            self._numbers += drawn
        return self._numbers[:count]

    def enter(self, entries: Sequence[Entry]) -> None:
        """Writes at least one entry."""
        self._connection.ingest(
            "store",
            "batches",
            pa.table(
                {
                    "id": integers(one.number for one in entries),
                    "run": integers(one.run for one in entries),
                    "sequence": integers(one.sequence for one in entries),
                    "first_time": moments([one.decoded.first_ns for one in entries]),
                    "last_time": moments([one.decoded.last_ns for one in entries]),
                    "boot_to_utc_ns": integers(one.decoded.boot_to_utc_ns for one in entries),
                    "event_count": integers(one.decoded.rows.num_rows for one in entries),
                    "machine": pa.array([one.machine for one in entries], pa.int32()),
                    "stream": strings(one.stream for one in entries),
                }
            ),
        )

    def committed(self, count: int) -> None:
        """Marks the first `count` ids as used."""
        del self._numbers[:count]

"""A record that waits to be written."""

from collections.abc import Callable
from dataclasses import dataclass

from scope_proto.scope.v1.record_pb2 import Record
from scope_server.errors import Rejected
from scope_server.ingest.descriptions import Description
from scope_server.machine import Machine
from scope_server.store.writing.delivery import Outcome


@dataclass(frozen=True, eq=False)
class Pending:
    """A record that waits for its outcome.

    Attributes:
        weight: decompressed size in bytes.
        described: what the agent said of the batch's stream, if this server may not know it.
        answer: called once, in the event loop.
        rejected: why the content must not be read.
    """

    record: Record
    machine: Machine
    weight: int
    answer: Callable[[Outcome], None]
    rejected: Rejected | None = None
    described: Description | None = None

    @property
    def events(self) -> int:
        """Number of events, as declared by the record."""
        return self.record.batch.event_count if self.record.HasField("batch") else 0

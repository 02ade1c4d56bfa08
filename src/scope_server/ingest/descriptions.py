"""The descriptions of streams that an agent sends ahead of its batches."""

import logging
from dataclasses import dataclass

from scope_catalogue.description import read
from scope_catalogue.errors import InvalidDescription
from scope_catalogue.stream import DescribedStream
from scope_proto.scope.v1.record_pb2 import Batch
from scope_proto.scope.v1.session_pb2 import StreamDescription
from scope_server.errors import Rejected
from scope_server.store.schema.tables import Tables

KEPT_BYTES = 1 << 20  # per upload; the descriptions of all of today's streams have 0.2 MiB
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Description:
    """A described stream; `refused`: why its rows cannot be stored, once that was tried."""

    stream: DescribedStream
    refused: Rejected | None = None


class Descriptions:
    """Those of one upload. What the server knows already is not even read."""

    def __init__(self, tables: Tables, machine_id: str) -> None:
        self._tables, self._machine_id = tables, machine_id
        self._kept: dict[tuple[str, str], Description] = {}
        self._kept_bytes = 0
        self._complained = False

    def take(self, message: StreamDescription) -> None:
        """Keeps a description, if the server may need it. A description that is not valid is logged and left out."""
        known = self._tables.get(message.stream)
        if known and known.fingerprint == message.schema_fingerprint:
            return
        try:
            if self._kept_bytes + len(message.description) > KEPT_BYTES:
                raise InvalidDescription(f"an upload's descriptions have more than {KEPT_BYTES} bytes")
            stream = read(message.description)
        except InvalidDescription as error:
            if not self._complained:  # one log line an upload
                about = {"machine": self._machine_id, "stream": message.stream[:63], "reason": str(error)}
                _log.warning("an agent's description of a stream is not valid", extra=about)
            self._complained = True
            return
        self._kept_bytes += len(message.description)
        self._kept[stream.name, stream.fingerprint] = Description(stream)

    def of(self, batch: Batch) -> Description | None:
        """The description of a batch's stream, if it was kept."""
        return self._kept.get((batch.stream, batch.schema_fingerprint)) if self._kept else None

"""From a Batch message to a Delivery: who sent it, what its books say, and its rows."""

import logging
from collections.abc import Mapping
from uuid import UUID

from scope_proto.scope.v1.batch_pb2 import Batch
from scope_server.errors import Rejected
from scope_server.ingest.decode import decode
from scope_server.store.columns import StreamTable
from scope_server.store.delivery import Decoded, Delivery, Loss

_BIGINT = (1 << 63) - 1
_NAME_LIMIT = 63  # of a table in PostgreSQL
_log = logging.getLogger(__name__)


def identity(batch: Batch, machine_id: str) -> str:
    """The batch's task id, checked with all that the ledger needs to name the batch.

    Raises:
        Rejected: it cannot even be entered as rejected.
    """
    if batch.machine_id != machine_id:
        raise Rejected("unidentified", "the batch's machine_id is not the one that Hello announced")
    if not 0 < batch.sequence <= _BIGINT:
        raise Rejected("unidentified", f"sequence {batch.sequence} is not from 1 to 2**63-1")
    if not batch.stream or len(batch.stream) > _NAME_LIMIT or "\0" in batch.stream:
        raise Rejected("unidentified", f"a stream's name has 1 to {_NAME_LIMIT} characters")
    try:
        return str(UUID(batch.task_id))
    except ValueError:
        raise Rejected("unidentified", f"task_id {batch.task_id[:40]!r} is not a UUID") from None


def admit(batch: Batch, machine: int, task_id: str, tables: Mapping[str, StreamTable]) -> Delivery:
    """The batch as a writer takes it; bad rows become a rejection, never an error."""
    content: Decoded | Rejected
    try:
        content = decode(batch, tables)
    except Rejected as rejection:
        content = rejection
    except Exception as error:  # whatever a library makes of hostile bytes, it is one batch's matter
        _log.exception("batch could not be decoded", extra={"task": task_id, "sequence": batch.sequence})
        content = Rejected("corrupt", f"not a sound Arrow stream: {error}")
    table = tables.get(batch.stream)
    return Delivery(
        machine=machine,
        task_id=task_id,
        sequence=batch.sequence,
        stream=batch.stream,
        probe=table.probe if table else "",
        event_count=batch.event_count,
        boot_to_utc_ns=batch.boot_to_utc_ns,
        emitted=min(batch.account.emitted, _BIGINT) if batch.HasField("account") else None,
        losses=tuple(
            Loss(_clean(loss.place), _clean(loss.reason), min(loss.count, _BIGINT)) for loss in batch.account.lost
        ),
        content=content,
    )


def _clean(word: str) -> str:
    return word.replace("\0", "")[:_NAME_LIMIT]

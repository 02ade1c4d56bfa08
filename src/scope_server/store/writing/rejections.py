"""Stores rejected records, with a size limit, in the transaction that counts their loss; and undoes this for a
retry."""

import pyarrow as pa

from scope_server.errors import Rejected
from scope_server.store.writing.connection import WriterConnection, blobs, integers, moments, strings
from scope_server.store.writing.delivery import Batch, Delivery

KEPT_BYTES = 256 << 20  # of all records, unless told otherwise
_MOST = 10_000  # entries; beyond, records are counted but not kept
_REASON = 500  # characters

_KEEP = """
INSERT INTO store.quarantine (run, stream, sequence, events, minute, code, reason, boot_to_utc_ns, bytes, record)
SELECT w.run, w.stream, w.sequence, w.events, date_trunc('minute', w.minute), w.code, w.reason, w.boot_to_utc_ns,
       w.bytes, CASE WHEN kept.bytes + w.bytes <= w.limit_bytes THEN w.record END
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::text[], $7::text[],
            $8::bigint[], $9::bigint[], $10::bytea[], $11::bigint[], $12::bigint[])
     w (run, stream, sequence, events, minute, code, reason, boot_to_utc_ns, bytes, record, limit_bytes, most),
     (SELECT count(*) AS count, coalesce(sum(bytes) FILTER (WHERE record IS NOT NULL), 0) AS bytes
      FROM store.quarantine) kept
WHERE kept.count < w.most"""
_TAKE_BACK = """
WITH entry AS (
    DELETE FROM store.quarantine WHERE id = ANY($1::bigint[]) RETURNING run, stream, sequence, events, code, minute
), account AS (
    UPDATE store.accounts a
    SET settled = a.settled - int8multirange(int8range(e.sequence, e.sequence + 1)),
        lost = greatest(a.lost - e.events, 0)
    FROM entry e WHERE a.run = e.run AND a.stream = e.stream
), loss AS (
    UPDATE store.losses l SET count = greatest(l.count - e.events, 0)
    FROM entry e
    WHERE (l.run, l.stream, l.place, l.reason, l.minute) = (e.run, e.stream, 'ingest', e.code, e.minute)
)
SELECT run FROM entry"""
_TIDY = "DELETE FROM store.losses WHERE run = ANY($1::bigint[]) AND place = 'ingest' AND count = 0"


def keep(connection: WriterConnection, run: int, delivery: Delivery, rejected: Rejected, limit_bytes: int) -> None:
    """Adds a rejected record of a run (key): its description, the reason, and its bytes if the limit allows."""
    batch = delivery.content if isinstance(delivery.content, Batch) else None
    record = delivery.record.SerializeToString()
    values: dict[str, pa.Array] = {
        "run": integers([run]),
        "stream": strings([batch.stream if batch else None]),
        "sequence": integers([batch.sequence if batch else None]),
        "events": integers([batch.events if batch else 0]),
        "minute": moments([batch.last_ns if batch else None]),
        "code": strings([rejected.code]),
        "reason": strings([legible(str(rejected))]),
        "boot_to_utc_ns": integers([delivery.machine.boot_to_utc_ns]),
        "bytes": integers([len(record)]),
        "record": blobs([record]),
        "limit_bytes": integers([limit_bytes]),
        "most": integers([_MOST]),
    }
    connection.query(_KEEP, values)


def take_back(connection: WriterConnection, entry: int) -> bool:
    """Deletes an entry and undoes its counted loss; False if there is no such entry."""
    runs = connection.query(_TAKE_BACK, {"id": integers([entry])})
    if runs:
        connection.query(_TIDY, {"run": integers(row["run"] for row in runs)})
    return bool(runs)


def legible(reason: str) -> str:
    """A reason, which may quote an agent's data, shortened and cleaned for a column."""
    return reason.replace("\0", "")[:_REASON]

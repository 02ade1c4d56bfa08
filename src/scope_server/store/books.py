"""The ledger, the accounts and the losses of a group of deliveries, within the transaction that stores their rows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from scope_server.errors import Rejected
from scope_server.store.connection import WriterConnection, integers, strings
from scope_server.store.delivery import Decoded, Delivery, Outcome, Verdict

INGEST = "ingest"  # the place where the server loses, counted by it alone
Key = tuple[int, int]  # task (key), sequence

_ENTER = """
INSERT INTO scope.ledger (machine, task, sequence, stream, event_count, first_time, last_time, boot_to_utc_ns, status,
                          code, reason)
SELECT machine, task, sequence, stream, event_count, first_time, last_time, boot_to_utc_ns,
       CASE WHEN code IS NULL THEN 'stored' ELSE 'rejected' END, code, reason
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::timestamptz[], $7::timestamptz[],
            $8::bigint[], $9::text[], $10::text[])
     WITH ORDINALITY w (machine, task, sequence, stream, event_count, first_time, last_time, boot_to_utc_ns, code,
                        reason, place)
ORDER BY place
ON CONFLICT DO NOTHING
RETURNING id, task, sequence"""
_LOOK_UP = """
SELECT l.task, l.sequence, l.status, l.reason FROM scope.ledger l
JOIN unnest($1::bigint[], $2::bigint[]) w (task, sequence) ON l.task = w.task AND l.sequence = w.sequence"""
_ACCOUNT = """
INSERT INTO scope.accounts (task, stream, emitted, stored)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
ON CONFLICT (task, stream) DO UPDATE
SET emitted = greatest(accounts.emitted, excluded.emitted), stored = accounts.stored + excluded.stored
WHERE accounts.emitted < excluded.emitted OR excluded.stored > 0"""
_LOSE = """
INSERT INTO scope.losses (task, stream, place, reason, count)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[])
ON CONFLICT (task, stream, place, reason) DO UPDATE SET count = excluded.count WHERE losses.count < excluded.count"""
_LOSE_MORE = """
INSERT INTO scope.losses (task, stream, place, reason, count)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[])
ON CONFLICT (task, stream, place, reason) DO UPDATE SET count = losses.count + excluded.count"""


class Books:
    """Writes the books over one connection. For one thread."""

    def __init__(self, connection: WriterConnection) -> None:
        self._connection = connection

    def enter(self, deliveries: Mapping[Key, Delivery]) -> dict[Key, int]:
        """Enters deliveries into the ledger; returns the ledger's number of those that are new."""
        if not deliveries:
            return {}
        contents = [delivery.content for delivery in deliveries.values()]
        rejections = [content if isinstance(content, Rejected) else None for content in contents]
        entered = self._connection.query(
            _ENTER,
            {
                "machine": integers([delivery.machine for delivery in deliveries.values()]),
                "task": integers([task for task, _ in deliveries]),
                "sequence": integers([sequence for _, sequence in deliveries]),
                "stream": strings(delivery.stream for delivery in deliveries.values()),
                "event_count": integers([delivery.event_count for delivery in deliveries.values()]),
                "first_time": _times([_time(content, first=True) for content in contents]),
                "last_time": _times([_time(content, first=False) for content in contents]),
                "boot_to_utc_ns": integers([delivery.boot_to_utc_ns for delivery in deliveries.values()]),
                "code": strings(rejection.code if rejection else None for rejection in rejections),
                "reason": strings(_clean(str(rejection)) if rejection else None for rejection in rejections),
            },
        )
        return {(row["task"], row["sequence"]): row["id"] for row in entered}

    def earlier(self, keys: Sequence[Key]) -> dict[Key, Outcome]:
        """How these, which are in the ledger already, ended."""
        if not keys:
            return {}
        found = self._connection.query(
            _LOOK_UP,
            {"task": integers([task for task, _ in keys]), "sequence": integers([sequence for _, sequence in keys])},
        )
        return {(row["task"], row["sequence"]): Outcome(Verdict(row["status"]), row["reason"] or "") for row in found}

    def account(self, deliveries: Iterable[tuple[Key, Delivery]], entered: Mapping[Key, Delivery]) -> None:
        """Takes the accounts that came with deliveries, and what is stored or rejected of those entered now.

        Last in a transaction: other writers that store for the same task wait for these rows until it is committed.
        """
        emitted: dict[tuple[int, str], int] = {}
        stored: Counter[tuple[int, str]] = Counter()
        lost: dict[tuple[int, str, str, str], int] = {}
        for (task, _), delivery in deliveries:
            account = (task, delivery.stream)
            emitted[account] = max(emitted.get(account, 0), delivery.emitted or 0)
            for loss in delivery.losses:
                if loss.place != INGEST:
                    where = (task, delivery.stream, loss.place, loss.reason)
                    lost[where] = max(lost.get(where, 0), loss.count)
        for (task, _), delivery in entered.items():
            if isinstance(delivery.content, Decoded):
                stored[task, delivery.stream] += delivery.event_count
        if emitted:
            keys = sorted(emitted)
            self._connection.query(
                _ACCOUNT,
                {
                    "task": integers([task for task, _ in keys]),
                    "stream": strings(stream for _, stream in keys),
                    "emitted": integers([emitted[key] for key in keys]),
                    "stored": integers([stored[key] for key in keys]),
                },
            )
        self._lose(_LOSE, lost)
        self._lose_rejected(entered)

    def _lose_rejected(self, entered: Mapping[Key, Delivery]) -> None:
        lost: Counter[tuple[int, str, str, str]] = Counter()
        for (task, _), delivery in entered.items():
            if isinstance(delivery.content, Rejected):
                lost[task, delivery.stream, INGEST, delivery.content.code] += delivery.event_count
        self._lose(_LOSE_MORE, lost)

    def _lose(self, statement: str, lost: Mapping[tuple[int, str, str, str], int]) -> None:
        if not lost:
            return
        keys = sorted(lost)
        columns: dict[str, pa.Array] = {"task": integers([key[0] for key in keys])}
        columns |= {
            name: strings(str(key[index]) for key in keys)
            for index, name in enumerate(("stream", "place", "reason"), 1)
        }
        self._connection.query(statement, columns | {"count": integers([lost[key] for key in keys])})


def _time(content: Decoded | Rejected, first: bool) -> int | None:
    if isinstance(content, Rejected) or not content.rows.num_rows:
        return None
    return (content.first_ns if first else content.last_ns) // 1000


def _times(micros: list[int | None]) -> pa.Array:
    return pa.array(micros, pa.timestamp("us", "UTC"))


def _clean(text: str) -> str:
    return text.replace("\0", "")[:500]  # it may quote what the agent sent

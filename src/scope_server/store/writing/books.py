"""The event counts of a group's runs, and their losses, in the transaction that stores the rows.

They are kept in memory while the group's records are processed, and then written at once.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scope_server.errors import Rejected
from scope_server.store.writing.connection import WriterConnection, integers, moments, strings
from scope_server.store.writing.delivery import INGEST, Account, Gap, Loss
from scope_server.store.writing.sequences import Sequences
from scope_wire.limits import MOST_COUNT

Key = tuple[int, str]  # run (key), stream
_Minute = tuple[int, str, str, str, int]  # run, stream, place, reason, minute since 1970

_MOST_SPANS = 10_000  # per account: most sequence numbers come in order
_MOST_REASONS = 500
_MINUTE_NS = 60 * 10**9
_KILLED = "agent", "killed"  # place and reason; the agent's next start uses the same

_MAKE = """
INSERT INTO store.accounts (run, stream) SELECT run, stream FROM unnest($1::bigint[], $2::text[]) w (run, stream)
ORDER BY 1, 2 ON CONFLICT DO NOTHING"""
_LOCK = """
SELECT a.run, a.stream, a.emitted, a.stored + a.lost AS counted, a.left_out, a.told::text AS told,
       a.settled::text AS settled,
       (extract(epoch FROM coalesce(a.told_time, r.started)) * 1000000)::bigint AS told_us
FROM store.accounts a
JOIN unnest($1::bigint[], $2::text[]) w (run, stream) ON a.run = w.run AND a.stream = w.stream
JOIN store.runs r ON r.id = a.run
ORDER BY a.run, a.stream FOR UPDATE OF a"""
_WRITE = f"""
UPDATE store.accounts a
SET emitted = greatest(a.emitted, w.emitted), stored = a.stored + w.stored,
    lost = least(a.lost::numeric + w.lost, {MOST_COUNT})::bigint, told = w.told::jsonb,
    told_time = greatest(a.told_time, w.told_time), settled = a.settled + w.settled::int8multirange,
    last_sequence = greatest(a.last_sequence, w.last_sequence), incomplete = greatest(a.incomplete, w.incomplete),
    left_out = greatest(a.left_out, w.left_out)
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::timestamptz[],
            $8::text[], $9::bigint[], $10::bigint[], $11::bigint[])
     w (run, stream, emitted, stored, lost, told, told_time, settled, last_sequence, incomplete, left_out)
WHERE a.run = w.run AND a.stream = w.stream"""
_LOSE = f"""
INSERT INTO store.losses AS l (run, stream, place, reason, minute, first_time, last_time, count)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
                     $7::timestamptz[], $8::bigint[])
ON CONFLICT (run, stream, place, reason, minute) DO UPDATE
SET count = least(l.count::numeric + excluded.count, {MOST_COUNT})::bigint,
    first_time = least(l.first_time, excluded.first_time), last_time = greatest(l.last_time, excluded.last_time)"""
_CLOSE = "UPDATE store.accounts SET last_sequence = 0 WHERE run = ANY($1::bigint[]) AND last_sequence IS NULL"


@dataclass
class _Book:
    # An account as locked, with the group's additions.
    settled: Sequences
    told: dict[str, int]
    told_ns: int | None
    emitted: int
    counted: int  # stored or lost before
    left_out: int
    new: Sequences = field(default_factory=Sequences)
    incomplete: int = 0
    stored: int = 0
    lost: int = 0
    last_sequence: int | None = None


@dataclass
class _Lost:
    first_ns: int
    last_ns: int
    count: int = 0


class Books:
    """The accounts of these runs and streams, locked until the transaction ends.

    A method that raises Rejected has changed nothing.
    """

    def __init__(self, connection: WriterConnection, keys: Iterable[Key]) -> None:
        self._connection = connection
        ordered = sorted(set(keys))
        self._books: dict[Key, _Book] = {}
        self._lost: dict[_Minute, _Lost] = {}
        self._ended: set[int] = set()
        if ordered:
            where = {"run": integers(run for run, _ in ordered), "stream": strings(stream for _, stream in ordered)}
            connection.query(_MAKE, where)
            for row in connection.query(_LOCK, where):
                told_ns = None if row["told_us"] is None else row["told_us"] * 1000
                settled, told = Sequences.parse(row["settled"]), json.loads(row["told"])
                book = _Book(settled, told, told_ns, row["emitted"], row["counted"], row["left_out"])
                self._books[row["run"], row["stream"]] = book

    def settle(self, key: Key, sequence: int) -> bool:
        """Marks a sequence number as settled; False if it was settled before.

        Raises:
            Rejected: too many earlier sequence numbers are missing.
        """
        book = self._books[key]
        if book.settled.overlaps(sequence, sequence):
            return False
        _add(book.settled, book.new, sequence, sequence)
        return True

    def store(self, key: Key, events: int) -> None:
        """Counts rows as stored."""
        self._books[key].stored += events

    def lose(self, key: Key, place: str, reason: str, events: int, *, first_ns: int, last_ns: int) -> None:
        """Counts events as lost, in the minute of `last_ns`."""
        if events:
            first_ns = min(first_ns, last_ns)
            where = (*key, place, reason, last_ns // _MINUTE_NS)
            lost = self._lost.setdefault(where, _Lost(first_ns, last_ns))
            lost.first_ns, lost.last_ns = min(lost.first_ns, first_ns), max(lost.last_ns, last_ns)
            lost.count += events
            self._books[key].lost += events

    def refuse(self, key: Key, code: str, events: int, *, first_ns: int, last_ns: int) -> None:
        """Counts events of a sequence number that cannot be settled as lost. It may come again, so at most as many as
        are under way."""
        book = self._books[key]
        under_way = book.emitted - book.counted - book.left_out - book.stored - book.lost
        self.lose(key, INGEST, code, max(0, min(events, under_way)), first_ns=first_ns, last_ns=last_ns)

    def give_up(self, run: int, gap: Gap, place: str) -> None:
        """Counts the unsettled parts of a gap as lost.

        Raises:
            Rejected: a span of several sequence numbers is partly settled, so its events cannot be divided; or too many
                earlier sequence numbers are missing.
        """
        key = (run, gap.stream)
        book = self._books[key]
        fresh = [span for span in gap.spans if not book.settled.covers(span.first, span.last)]
        for span in fresh:
            if book.settled.overlaps(span.first, span.last):
                raise Rejected("breach", f"sequences {span.first} to {span.last} are in a gap, but some were sent")
        settled, new, lost = book.settled.copy(), book.new.copy(), 0
        for span in fresh:
            if not settled.overlaps(span.first, span.last):  # a gap may contain it twice
                _add(settled, new, span.first, span.last)
                lost += span.events
        book.settled, book.new = settled, new
        self.lose(key, place, gap.reason, lost, first_ns=gap.first_ns, last_ns=gap.last_ns)

    def tell(self, run: int, account: Account, *, after_kill: bool) -> None:
        """Applies an agent's account: counts never decrease; losses above those reported before are counted as lost.

        Args:
            after_kill: the account is the last of a run whose agent was killed. It is made from what the agent left
                on its machine, so events that it reported beyond that, such as rows of a summary that it had not
                written, are lost, too.

        Raises:
            Rejected: the account has too many reasons.
        """
        key = (run, account.stream)
        book = self._books[key]
        if after_kill and book.emitted > account.emitted:
            account = account.with_lost(*_KILLED, book.emitted - account.emitted)
        if len(book.told.keys() | map(_word, account.lost)) > _MOST_REASONS:
            raise Rejected("reasons", f"stream '{account.stream}' has lost events for {_MOST_REASONS} reasons already")
        book.emitted = max(book.emitted, account.emitted)
        book.incomplete = max(book.incomplete, account.incomplete)
        book.left_out = max(book.left_out, account.left_out)
        since_ns = account.time_ns if book.told_ns is None else book.told_ns
        for loss in account.lost:
            more = loss.count - book.told.get(_word(loss), 0)
            if more > 0:
                book.told[_word(loss)] = loss.count
                self.lose(key, loss.place, loss.reason, more, first_ns=since_ns, last_ns=account.time_ns)
        book.told_ns = max(account.time_ns, book.told_ns or 0)

    def end(self, run: int, last_sequences: Mapping[str, int]) -> None:
        """Sets the last sequence numbers of a run's streams; 0 for streams that are not named."""
        self._ended.add(run)
        for stream, last in last_sequences.items():
            book = self._books[run, stream]
            book.last_sequence = max(last, book.last_sequence or 0)

    def write(self) -> None:
        """Writes all changes."""
        keys = sorted(self._books)
        books = [self._books[key] for key in keys]
        if keys:
            self._connection.query(
                _WRITE,
                {
                    "run": integers(run for run, _ in keys),
                    "stream": strings(stream for _, stream in keys),
                    "emitted": integers(book.emitted for book in books),
                    "stored": integers(book.stored for book in books),
                    "lost": integers(min(book.lost, MOST_COUNT) for book in books),
                    "told": strings(json.dumps(book.told) for book in books),
                    "told_time": moments([book.told_ns for book in books]),
                    "settled": strings(str(book.new) for book in books),
                    "last_sequence": integers(book.last_sequence for book in books),
                    "incomplete": integers(book.incomplete for book in books),
                    "left_out": integers(book.left_out for book in books),
                },
            )
        self._write_losses()
        if self._ended:
            self._connection.query(_CLOSE, {"runs": integers(sorted(self._ended))})

    def _write_losses(self) -> None:
        if not self._lost:
            return
        keys = sorted(self._lost)
        lost = [self._lost[key] for key in keys]
        self._connection.query(
            _LOSE,
            {
                "run": integers(key[0] for key in keys),
                **{
                    name: strings(str(key[at]) for key in keys)
                    for at, name in enumerate(("stream", "place", "reason"), 1)
                },
                "minute": moments([key[4] * _MINUTE_NS for key in keys]),
                "first_time": moments([one.first_ns for one in lost]),
                "last_time": moments([one.last_ns for one in lost]),
                "count": integers(min(one.count, MOST_COUNT) for one in lost),
            },
        )


def _add(settled: Sequences, new: Sequences, first: int, last: int) -> None:
    if len(settled) >= _MOST_SPANS and not settled.overlaps(first - 1, last + 1):
        raise Rejected("holes", f"sequence {first}: {_MOST_SPANS} spans of earlier sequences are missing")
    settled.add(first, last)
    new.add(first, last)


def _word(loss: Loss) -> str:
    return f"{loss.place}/{loss.reason}"

"""How far each stream has come, and when to tell that to readers.

A reader notices a loss by the next message. If there is no next one, because the stream is quiet or its run has ended,
its position is told instead: after 1 s, 2 s, 4 s, ..., then every minute. So a reader that was stopped learns its
losses after at most as much time again as the stream has been quiet, and at most a minute.
"""

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scope_proto.scope.v1 import record_pb2
from scope_wire.bus.message import Message, topic_of

_FIRST_PAUSE_S, _LAST_PAUSE_S = 1.0, 60.0
_MOST_ENDED = 64  # runs that have ended, whose positions are still told


@dataclass
class _Position:
    topic: bytes
    sequence: int = 0
    events: int = 0
    boot_to_utc_ns: int = 0
    account: record_pb2.Account = field(default_factory=record_pb2.Account)
    pause_s: float = _FIRST_PAUSE_S
    due: float = 0.0  # time.monotonic()

    def count(self, account: record_pb2.Account, boot_to_utc_ns: int) -> None:
        """Takes the stream's counts."""
        self.account.CopyFrom(account)  # the original would keep its whole record in memory
        self.boot_to_utc_ns = boot_to_utc_ns

    def moved(self) -> None:
        """Tells it soon, unless a message does."""
        self.pause_s = _FIRST_PAUSE_S
        self.due = time.monotonic() + self.pause_s


@dataclass(frozen=True)
class Source:
    """The run that a message is of; `began_ns` is CLOCK_BOOTTIME."""

    task: str
    run: str
    probe: str
    began_ns: int


@dataclass
class _Run:
    source: Source
    ended: bool = False
    streams: dict[str, _Position] = field(default_factory=dict)

    def position(self, stream: str) -> _Position:
        if stream not in self.streams:
            self.streams[stream] = _Position(topic_of(stream, self.source.task))
        return self.streams[stream]

    def message(self, stream: str) -> Message:
        """A message without rows that tells a position."""
        at = self.streams[stream]
        return Message(
            stream=stream,
            task=self.source.task,
            run=self.source.run,
            began_ns=self.source.began_ns,
            sequence=at.sequence,
            events_before=at.events,
            emitted=at.account.emitted,
            lost=lost_of(at.account),
            left_out=at.account.left_out,
            boot_to_utc_ns=at.boot_to_utc_ns,
            ended=self.ended,
        )


class Positions:
    """The positions of all runs that record, and of ended ones while anybody listens. The caller locks."""

    def __init__(self) -> None:
        self._runs: dict[bytes, _Run] = {}
        self._due = 0.0

    def note(self, record: record_pb2.Record) -> None:
        """Takes the counts of a record."""
        content = record.WhichOneof("content")
        if content == "start":
            self._runs[record.run_id] = _Run(_source(record))
        elif content == "batch":
            batch = record.batch
            position = self._runs[record.run_id].position(batch.stream)
            position.sequence, position.events = batch.sequence, batch.events_before + batch.event_count
            position.count(batch.account, batch.boot_to_utc_ns)
            position.moved()
        elif content == "accounts":
            self._count(self._runs[record.run_id], record.accounts)
        elif content == "end":
            run = self._runs[record.run_id]
            self._count(run, record.end.accounts)
            run.ended = True
            self._due = 0.0
            for position in run.streams.values():
                position.due = 0.0

    def _count(self, run: _Run, accounts: record_pb2.Accounts) -> None:
        for stream, account in accounts.streams.items():
            if account.emitted or stream in run.streams:
                position = run.position(stream)
                if account != position.account:
                    position.count(account, accounts.boot_to_utc_ns)
                    position.moved()

    def topic(self, record: record_pb2.Record) -> bytes:
        """The topic of a batch."""
        return self._runs[record.run_id].position(record.batch.stream).topic

    def source(self, run_id: bytes) -> Source:
        """The run with this id."""
        return self._runs[run_id].source

    def joined(self, prefix: bytes) -> None:
        """Somebody begins to listen: tells the streams that record, so that the reader has their schemas."""
        self._due = 0.0
        for run in self._runs.values():
            for position in run.streams.values():
                if position.topic.startswith(prefix) and not run.ended:
                    position.due, position.pause_s = 0.0, _FIRST_PAUSE_S

    def due(self, wanted: tuple[bytes, ...]) -> Iterator[tuple[Source, Message]]:
        """The positions to tell now, of topics with these prefixes."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _FIRST_PAUSE_S
        for run in self._runs.values():
            for stream, position in run.streams.items():
                if position.due <= now and position.topic.startswith(wanted):
                    position.due = now + position.pause_s
                    position.pause_s = min(2 * position.pause_s, _LAST_PAUSE_S)
                    yield run.source, run.message(stream)

    def forget(self, wanted: tuple[bytes, ...]) -> None:
        """Forgets ended runs that nobody listens to, and the oldest ones if there are many."""
        ended = [run_id for run_id, run in self._runs.items() if run.ended]
        unheard = [
            run_id
            for run_id in ended
            if not any(position.topic.startswith(wanted) for position in self._runs[run_id].streams.values())
        ]
        for run_id in {*unheard, *ended[:-_MOST_ENDED]}:
            del self._runs[run_id]


def _source(start: record_pb2.Record) -> Source:
    return Source(
        task=str(uuid.UUID(bytes=start.task_id)),
        run=str(uuid.UUID(bytes=start.run_id)),
        probe=start.start.definition.probe,
        began_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    )


def lost_of(account: record_pb2.Account) -> Mapping[str, int]:
    """The losses of an account, by place and reason."""
    return {f"{loss.place}/{loss.reason}": loss.count for loss in account.lost}

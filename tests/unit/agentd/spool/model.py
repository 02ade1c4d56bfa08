"""Models of both ends, for tests: a run that emits, and a server that books records as the contract says."""

import asyncio
import contextlib
import os
import random
from collections import defaultdict
from collections.abc import Callable

from scope_agentd.pipeline.spool import Outcome, Spool
from scope_proto.scope.v1.record_pb2 import Account, Accounts, Batch, Record, RunEnd, RunStart
from scope_wire.frame import opened

EVENTS_MOST = 40
TASK = b"T" * 16


class Run:
    """Makes the records of one run, and remembers the events of each sequence."""

    def __init__(self, name: int, chance: random.Random | None = None) -> None:
        self.run_id = name.to_bytes(16)
        self.events: dict[str, list[int]] = defaultdict(list)
        self.left_out = 0
        self._chance = chance or random.Random(name)

    def start(self) -> Record:
        return Record(run_id=self.run_id, task_id=TASK, start=RunStart(attach_point="tracepoint"))

    def batch(self, stream: str = "cuda", size: int = 100) -> Record:
        events = self.events[stream]
        count, before = self._chance.randint(1, EVENTS_MOST), sum(events)
        events.append(count)
        sequence = len(events)
        return Record(
            run_id=self.run_id,
            task_id=TASK,
            batch=Batch(
                stream=stream,
                sequence=sequence,
                event_count=count,
                events_before=before,
                first_ktime_ns=sequence * 1000,
                last_ktime_ns=sequence * 1000 + 999,
                boot_to_utc_ns=7_000,
                arrow_ipc=self._chance.randbytes(size),
                account=Account(emitted=before + count),
            ),
        )

    def accounts(self) -> Record:
        return Record(run_id=self.run_id, task_id=TASK, accounts=self._books())

    def end(self) -> Record:
        last = {stream: len(events) for stream, events in self.events.items()}
        return Record(run_id=self.run_id, task_id=TASK, end=RunEnd(accounts=self._books(), last_sequences=last))

    def _books(self) -> Accounts:
        streams = {
            stream: Account(emitted=sum(events) + self.left_out, left_out=self.left_out)
            for stream, events in self.events.items()
        }
        return Accounts(streams=streams, ktime_ns=5)


class Server:
    """Books batches and Gaps by sequence; fails on whatever the contract forbids."""

    def __init__(self) -> None:
        self.stored: dict[tuple[bytes, str], dict[int, int]] = defaultdict(dict)
        self.lost: dict[tuple[bytes, str], dict[tuple[int, int], int]] = defaultdict(dict)
        self.settled: dict[tuple[bytes, str], set[int]] = defaultdict(set)
        self.started: set[bytes] = set()
        self.ended: dict[bytes, RunEnd] = {}
        self.accounts: dict[bytes, Accounts] = {}
        self.gaps: list[Record] = []

    def receive(self, data: bytes, crc32: int) -> None:
        record = opened(data, crc32)
        kind = record.WhichOneof("content")
        if kind == "batch":
            self._batch((record.run_id, record.batch.stream), record.batch)
        elif kind == "gap":
            self.gaps.append(record)
            self._gap((record.run_id, record.gap.stream), record)
        elif kind == "start":
            self.started.add(record.run_id)
        elif kind == "accounts":
            self.accounts[record.run_id] = record.accounts
        else:
            assert kind == "end"
            self.ended[record.run_id] = record.end

    def _batch(self, key: tuple[bytes, str], batch: Batch) -> None:
        if batch.sequence not in self.settled[key]:
            self.settled[key].add(batch.sequence)
            self.stored[key][batch.sequence] = batch.event_count

    def _gap(self, key: tuple[bytes, str], record: Record) -> None:
        for span in record.gap.spans:
            sequences = set(range(span.first, span.last + 1))
            known = sequences & self.settled[key]
            assert not known or known == sequences, f"a span {span.first} to {span.last} of which {known} are settled"
            if not known:
                self.settled[key] |= sequences
                self.lost[key][span.first, span.last] = span.events

    def check(self, run: Run) -> None:
        """Checks that every sequence of the run is stored or lost, with the right number of events."""
        for stream, events in run.events.items():
            key = (run.run_id, stream)
            missing = set(range(1, len(events) + 1)) - self.settled[key]
            assert not missing, f"{stream} of run {int.from_bytes(run.run_id)}: {sorted(missing)}"
            assert len(self.settled[key]) == len(events)
            for sequence, count in self.stored[key].items():
                assert count == events[sequence - 1]
            for (first, last), count in self.lost[key].items():
                assert count == sum(events[first - 1 : last]), (first, last)
            assert sum(events) == sum(self.stored[key].values()) + sum(self.lost[key].values())


async def drain(spool: Spool, receive: Callable[[bytes, int], None]) -> int:
    """Takes, delivers and settles all records of the spool; returns their number."""
    count = 0
    while spool.held().records:
        spooled = await asyncio.wait_for(spool.take(), 30)
        receive(spooled.record, spooled.crc32)
        spool.settle(spooled.position, Outcome.STORED)
        count += 1
    return count


def nowhere(record: bytes, crc32: int) -> None:
    """Ignores a record."""


async def take_all(spool: Spool, count: int) -> list[Record]:
    """Takes the next records, without settling them."""
    return [Record.FromString((await asyncio.wait_for(spool.take(), 30)).record) for _ in range(count)]


def disk_bytes(spool_directory: os.PathLike[str]) -> int:
    """The bytes of all files in a spool's directory."""
    size = 0
    with os.scandir(spool_directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # the spool's thread has deleted it just now
                size += entry.stat().st_size
    return size

"""Rows as agents send them: a fleet's syscalls, opens, execs and launches, spread over days, some of them late."""

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from scope_catalogue.catalogue import streams
from scope_catalogue.stream import fingerprint
from scope_proto.scope.v1.record_pb2 import Account, Batch, Record
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.schema.columns import stream_table

STREAMS = {
    "syscall": ("syscalls", 0.80),
    "open": ("files", 0.08),
    "exec": ("process", 0.02),
    "cuda_launch": ("cuda", 0.10),
}
HELD = ("cuda_live", "cuda")
ROWS_A_BATCH = 8192
DAY_NS = 86_400 * 10**9
RARE = "rare-once"  # a comm that one batch has
COMMON = "worker-0"
_ROWS_A_SECOND = 400  # of a machine while it is watched
_LATEST_S = 6 * 3600
_COMMON_CALLS = ("read", "write", "futex", "openat", "close", "mmap", "epoll_wait", "recvmsg", "sendmsg", "fstat")
_CALLS = (*_COMMON_CALLS, *(f"call_{number}" for number in range(10, 50)))
_STACKS = 20_000  # different ones, as a profile of a large program has
_BOOTED_NS = 10 * DAY_NS  # before the load's end: all machines were booted then


@dataclass(frozen=True)
class Piece:
    """A batch that is to come: of which machine and stream, its rows and their times, since 1970."""

    machine: int
    stream: str
    sequence: int
    rows: int
    first_ns: int
    last_ns: int


class Load:
    """What a fleet records. The same for the same arguments.

    Args:
        end_ns: of the last row, since 1970 UTC.
        late: share of the batches that come up to six hours late.
        states: rows of memory that is held, the newest of all.
    """

    def __init__(self, rows: int, *, machines: int, days: float, late: float, end_ns: int, states: int = 0) -> None:
        self.machines, self.end_ns, self.states = machines, end_ns, states
        self.boot_to_utc_ns = (end_ns - _BOOTED_NS) // 1000 * 1000
        self._random = np.random.default_rng(20_261_121)
        self._runs = {
            (n, s): uuid.UUID(int=(n << 32) + k) for n in range(machines) for k, s in enumerate((*STREAMS, HELD[0]))
        }
        self._sequences: Counter[tuple[int, str]] = Counter()
        self._pieces = self._planned(rows, days, late)

    def __len__(self) -> int:
        return len(self._pieces)

    def records(self) -> Iterator[tuple[int, Record]]:
        """(number of the machine, record), in the order in which they come."""
        for piece in self._pieces:
            yield piece.machine, self.record(piece)

    def record(self, piece: Piece) -> Record:
        """A batch as it travels."""
        run = self._runs[piece.machine, piece.stream]
        columns = self.columns(piece)
        batch = Batch(
            stream=piece.stream,
            sequence=piece.sequence,
            event_count=columns.num_rows,
            first_ktime_ns=piece.first_ns - self.boot_to_utc_ns,
            last_ktime_ns=piece.last_ns - self.boot_to_utc_ns,
            boot_to_utc_ns=self.boot_to_utc_ns,
            schema_fingerprint=fingerprint(columns.schema),
            arrow_ipc=travelling(columns),
            account=Account(emitted=columns.num_rows * piece.sequence),
        )
        return Record(run_id=run.bytes, task_id=run.bytes, batch=batch)

    def fresh(self, count: int, stream: str = "syscall") -> list[tuple[int, Record]]:
        """So many more batches of a stream, newer than all others; each call makes others."""
        made = []
        for _ in range(count):
            machine = int(self._random.integers(self.machines))
            self.end_ns += 10**9
            first_ns = self.end_ns - ROWS_A_BATCH * 10**9 // _ROWS_A_SECOND
            piece = Piece(machine, stream, self._sequence(machine, stream), ROWS_A_BATCH, first_ns, self.end_ns)
            made.append((machine, self.record(piece)))
        return made

    def _planned(self, rows: int, days: float, late: float) -> list[Piece]:
        span = int(days * DAY_NS)
        pieces: list[tuple[int, Piece]] = []
        for stream, (_, share) in STREAMS.items():
            batches = max(1, round(rows * share / ROWS_A_BATCH))
            ends = np.sort(self._random.integers(self.end_ns - span, self.end_ns, batches))
            machines = self._random.integers(0, self.machines, batches)
            delays = np.where(self._random.random(batches) < late, self._random.integers(0, _LATEST_S, batches), 0)
            for end, machine, delay in zip(ends.tolist(), machines.tolist(), delays.tolist(), strict=True):
                first = max(end - ROWS_A_BATCH * 10**9 // _ROWS_A_SECOND, self.end_ns - span)
                piece = Piece(machine, stream, self._sequence(machine, stream), ROWS_A_BATCH, first, end)
                pieces.append((end + delay * 10**9, piece))
        for number in range(-(-self.states // ROWS_A_BATCH)):
            count = min(ROWS_A_BATCH, self.states - number * ROWS_A_BATCH)
            machine = number % self.machines
            sequence = self._sequence(machine, HELD[0])
            pieces.append((self.end_ns, Piece(machine, HELD[0], sequence, count, self.end_ns - 10**9, self.end_ns)))
        return [piece for _, piece in sorted(pieces, key=lambda each: each[0])]

    def _sequence(self, machine: int, stream: str) -> int:
        self._sequences[machine, stream] += 1
        return self._sequences[machine, stream]

    def columns(self, piece: Piece) -> pa.RecordBatch:
        """The rows of a batch."""
        random = np.random.default_rng((piece.machine, piece.sequence, len(piece.stream)))
        schema = stream_table(streams()[piece.stream], BLOCKS).schema
        count = piece.rows
        # A few threads make most of the rows.
        process = np.minimum(random.zipf(1.5, count), 30)
        times = np.sort(random.integers(piece.first_ns, piece.last_ns + 1, count)) - self.boot_to_utc_ns
        times[[0, -1]] = piece.first_ns - self.boot_to_utc_ns, piece.last_ns - self.boot_to_utc_ns
        comms = [f"worker-{number}" for number in range(10)]
        if piece.machine == 0 and piece.sequence == 1 and piece.stream == "syscall":
            comms[9] = RARE
        known = {
            "ktime_ns": times,
            "pid": 1000 + piece.machine * 100 + process,
            "start_ns": process * 10**9,
            "comm": _worded(process % 10, comms),
            # A program makes a dozen different calls.
            "name": _worded((process * 7 + np.minimum(random.zipf(1.4, count), 12)) % len(_CALLS), _CALLS),
            "duration_ns": np.exp(random.normal(9, 2, count)).astype(np.int64),
            "ret": np.where(random.random(count) < 0.03, -11, random.integers(0, 4096, count)),
            "stack": _stacks(random, count) if "stack" in schema.names else None,
            "kernel": _worded(
                np.minimum(random.zipf(1.4, count), 60) - 1, [f"void gemm_{n}<float>()" for n in range(60)]
            ),
            "stack_id": np.arange(count) + piece.sequence * ROWS_A_BATCH,
            "live_bytes": random.integers(1, 1 << 30, count),
            "live_count": random.integers(1, 100, count),
        }
        columns = [_typed(known.get(field.name), field.type, count, random, field.name) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _typed(values: object, type_: pa.DataType, count: int, random: np.random.Generator, name: str) -> pa.Array:
    found = values
    if pa.types.is_list(type_):
        words = pa.array(["/usr/bin/python3", "-m", "service", "--port"])
        places = pa.array(np.arange(count + 1, dtype=np.int32) * len(words))
        found = pa.ListArray.from_arrays(places, pa.concat_arrays([words] * count))
    elif type_ == pa.string():
        paths = pa.array([f"/srv/data/{name}/{number % 97}/file-{number}" for number in range(5000)])
        found = paths.take(pa.array(random.integers(0, 5000, count)))
    elif values is None and pa.types.is_dictionary(type_):
        found = _worded(random.integers(0, 3, count), [f"{name}-{number}" for number in range(3)])
    elif values is None:
        no = name in ("nested", "ended", "result") or name.endswith("truncated")
        found = np.zeros(count, np.int64) if no else random.integers(0, 100, count)
    return found if isinstance(found, pa.Array) else pa.array(found).cast(type_)


def _worded(codes: np.ndarray[tuple[int, ...], np.dtype[np.int64]], words: list[str] | tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words, pa.string()))


def _stacks(random: np.random.Generator, count: int) -> pa.Array:
    # A few are common, and most are rare.
    numbers, codes = np.unique(np.minimum(random.zipf(1.3, count), _STACKS) - 1, return_inverse=True)
    return _worded(codes, [_stack(number) for number in numbers.tolist()])


@cache
def _stack(number: int) -> str:
    return ";".join(f"library_{(number >> depth) % 40}::function_{depth}(int, float const*)" for depth in range(24))


def travelling(columns: pa.RecordBatch) -> bytes:
    """Rows as they travel: one Arrow IPC stream, lz4."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(columns)
    return bytes(sink.getvalue().to_pybytes())

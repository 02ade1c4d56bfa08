"""Samples with their call stacks."""

import pyarrow as pa
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from tests.unit.views.streams import stream

from scope_catalogue.shown import Samples, Shown, Timeline
from scope_views.perfetto.trace import PerfettoTrace
from scope_views.perfetto.tracks import CLEARED

COLUMNS = ("ktime_ns", "start_ns", "pid", "tid", "cpu", "comm", "kind", "stack")
STREAM = stream(COLUMNS, shown=Shown(timeline=Timeline(samples=Samples(where="kind = on_cpu"))))


def _batch(*rows: tuple[int, str | None, str]) -> pa.RecordBatch:
    """Rows of time, stack and kind, of thread 8 of process 7."""
    of_thread = {"start_ns": 1, "pid": 7, "tid": 8, "cpu": 3, "comm": "worker"}
    batch = pa.RecordBatch.from_pylist(
        [{**of_thread, "ktime_ns": time, "stack": stack, "kind": kind} for time, stack, kind in rows]
    )
    place = batch.schema.get_field_index("stack")
    return batch.set_column(place, "stack", batch["stack"].cast(pa.string()).dictionary_encode())


class Read:
    """What a viewer knows of stacks, and the samples that it has seen."""

    def __init__(self) -> None:
        self.samples: list[tuple[int, int, int, int, str]] = []
        self.forgotten = 0
        self._forget()

    def _forget(self) -> None:
        self.names: dict[int, str] = {}
        self.frames: dict[int, str] = {}
        self.stacks: dict[int, str] = {}

    def piece(self, told: bytes) -> None:
        """Reads a piece; each stack and frame has to be described once, before the first sample that refers to it."""
        for packet in proto.Trace.FromString(told).packet:
            if packet.sequence_flags == CLEARED:
                self.forgotten += 1
                self._forget()
            interned = packet.interned_data
            assert not self.stacks.keys() & {each.iid for each in interned.callstacks}
            assert not self.frames.keys() & {each.iid for each in interned.frames}
            self.names |= {each.iid: each.str.decode() for each in interned.function_names}
            self.frames |= {each.iid: self.names[each.function_name_id] for each in interned.frames}
            self.stacks |= {
                each.iid: ";".join(self.frames[one] for one in each.frame_ids) for each in interned.callstacks
            }
            if packet.HasField("perf_sample"):
                one = packet.perf_sample
                self.samples.append((packet.timestamp, one.pid, one.tid, one.cpu, self.stacks[one.callstack_iid]))


def test_a_sample_has_its_stack() -> None:
    """Over batches."""
    trace, read = PerfettoTrace(), Read()
    batches = [
        _batch((10, "main;a;b", "on_cpu"), (20, None, "on_cpu"), (30, "main", "blocked")),
        _batch((40, "main;a;b", "on_cpu"), (50, "main;b", "on_cpu")),
        _batch((60, None, "on_cpu")),
    ]
    for piece in (trace.begin(1, 1), *(trace.rows(STREAM, batch) for batch in batches), trace.end()):
        read.piece(piece)
    assert read.samples == [(10, 7, 8, 3, "main;a;b"), (40, 7, 8, 3, "main;a;b"), (50, 7, 8, 3, "main;b")]
    assert sorted(read.stacks.values()) == ["main;a;b", "main;b"]
    assert sorted(read.frames.values()) == ["a", "b", "main"]


def test_what_is_known_by_number_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacks are forgotten in time, and described anew where they come again."""
    monkeypatch.setattr("scope_views.perfetto.trace.MOST_BYTES", 10_000)
    trace, read = PerfettoTrace(), Read()
    stacks = [f"main;f{number % 150}" for number in range(600)]
    for number, stack in enumerate(stacks):
        read.piece(trace.rows(STREAM, _batch((number, stack, "on_cpu"))))
        assert trace.known_bytes < 11_000
    assert [stack for *_, stack in read.samples] == stacks
    assert read.forgotten > 5

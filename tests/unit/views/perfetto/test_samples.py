"""Samples with their call stacks."""

import pyarrow as pa
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from tests.unit.views.streams import stream

from scope_catalogue.shown import Samples, Shown, Timeline
from scope_views.perfetto.trace import PerfettoTrace

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


def test_a_sample_has_its_stack() -> None:
    """Over batches, each stack and frame is described once, before the first sample that refers to it."""
    trace = PerfettoTrace()
    batches = [
        _batch((10, "main;a;b", "on_cpu"), (20, None, "on_cpu"), (30, "main", "blocked")),
        _batch((40, "main;a;b", "on_cpu"), (50, "main;b", "on_cpu")),
        _batch((60, None, "on_cpu")),
    ]
    told = b"".join([trace.begin(1, 1), *(trace.rows(STREAM, batch) for batch in batches), trace.end()])
    names: dict[int, str] = {}
    frames: dict[int, str] = {}
    stacks: dict[int, str] = {}
    samples = []
    for packet in proto.Trace.FromString(told).packet:
        interned = packet.interned_data
        assert not stacks.keys() & {each.iid for each in interned.callstacks}
        assert not frames.keys() & {each.iid for each in interned.frames}
        names |= {each.iid: each.str.decode() for each in interned.function_names}
        frames |= {each.iid: names[each.function_name_id] for each in interned.frames}
        stacks |= {each.iid: ";".join(frames[one] for one in each.frame_ids) for each in interned.callstacks}
        if packet.HasField("perf_sample"):
            sample = packet.perf_sample
            samples.append((packet.timestamp, sample.pid, sample.tid, sample.cpu, stacks[sample.callstack_iid]))
    assert samples == [(10, 7, 8, 3, "main;a;b"), (40, 7, 8, 3, "main;a;b"), (50, 7, 8, 3, "main;b")]
    assert sorted(stacks.values()) == ["main;a;b", "main;b"]
    assert sorted(frames.values()) == ["a", "b", "main"]

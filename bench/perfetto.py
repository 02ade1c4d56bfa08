"""The cost of writing launches to a timeline, compared with the protobuf library making the same packets one by one."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from bench.measure import Result, median_of
from scope_bpf.catalogue.described import described_stream
from scope_bpf.probes import probe_named
from scope_cli.trace.perfetto import PerfettoSink

ROWS, BATCH = 30_000, 3_000
ROUNDS = 3
Event = tuple[int, int, int, int, list[tuple[int, str, Any]]]  # time, type, track, name, arguments


def _batches() -> tuple[Any, list[pa.RecordBatch]]:
    """Launches of a few kernels by two threads, with all columns of a launch."""
    probe = probe_named("cuda")
    stream = next(stream for stream in probe.streams if stream.name == "cuda_launch")
    random = np.random.default_rng(1)
    kernels = [f"void kernel_{number}<float>(float*, int)" for number in range(17)]
    rows = []
    for number, draw in enumerate(random.integers(0, 1 << 7, ROWS).tolist()):
        row: dict[str, Any] = {field.name: draw for field in probe.schema(stream) if pa.types.is_integer(field.type)}
        row |= {field.name: "some text" for field in probe.schema(stream) if pa.types.is_dictionary(field.type)}
        row |= {"ktime_ns": 10**13 + number * 3000, "duration_ns": 1000 + draw, "pid": 7, "start_ns": 1}
        rows.append(row | {"tid": 7 + draw % 2, "kernel": kernels[draw % 17], "stream": 0, "device": 0, "nested": 0})
    table = pa.Table.from_pylist(rows, probe.schema(stream))
    return described_stream(probe, stream), table.to_batches(BATCH)


def _written(stream: Any, batches: list[pa.RecordBatch]) -> tuple[float, bytes]:
    with tempfile.NamedTemporaryFile() as file:
        sink = PerfettoSink(Path(file.name), dict)
        began = time.perf_counter()
        for batch in batches:
            sink.write(stream, batch)
        sink.close()
        return (time.perf_counter() - began) / ROWS * 1e6, Path(file.name).read_bytes()


def _one_by_one(events: list[Event]) -> float:
    began = time.perf_counter()
    for first in range(0, len(events), BATCH):
        trace = proto.Trace()
        for timestamp, kind, track, name, arguments in events[first : first + BATCH]:
            packet = trace.packet.add(timestamp=timestamp, trusted_packet_sequence_id=1, sequence_flags=2)
            event = packet.track_event
            event.type, event.track_uuid = kind, track
            if name:
                event.name_iid = name
            for number, field, value in arguments:
                argument = event.debug_annotations.add(name_iid=number)
                setattr(argument, field, value)
        trace.SerializeToString()
    return (time.perf_counter() - began) / ROWS * 1e6


def run() -> list[Result]:
    """Microseconds per launch. Each launch has a slice on its thread's track and one on its stream's."""
    stream, batches = _batches()
    _, written = _written(stream, batches)
    packets = [packet for packet in proto.Trace.FromString(written).packet if packet.HasField("track_event")]
    events = [
        (
            packet.timestamp,
            packet.track_event.type,
            packet.track_event.track_uuid,
            packet.track_event.name_iid,
            [
                (one.name_iid, one.WhichOneof("value"), getattr(one, one.WhichOneof("value")))
                for one in packet.track_event.debug_annotations
            ],
        )
        for packet in packets
    ]
    contenders: dict[str, Callable[[], float]] = {
        "by the column": lambda: _written(stream, batches)[0],
        "one by one": lambda: _one_by_one(events),
    }
    found = median_of(ROUNDS, contenders)
    named = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    ratio = f"{found['by the column'] / found['one by one']:.2f}×"
    return [Result("Perfetto: µs to write a launch's packets", named), Result("... by the column / one by one", ratio)]

"""A trace of several machines."""

import pyarrow as pa
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from tests.unit.views.streams import stream

from scope_catalogue.shown import Shown, Slices, Timeline
from scope_views.perfetto.machines import PerfettoOfMachines
from scope_views.times import TIME

COLUMNS = ("ktime_ns", "start_ns", "pid", "tid", "comm", "path", "duration_ns")
STREAM = stream(COLUMNS, shown=Shown(timeline=Timeline(slices=(Slices(text="call"),))))


def test_a_machine_has_the_texts_of_its_rows() -> None:
    """Rows of many machines are read together, and so are their texts: of each machine, its own ones are described."""
    rows = [("a", "one"), ("b", "two"), ("a", None), ("a", "one"), ("b", "three"), ("c", None)]
    ids, paths = zip(*rows, strict=True)
    numbers = {
        name: pa.array(range(1, 1 + len(rows)), pa.int64()) for name in ("ktime_ns", "duration_ns", "pid", "tid")
    }
    named = {"machine_id": ids, "hostname": ids, "comm": ["program"] * len(rows), "path": paths}
    batch = pa.RecordBatch.from_pydict(
        {
            "time": pa.array(range(1, 1 + len(rows))).cast(TIME.type),
            "start_ns": pa.array([0] * len(rows), pa.int64()),
            **numbers,
            **{name: pa.array(values).dictionary_encode() for name, values in named.items()},
        }
    )
    described: dict[int, list[str]] = {}
    for packet in proto.Trace.FromString(PerfettoOfMachines(0).rows(STREAM, batch)).packet:
        texts = [one.str.decode() for one in packet.interned_data.debug_annotation_string_values if one.str]
        described.setdefault(packet.machine_id, []).extend(texts)
    assert {machine: sorted(texts) for machine, texts in described.items()} == {0: ["one"], 1: ["three", "two"], 2: []}

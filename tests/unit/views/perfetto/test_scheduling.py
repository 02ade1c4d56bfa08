"""Switches as Perfetto's own scheduling."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from tests.scheduling import Scheduling, scheduling
from tests.unit.views.streams import stream

from scope_catalogue.shown import Shown, Switches, Timeline
from scope_views.perfetto.trace import PerfettoTrace

SWITCHES = Switches("state", "next", "on_cpu_ns", "run_queue_ns", "waker_tid", "waker_pid", "waker_comm")
COLUMNS = ("ktime_ns", "start_ns", "pid", "tid", "cpu", "comm", *vars(SWITCHES).values())
STREAM = stream(COLUMNS, shown=Shown(timeline=Timeline(switches=SWITCHES)))
NUMBERS = {name: pa.int64() for name in COLUMNS if not name.endswith("comm")}
SCHEMA = pa.schema([(name, NUMBERS.get(name, pa.string())) for name in COLUMNS])


def _row(time: int, cpu: int, tid: int, lasted: int | None, then: int, **more: Any) -> dict[str, Any]:
    """A thread leaves a CPU that it had had for so long to another thread; it sleeps if `more` says nothing else."""
    times = {"ktime_ns": time, "cpu": cpu, "on_cpu_ns": lasted, "start_ns": 1}
    return {**times, "pid": tid, "tid": tid, "comm": f"t{tid}", "next": then, "state": 1, **more}


def _trace(*batches: Iterable[dict[str, Any]]) -> "list[proto.TracePacket]":
    trace = PerfettoTrace()
    pieces = [trace.begin(1, 1), *(trace.rows(STREAM, pa.RecordBatch.from_pylist([*rows], SCHEMA)) for rows in batches)]
    return list(proto.Trace.FromString(b"".join([*pieces, trace.end()])).packet)


def _read(*batches: Iterable[dict[str, Any]]) -> Scheduling:
    return scheduling(_trace(*batches))


ROWS = [
    _row(100, 0, 7, 40, 8),  # 7 hands its CPU to 8, which is watched
    _row(130, 0, 8, 30, 99),  # 8 hands it to 99, which is not
    _row(180, 0, 98, None, 7, state=0),  # that has handed it to 98; nobody saw when
    _row(200, 0, 7, 20, 0, state=0x80),
    _row(150, 1, 9, 10, 0, state=0),
]
SLICES = [(0, 7, 60, 40, 1), (0, 8, 100, 30, 1), (0, 7, 180, 20, 0x10), (1, 9, 140, 10, 0)]


@pytest.mark.parametrize("cuts", [(), (1,), (2, 3), (1, 2, 3, 4)])
def test_rows_are_times_on_a_cpu(cuts: tuple[int, ...]) -> None:
    """Each known time on a CPU is one, however rows are cut into batches; what is not known belongs to no thread."""
    parts = [part.tolist() for part in np.split(np.array(ROWS), cuts)]
    assert sorted(_read(*parts).slices) == sorted(SLICES)


def test_a_lost_row_takes_no_time_from_others() -> None:
    """The thread whose row is missing is not drawn; those before and after it are as they were."""
    for lost in range(len(ROWS)):
        left = [row for place, row in enumerate(ROWS) if place != lost]
        assert {*_read(left).slices} <= {*SLICES}
        assert len(_read(left).slices) == sum(row["on_cpu_ns"] is not None for row in left)


@pytest.mark.parametrize(("state", "told"), [(0, 0), (1, 1), (2, 2), (0x402, 0x80), (0x80, 0x10), (0x2001, 1)])
def test_states_are_those_of_ftrace(state: int, told: int) -> None:
    """The kernel's bits for idle and dead differ from those that sched_switch tells."""
    assert [slices[-1] for slices in _read([_row(100, 0, 7, 40, 0, state=state)]).slices] == [told]


def test_wakers_are_named() -> None:
    """A wakeup is at the begin of the wait for the CPU; a waker that is not watched has its name all the same."""
    woken = {"run_queue_ns": 5, "waker_tid": 21, "waker_pid": 20, "waker_comm": "waker"}
    packets = _trace([_row(100, 0, 7, 40, 0, **woken)], [_row(200, 0, 7, 40, 0, **woken)], [_row(300, 0, 7, 40, 0)])
    assert scheduling(packets).wakeups == [(55, 7, 21), (155, 7, 21)]
    threads = [thread for packet in packets for thread in packet.process_tree.threads]
    assert [(thread.tid, thread.tgid, thread.name) for thread in threads] == [(21, 20, "waker")]
    described = [packet.track_descriptor.thread for packet in packets if packet.track_descriptor.HasField("thread")]
    assert [(thread.tid, thread.thread_name) for thread in described] == [(7, "t7")]

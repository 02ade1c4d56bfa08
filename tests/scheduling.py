"""Reads the scheduling of a trace for Perfetto by the rules of its importer."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Scheduling:
    """What the importer makes of ftrace events; a switch from another thread than the CPU's is an error.

    Attributes:
        slices: (cpu, tid, begin, duration, state at the end) of all times on a CPU but those of the idle thread.
        wakeups: (time, tid, the waker's tid).
    """

    slices: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    wakeups: list[tuple[int, int, int]] = field(default_factory=list)


def scheduling(packets: Iterable[Any]) -> Scheduling:
    """The scheduling that these packets of a whole trace tell."""
    events = [
        (event.timestamp, bundle.cpu, event)
        for packet in packets
        if packet.HasField("ftrace_events")
        for bundle in (packet.ftrace_events,)
        for event in bundle.event
    ]
    found, running = Scheduling(), dict[int, tuple[int, int]]()
    for time, cpu, event in sorted(events, key=lambda one: one[0]):  # equal times keep their order
        if event.HasField("sched_waking"):
            found.wakeups.append((time, event.sched_waking.pid, event.pid))
            continue
        switch = event.sched_switch
        tid, begin = running.get(cpu, (switch.prev_pid, time))
        assert (switch.prev_pid, event.pid) == (tid, tid), f"on CPU {cpu} ran {tid}"
        assert switch.next_pid != tid
        if tid:
            found.slices.append((cpu, tid, begin, time - begin, switch.prev_state))
        running[cpu] = (switch.next_pid, time)
    assert not any(tid for tid, _ in running.values()), "the end of the trace takes the CPU from every thread"
    return found

"""Switches of threads as the events of ftrace that Perfetto makes its CPU tracks, `sched` and `thread_state` of.

A row of a stream of switches says that a thread leaves a CPU, how long it had it, and which thread gets it. Rows are of
watched threads, which leave or get the CPU, so not all of a CPU's time is known. What is not known is drawn as idle: as
time of thread 0.
"""

import numpy as np
import pyarrow as pa

from scope_catalogue.shown import Switches
from scope_views.perfetto.messages import Column, Messages
from scope_views.perfetto.tracks import SEQUENCE

_IDLE = 0  # the thread of a CPU that no other thread has
_DEAD, _IDLE_SLEEP, _REPORTED = 0x80, 0x402, 0x7F  # include/linux/sched.h: TASK_DEAD, TASK_IDLE; what ps shows
_FTRACE_DEAD, _FTRACE_IDLE = 0x10, 0x80  # the same as include/trace/events/sched.h tells them

_COLUMNS = ("cpu", "time_ns", "thread", "lasted_ns", "state", "next")


class Scheduling:
    """Turns batches of switches into ftrace events. The rows of a CPU come in order of time.

    The latest row of each CPU waits for the next one, which says whether the thread that got the CPU is a watched one.
    """

    def __init__(self) -> None:
        self._latest = {name: np.zeros(0, np.int64) for name in _COLUMNS}  # a row per CPU, in order of the CPUs

    def packets(self, switches: Switches, batch: pa.RecordBatch) -> list[Messages]:
        """TracePackets of the switches and wakeups that are known with these rows."""
        names = ("cpu", "ktime_ns", "tid", switches.lasted, switches.state, switches.next)
        rows = {
            column: np.concatenate([self._latest[column], _whole(batch, name)])
            for column, name in zip(_COLUMNS, names, strict=True)
        }
        is_new = np.arange(len(rows["cpu"])) >= len(self._latest["cpu"])
        order = np.lexsort((rows["time_ns"], rows["cpu"]))
        rows, is_new = {name: values[order] for name, values in rows.items()}, is_new[order]
        begins_ns = rows["time_ns"] - rows["lasted_ns"]
        is_known = rows["lasted_ns"] > 0
        is_last = np.append(rows["cpu"][1:] != rows["cpu"][:-1], True)
        goes_on = ~is_last[:-1] & is_known[1:] & (rows["next"][:-1] == rows["thread"][1:])
        goes_on &= rows["time_ns"][:-1] == begins_ns[1:]
        begins = is_new & is_known & ~np.append(False, goes_on)
        packets = _begins({name: values[begins] for name, values in rows.items()}, begins_ns[begins])
        ends = ~is_last
        self._latest = {name: values[is_last] for name, values in rows.items()}
        ended = {name: values[ends] for name, values in rows.items()}
        return [packets, _ends(ended, np.append(goes_on, False)[ends]), _wakeups(switches, batch)]

    def rest(self) -> list[Messages]:
        """TracePackets of the latest rows: what is after them is not known."""
        latest, self._latest = self._latest, Scheduling()._latest
        return [_ends(latest, np.zeros(len(latest["cpu"]), bool))]


def _begins(rows: dict[str, Column], begins_ns: Column) -> Messages:
    """The threads of rows get their CPU from the idle thread."""
    idle = np.full(len(begins_ns), _IDLE, np.int64)
    return _switches(rows["cpu"], begins_ns, idle, np.zeros_like(idle), rows["thread"])


def _ends(rows: dict[str, Column], goes_on: Column) -> Messages:
    """The threads of rows leave their CPU, to the next thread where that one's row follows, else to the idle one."""
    is_known = rows["lasted_ns"] > 0
    threads, states = np.where(is_known, rows["thread"], _IDLE), np.where(is_known, _ftrace(rows["state"]), 0)
    nexts = np.where(goes_on, rows["next"], _IDLE)
    here = (threads != _IDLE) | (nexts != _IDLE)
    return _switches(rows["cpu"][here], rows["time_ns"][here], threads[here], states[here], nexts[here])


def _switches(cpus: Column, times_ns: Column, prevs: Column, states: Column, nexts: Column) -> Messages:
    event = Messages(len(cpus)).varint(2, prevs).varint(4, states).varint(6, nexts)
    return _bundles(cpus, Messages(len(cpus)).varint(1, times_ns).varint(2, prevs).message(4, event))


def _wakeups(switches: Switches, batch: pa.RecordBatch) -> Messages:
    """The wakeups after which threads got the CPU that they leave in these rows."""
    names = (switches.lasted, switches.waited, switches.waker)
    here = np.flatnonzero(np.all([batch[name].is_valid().to_numpy(zero_copy_only=False) for name in names], axis=0))
    woken = batch.take(pa.array(here))
    before_ns = _whole(woken, switches.lasted) + _whole(woken, switches.waited)
    event = Messages(len(here)).varint(2, _whole(woken, "tid"))
    events = Messages(len(here)).varint(1, _whole(woken, "ktime_ns") - before_ns)
    return _bundles(_whole(woken, "cpu"), events.varint(2, _whole(woken, switches.waker)).message(20, event))


def _bundles(cpus: Column, events: Messages) -> Messages:
    bundles = Messages(events.count).varint(1, cpus).message(2, events)
    return Messages(events.count).same(10, SEQUENCE).message(1, bundles)


def _ftrace(states: Column) -> Column:
    """What sched_switch of ftrace tells in place of the kernel's TASK_* bits."""
    told = np.where(states & _IDLE_SLEEP == _IDLE_SLEEP, _FTRACE_IDLE, states & _REPORTED)
    return np.where(states & _DEAD != 0, _FTRACE_DEAD, told)


def _whole(batch: pa.RecordBatch, name: str) -> Column:
    values: Column = batch[name].cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return values

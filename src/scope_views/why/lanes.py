"""The threads of a process over time: in each step, how long each was on a CPU, waited for one, or was blocked.

Times of rows and steps are ns since 1970. What no row tells of a step is in none of its three times.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

Whole = np.ndarray[tuple[int], np.dtype[np.int64]]
_Times = Callable[[pa.Table], Mapping[str, Whole]]


@dataclass(frozen=True)
class Lane:
    """A thread. The lists have a time in ns per step.

    Attributes:
        name: None: unknown.
    """

    tid: int
    name: str | None
    on_cpu_ns: Sequence[int]
    run_queue_ns: Sequence[int]
    blocked_ns: Sequence[int]

    @property
    def runnable_ns(self) -> int:
        """How long it was on a CPU or waited for one."""
        return sum(self.on_cpu_ns) + sum(self.run_queue_ns)

    @property
    def total_ns(self) -> int:
        """All that is known."""
        return self.runnable_ns + sum(self.blocked_ns)


def of_switches(rows: pa.Table, edges: Sequence[int]) -> list[Lane]:
    """Exact lanes, those that were runnable longest first.

    Args:
        rows: `tid`, `name`, `at_ns`, when the thread left a CPU; and, before that, `on_cpu_ns`, before that
            `run_queue_ns`, and before that `off_cpu_ns`. The last three may be absent: unknown.
        edges: where steps begin and end.
    """

    def times(its: pa.Table) -> Mapping[str, Whole]:
        left, on_cpu, run_queue, blocked = (
            _whole(its[name]) for name in ("at_ns", "on_cpu_ns", "run_queue_ns", "off_cpu_ns")
        )
        got = left - on_cpu
        woken = got - run_queue
        return {
            "on_cpu_ns": _spread(got, left, on_cpu, edges),
            "run_queue_ns": _spread(woken, got, run_queue, edges),
            "blocked_ns": _spread(woken - blocked, woken, blocked, edges),
        }

    return _lanes(rows, times)


def of_summaries(rows: pa.Table, edges: Sequence[int]) -> list[Lane]:
    """Lanes from times per interval, each spread evenly over its interval; those that were runnable longest first.

    Args:
        rows: `tid`, `name`, `at_ns`, when an interval of `interval_ns` ended; `on_cpu_ns`, `run_queue_ns` and
            `blocked_ns`. An interval may have several rows, whose times add up.
        edges: where steps begin and end.
    """

    def times(its: pa.Table) -> Mapping[str, Whole]:
        ends, first, which = np.unique(_whole(its["at_ns"]), return_index=True, return_inverse=True)
        starts = ends - _whole(its["interval_ns"])[first]
        return {
            name: _spread(starts, ends, np.bincount(which, _whole(its[name])).astype(np.int64), edges)
            for name in ("on_cpu_ns", "run_queue_ns", "blocked_ns")
        }

    return _lanes(rows, times)


def _lanes(rows: pa.Table, times: _Times) -> list[Lane]:
    rows = rows.sort_by([("tid", "ascending"), ("at_ns", "ascending")])
    tids = _whole(rows["tid"])
    starts = np.flatnonzero(np.diff(tids, prepend=-1))
    lanes = []
    for start, end in zip(starts, [*starts[1:], len(tids)], strict=False):
        its = rows.slice(start, end - start)
        found = {name: values.tolist() for name, values in times(its).items()}
        lanes.append(Lane(int(tids[start]), its["name"][-1].as_py(), **found))
    known = [lane for lane in lanes if lane.total_ns]
    return sorted(known, key=lambda lane: (-lane.runnable_ns, -lane.total_ns, lane.tid))


def _whole(column: pa.ChunkedArray) -> Whole:
    values: Whole = column.fill_null(0).to_numpy().astype(np.int64)
    return values


def _spread(starts: Whole, ends: Whole, amounts: Whole, edges: Sequence[int]) -> Whole:
    """How much of the amounts, each spread evenly from its start to its end, lies in each step."""
    lasting = ends > starts
    starts, ends, amounts = starts[lasting], ends[lasting], amounts[lasting]
    if not len(starts):
        return np.zeros(len(edges) - 1, np.int64)
    after = np.cumsum(amounts)
    origin = edges[0]  # so that all numbers are small enough to be exact as floats
    knots = np.maximum.accumulate(np.column_stack((starts, ends)).ravel() - origin)
    sums = np.column_stack((after - amounts, after)).ravel()
    at_edges: Whole = np.rint(np.interp(np.asarray(edges) - origin, knots, sums)).astype(np.int64)
    return np.diff(at_edges)

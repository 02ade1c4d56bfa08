"""Which processes used and waited for the CPUs of a machine, as a sentence that a person would say."""

from collections.abc import Sequence
from dataclasses import dataclass

from scope_views.printable import printable
from scope_views.quantities import duration
from scope_views.why.shares import shares

_MOST = 3  # processes that are named


@dataclass(frozen=True)
class Process:
    """A process and what its threads did, in ns.

    Attributes:
        name: None: unknown.
    """

    pid: int
    name: str | None
    on_cpu_ns: int
    run_queue_ns: int


def sentence(processes: Sequence[Process], *, filtered: bool = False) -> str:
    """Who was on the CPUs, and who waited for one: time blocked says nothing here, as idle threads are blocked, too.

    Args:
        processes: all that were recorded, or that meet a filter.
    """
    on_cpu_ns = sum(each.on_cpu_ns for each in processes)
    run_queue_ns = sum(each.run_queue_ns for each in processes)
    if on_cpu_ns + run_queue_ns <= 0:
        some = "which processes used its CPUs" if not filtered else "processes that meet the filter"
        return f"Nothing was recorded of {some}."
    count = "1 process" if len(processes) == 1 else f"{len(processes):,} processes"
    used = shares([(_named(each), each.on_cpu_ns) for each in processes], max(1, on_cpu_ns), _MOST)
    said = f"{count} used {duration(on_cpu_ns)} of CPU time: {used or 'none of them much'}."
    if run_queue_ns <= 0:
        return said
    waited = shares([(_named(each), each.run_queue_ns) for each in processes], run_queue_ns, _MOST)
    return f"{said} They waited {duration(run_queue_ns)} for a CPU: {waited or 'none of them much'}."


def _named(process: Process) -> str:
    return f"{printable(process.name)} ({process.pid})" if process.name else f"process {process.pid}"

"""Completes the event counts of runs whose agent was killed, from the spool and the kernel's counters."""

import logging
import time
from functools import partial

from scope_agentd.pins import LeftRun, Pins
from scope_agentd.pipeline.books import AGENT, RING
from scope_agentd.pipeline.spool import OpenRun, Spool
from scope_bpf.capture.account import Account
from scope_bpf.capture.clock import boot_ns, boot_to_utc_ns
from scope_proto.scope.v1 import record_pb2, task_pb2

log = logging.getLogger(__name__)


def close_left_runs(spool: Spool, pins: Pins) -> None:
    """Spools the end of every run that a killed agent left open. Call this before any run starts.

    Events that the kernel counted but no batch contains are lost: they were in a ring, or between ring and spool. The
    kernel's counts stay pinned until the run's end is on disk.
    """
    left = {run.run_id: run for run in pins.left()}
    open_runs, spooled = dict(spool.open_runs), spool.runs()
    for run_id, run in left.items():
        if not run.recorded and run_id not in spooled | open_runs.keys():  # killed before the start was spooled
            spool.put(run.start)
            open_runs[run_id] = OpenRun(run_id, run.start.task_id, {}, None)
    for run_id, open_run in open_runs.items():
        spool.put(_end_of(open_run, left.get(run_id)))
        log.warning("completed the counts of a run whose agent was killed", extra={"run": run_id.hex()})
    for run_id in left:
        spool.once_written(run_id, partial(pins.release, run_id))


def _end_of(run: OpenRun, left: LeftRun | None) -> record_pb2.Record:
    books = left.books if left else {}
    told = run.accounts.streams if run.accounts else {}
    accounts = record_pb2.Accounts(ktime_ns=boot_ns(), boot_to_utc_ns=boot_to_utc_ns())
    for stream in sorted({*books, *told, *run.streams}):
        sequenced = run.streams[stream].events if stream in run.streams else 0
        account = accounts.streams[stream]
        account.CopyFrom(_final(told.get(stream, record_pb2.Account()), books.get(stream, Account()), sequenced))
    end = record_pb2.RunEnd(
        end=task_pb2.TASK_END_KILLED,
        error="its agent was killed",
        accounts=accounts,
        last_sequences={stream: position.sequence for stream, position in run.streams.items()},
    )
    end.ended.FromNanoseconds(_last_alive(run, left) or time.time_ns())
    return record_pb2.Record(run_id=run.run_id, task_id=run.task_id, end=end)


def _last_alive(run: OpenRun, left: LeftRun | None) -> int:
    """When the run was last known to record, since 1970 UTC; 0: unknown."""
    told = run.accounts.ktime_ns + run.accounts.boot_to_utc_ns if run.accounts and run.accounts.boot_to_utc_ns else 0
    started = left.start.start.started.ToNanoseconds() if left else 0
    return max(told, left.alive_ns if left else 0, started)


def _final(told: record_pb2.Account, kernel: Account, sequenced: int) -> record_pb2.Account:
    """The last account of a stream: the agent's last report, and the kernel's counts until the end."""
    lost: dict[tuple[str, str], int] = {(loss.place, loss.reason): loss.count for loss in told.lost}
    for reason, count in kernel.lost.items():
        lost[RING, reason] = max(count, lost.get((RING, reason), 0))
    # For a summary, the kernel counts only losses; the agent makes and counts the rows.
    known = sequenced + told.left_out + sum(lost.values())
    emitted = max(kernel.emitted, told.emitted, known)
    if emitted > known:
        lost[AGENT, "killed"] = emitted - known
    incomplete = max(kernel.incomplete, told.incomplete)
    account = record_pb2.Account(emitted=emitted, incomplete=incomplete, left_out=told.left_out)
    for (place, reason), count in sorted(lost.items()):
        account.lost.add(place=place, reason=reason, count=count)
    return account

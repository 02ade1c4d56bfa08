"""The last line of a trace: what was recorded, what was lost, and how the command ended."""

import signal
from collections.abc import Mapping

from scope_bpf.capture.account import Account

_REMEDIES = {
    "slow_reader": "the output was slower than the events: choose fewer streams, or one task",
    "ring_full": "enlarge the ring with -o ring_bytes=N, or use --mode summary",
    "map_full": "a table in the kernel was full: trace fewer processes (`scope probes NAME` has the probe's limits)",
    "no_state": "the kernel had no memory to follow some threads, sockets or flows",
    "file_unopened": "too few descriptors or too little memory to attach to some files: raise the limit (ulimit -n)",
    "file_refused": "the kernel refused to attach to some files: the log names them",
}


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal has no name


def summary_line(
    rows: int, shown: int, seconds: float, accounts: Mapping[str, Account], status: int | None = None
) -> str:
    """Rows, time, losses with what helps against them, and how the command ended.

    Args:
        shown: how many rows the filter let through.
        status: of the command, negative for a signal; None: there is none.
    """
    lost: dict[str, int] = {}
    for account in accounts.values():
        for reason, count in account.lost.items():
            lost[reason] = lost.get(reason, 0) + count
    said = [f"{rows:,} {'row' if rows == 1 else 'rows'} in {seconds:.1f} s"]
    if shown != rows:
        said.append(f"{shown:,} meet the filter")
    said.append(", ".join(f"{count:,} lost ({reason})" for reason, count in lost.items()) or "none lost")
    remarks = [", ".join(said), *(remedy for reason, remedy in _REMEDIES.items() if reason in lost)]
    if incomplete := sum(account.incomplete for account in accounts.values()):
        remarks.append(
            f"{incomplete:,} rows are incomplete: no known process, no room for a stack or a name, unreadable memory, "
            "or an unseen switch"
        )
    if status:
        killed, ended = f"was killed by {_signal(-status)}", f"ended with status {status}"
        remarks.append(f"the command {killed if status < 0 else ended}")
    return "; ".join(remarks)

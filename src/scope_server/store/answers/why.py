"""Where the time of a process, or of a machine's processes, went: what is asked of the streams that tell of it."""

from scope_server.store.answers.asked import Asked
from scope_server.store.totals.question import MOST_GROUPS

_WALL = "sum(total_ns), sum(on_cpu_ns), sum(run_queue_ns), sum(blocked_ns)"


WALL = Asked("why_summary", _WALL)
THREADS = Asked("why_summary", _WALL, ("tid", "thread_comm"), top=MOST_GROUPS)
CALLS = Asked(
    "why_summary",
    "sum(blocked_ns), sum(count)",
    ("blocked_in", "file_kind", "path", "disk", "remote", "remote_port"),
    "blocked_ns > 0",
    top=5000,  # a server has a peer for each client
)
FAULTS = Asked("page_fault_summary", "sum(total_ns), sum(count)", ("kind",))
SYSCALLS = Asked("syscall_summary", "sum(total_ns), sum(count), sum(errors)", ("name",))
FILES = Asked("file_summary", "sum(read_ns), sum(write_ns), sum(read_bytes), sum(write_bytes)", ("path",))
# A wait for a lock ends when its holder gives the lock up; by `waker_comm`, which every kind of lock has.
LOCKS = Asked("lock_wait", "sum(duration_ns), count", ("address", "waker_comm", "waker_tid"), "kind = 'lock'")
DISKS = Asked("block_summary", "sum(queue_ns), sum(device_ns), sum(bytes), sum(count)", ("disk", "operation"))
PEERS = Asked(
    "connection_summary",
    "sum(sent_bytes), sum(received_bytes), sum(begun), sum(failed), sum(retransmits), sum(rtt_ns), sum(rtt_count)",
    ("remote", "port", "direction"),
)
# Without rows of `why`: of all threads, but a sleep is not told apart from a wait in a call.
SCHEDULED = Asked(
    "sched_summary", "sum(on_cpu_ns), sum(run_queue_ns), sum(off_cpu_ns)", ("tid", "thread_comm"), top=100
)
MOST_PROCESSES = 5000  # of a machine; of more, those that were on a CPU longest
_PROCESS = ("pid", "start_ns", "comm")
PROCESSES = Asked(
    "why_process_summary",
    "sum(on_cpu_ns), sum(run_queue_ns), sum(blocked_ns), sum(total_ns)",
    _PROCESS,
    top=MOST_PROCESSES,
)
# Without rows of `why`.
SCHEDULED_PROCESSES = Asked(
    "sched_process_summary", "sum(on_cpu_ns), sum(run_queue_ns), sum(off_cpu_ns)", _PROCESS, top=MOST_PROCESSES
)
ASKED = (WALL, THREADS, CALLS, FAULTS, SYSCALLS, FILES, LOCKS, DISKS, PEERS)  # of a process
STREAMS = frozenset(one.stream for one in (*ASKED, SCHEDULED, PROCESSES, SCHEDULED_PROCESSES))

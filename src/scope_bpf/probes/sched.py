"""The scheduler: who has a CPU, who waits for one, and for how long."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Column, Live, Mode, Rollup, Stream

_TIMES = {
    "on_cpu_count": Column("times it left a CPU"),
    "on_cpu_ns": Column("time on a CPU, counted when it leaves one", "ns"),
    "run_queue_count": Column("times it got a CPU after waiting"),
    "run_queue_ns": Column("time it waited for a CPU", "ns"),
    "off_cpu_count": Column("times it was woken"),
    "off_cpu_ns": Column("time it slept, counted when it is woken", "ns"),
    "on_cpu": Column("times on a CPU by powers of two", "ns"),
    "run_queue": Column("waits for a CPU by powers of two", "ns"),
    "off_cpu": Column("sleeps by powers of two", "ns"),
}
_STATE = "0 if it could have gone on; else TASK_* bits: 1 sleeping, 2 uninterruptible, 4 stopped, 8 traced, 128 dead"

PROBE = Probe(
    name="sched",
    meaning="switches between threads, and what woken threads wait for a CPU",
    streams=(
        Stream(
            "switch",
            "a CPU goes from one thread, which the row describes, to another",
            columns={
                "on_cpu_ns": Column("how long it had the CPU; absent if it came on before the task began", "ns"),
                "prev_state": Column(f"why it left: {_STATE}"),
                "preempted": Column("1 if it was made to leave"),
                "next_pid": Column("process of the thread that comes; 0 for the idle one"),
                "next_tid": Column("thread that comes"),
                "next_comm": Column("its name"),
                "next_start_ns": Column("when its process started", "ns"),
            },
            null_unless={"on_cpu_ns": "on_cpu_ns"},
            live=Live(by=("comm", "pid"), totals=("preempted", "on_cpu_ns")),
            rollup=Rollup(measured="on_cpu_ns"),
        ),
        Stream(
            "wakeup",
            "a woken thread gets a CPU; its time is that of the waking",
            columns={
                "run_queue_ns": Column("from being woken to running", "ns"),
                "waker_pid": Column("process that woke it, or that an interrupt which did had interrupted"),
                "waker_tid": Column("thread that did"),
                "waker_comm": Column("its name"),
            },
            live=Live(by=("comm", "pid"), totals=("run_queue_ns",)),
            rollup=Rollup(measured="run_queue_ns"),
        ),
        Stream(
            "sched_summary",
            "time by thread: on a CPU, waiting for one, asleep",
            columns={"tid": Column("thread"), "thread_comm": Column("its name")} | _TIMES,
            mode=Mode.SUMMARY,
            live=Live(by=("comm", "pid", "thread_comm", "tid"), totals=("off_cpu_ns", "run_queue_ns", "on_cpu_ns")),
            rollup=Rollup(by=("comm", "thread_comm"), count="on_cpu_count", measured="on_cpu_ns", histogram="on_cpu"),
        ),
        Stream(
            "sched_process_summary",
            "the same by process: its threads added up",
            columns=_TIMES,
            mode=Mode.SUMMARY,
            live=Live(by=("comm", "pid"), totals=("off_cpu_ns", "run_queue_ns", "on_cpu_ns")),
            adds_up="sched_summary",
            rollup=Rollup(count="on_cpu_count", measured="on_cpu_ns", histogram="on_cpu"),
        ),
    ),
    ring_bytes=8 << 20,
    alternatives=(
        Alternative(
            "tp_btf: sched_switch with the previous state, sched_wakeup, sched_wakeup_new",
            ("switch_with_state", "wakeup_done", "wakeup_new_done"),
        ),
        Alternative(
            "tp_btf: sched_switch, sched_wakeup, sched_wakeup_new",
            ("switch_reading_state", "wakeup_done", "wakeup_new_done"),
        ),
    ),
)

"""The scheduler: who has a CPU, who waits for one, and for how long."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.shown import Live, Rollup, Slices, Timeline
from scope_bpf.catalogue.stream import Column, Mode, Stream

_TIMES = {
    "on_cpu_count": Column("times it left a CPU"),
    "on_cpu_ns": Column("time on a CPU, counted when it leaves one", "ns"),
    "run_queue_count": Column("times it got a CPU after waiting, woken or made to leave one"),
    "run_queue_ns": Column("time it waited for a CPU, counted when it gets one", "ns"),
    "off_cpu_count": Column("times it was woken"),
    "off_cpu_ns": Column("time it slept, counted when it is woken", "ns"),
    "on_cpu": Column("times on a CPU by powers of two", "ns"),
    "run_queue": Column("waits for a CPU by powers of two", "ns"),
    "off_cpu": Column("sleeps by powers of two", "ns"),
}
_SUMS = ("off_cpu_ns", "run_queue_ns", "on_cpu_ns")
_STATE = "0 if it could have gone on; else TASK_* bits: 1 sleeping, 2 uninterruptible, 4 stopped, 8 traced, 128 dead"
_WOKEN = "absent if no thread woke it: it had been made to leave a CPU before"

PROBE = Probe(
    name="sched",
    meaning="what threads wait for a CPU, how long they have it, why they leave it, and who woke them",
    streams=(
        Stream(
            "switch",
            "a thread, which the row describes, leaves a CPU to another",
            columns={
                "run_queue_ns": Column(
                    "how long it had waited for the CPU, woken or made to leave one; absent if not known", "ns"
                ),
                "on_cpu_ns": Column(
                    "how long it had the CPU; absent if it came on before the task began; absent or longer if the "
                    "kernel left out a switch, which it does now and then under load",
                    "ns",
                ),
                "prev_state": Column(f"why it left: {_STATE}"),
                "involuntary": Column("1 if prev_state is 0: its time was over, another came first, or it yielded"),
                "waker_pid": Column(f"process of the waker; of an interrupt, the interrupted process; {_WOKEN}"),
                "waker_tid": Column("thread of the waker"),
                "waker_comm": Column("name of the waker"),
                "next_pid": Column("process of the thread that comes; 0 for the idle one"),
                "next_tid": Column("thread that comes"),
                "next_comm": Column("its name"),
                "next_start_ns": Column("when its process started", "ns"),
            },
            hidden=("woken",),
            null_unless={
                "run_queue_ns": "run_queue_ns",
                "on_cpu_ns": "on_cpu_ns",
                **dict.fromkeys(("waker_pid", "waker_tid", "waker_comm"), "woken"),
            },
            live=Live(
                by=("comm", "pid"),
                totals=("involuntary", "on_cpu_ns", "run_queue_ns"),
                quantiles=("run_queue_ns",),
                only="on_cpu_ns",
            ),
            line=("tid", "cpu", "run_queue_ns", "on_cpu_ns", "prev_state", "next_tid", "next_comm", "waker_comm"),
            timeline=Timeline(
                slices=(
                    Slices(named=("comm",), lasting="on_cpu_ns", ending=True, on=("cpu",), of_machine=True),
                    Slices(text="on a CPU", lasting="on_cpu_ns", ending=True, below="CPU"),
                    Slices(
                        text="waits for a CPU",
                        lasting="run_queue_ns",
                        ending=True,
                        followed_by="on_cpu_ns",
                        below="CPU",
                    ),
                )
            ),
            rollup=Rollup(measured="run_queue_ns"),
        ),
        Stream(
            "sched_summary",
            "time by thread: on a CPU, waiting for one, asleep",
            columns={"tid": Column("thread"), "thread_comm": Column("its name")} | _TIMES,
            mode=Mode.SUMMARY,
            live=Live(by=("comm", "pid", "thread_comm", "tid"), totals=_SUMS, quantiles=("run_queue",)),
            rollup=Rollup(by=("comm", "thread_comm"), count="on_cpu_count", measured="on_cpu_ns", histogram="on_cpu"),
        ),
        Stream(
            "sched_process_summary",
            "the same by process: its threads added up",
            columns=_TIMES,
            mode=Mode.SUMMARY,
            live=Live(by=("comm", "pid"), totals=_SUMS, quantiles=("run_queue",)),
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

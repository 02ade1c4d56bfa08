"""The scheduler: how long threads run on a CPU, wait for a CPU, and sleep."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import HEADER, Stream, Summary
from scope_catalogue.guide import Example, Guide
from scope_catalogue.shown import Rollup, Shown, Switches, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Quantiles, Sum, Table

_TIMES = {
    "on_cpu_count": Column("times the thread left a CPU"),
    "on_cpu_ns": Column("time on a CPU, counted when the thread leaves the CPU", "ns"),
    "run_queue_count": Column("times the thread got a CPU after it was woken or preempted"),
    "run_queue_ns": Column("time waiting for a CPU, counted when the thread gets one", "ns"),
    "off_cpu_count": Column("times the thread was woken"),
    "off_cpu_ns": Column("time asleep, counted when the thread is woken", "ns"),
    "on_cpu": Column("histogram of times on a CPU, in powers of two", "ns"),
    "run_queue": Column("histogram of waits for a CPU, in powers of two", "ns"),
    "off_cpu": Column("histogram of sleeps, in powers of two", "ns"),
}
_SUMS = ("off_cpu_ns", "run_queue_ns", "on_cpu_ns")
_STATE = "0: runnable; else TASK_* bits: 1 sleeping, 2 uninterruptible, 4 stopped, 8 traced, 128 dead"
_WOKEN = "absent if the thread was not woken but had been preempted"

GUIDE = Guide(
    examples=(
        Example(
            "scope trace sched --mode summary --duration 1",
            "for each thread of the machine: time on a CPU, waiting for a CPU, and asleep",
        ),
        Example(
            "scope trace sched -- ls /",
            "each time that a thread left a CPU, and who woke it",
        ),
    ),
    notes=(
        "A row of `switch` comes when a thread leaves a CPU: how long it had waited for the CPU, who woke it, how "
        "long it ran, and whether it left of its own will.",
        "`--mode summary` adds up the same times per thread and per process, with a histogram of the waits.",
        "`scope trace why` shows in which call a thread was blocked; `sched` shows only that it slept.",
    ),
    limits=(
        "Its programs run at every context switch and wakeup of the machine, also for processes that are not watched.",
    ),
)

PROBE = Probe(
    name="sched",
    meaning="how long threads wait for a CPU and run on it, why they leave it, and which thread woke them",
    streams=(
        Stream(
            "switch",
            "one row per switch of a CPU to another thread; pid, comm and so on are the leaving thread's",
            columns={
                "run_queue_ns": Column(
                    "how long the thread had waited for the CPU since it was woken or preempted; absent if unknown",
                    "ns",
                ),
                "on_cpu_ns": Column(
                    "how long the thread was on the CPU; absent if it got the CPU before recording began; absent or "
                    "too long if the kernel skipped a switch event, which happens now and then under load",
                    "ns",
                ),
                "off_cpu_ns": Column(
                    "how long the thread had been asleep when it was woken; absent if unknown, or if it was preempted",
                    "ns",
                ),
                "prev_state": Column(f"why the thread left: {_STATE}"),
                "involuntary": Column(
                    "1 if prev_state is 0: the time slice was over, another thread preempted it, or it yielded"
                ),
                "waker_pid": Column(
                    f"pid of the waker; for a wakeup in an interrupt, the interrupted process; {_WOKEN}",
                    identity=True,
                ),
                "waker_tid": Column("tid of the waker", identity=True),
                "waker_comm": Column("name of the waker"),
                "next_pid": Column("pid of the next thread; 0: the idle thread", identity=True),
                "next_tid": Column("tid of the next thread", identity=True),
                "next_comm": Column("name of the next thread"),
                "next_start_ns": Column("when the next thread's process started", "ns", identity=True),
            },
            hidden=("woken",),
            null_unless={
                "run_queue_ns": "run_queue_ns",
                "on_cpu_ns": "on_cpu_ns",
                "off_cpu_ns": "off_cpu_ns",
                **dict.fromkeys(("waker_pid", "waker_tid", "waker_comm"), "woken"),
            },
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid"),
                        (Count(), Sum("involuntary"), Sum("on_cpu_ns"), Sum("run_queue_ns"), Quantiles("run_queue_ns")),
                        where="on_cpu_ns > 0",
                        title="time on a CPU and waiting for one, by process",
                    ),
                ),
                line=("tid", "cpu", "run_queue_ns", "on_cpu_ns", "prev_state", "next_tid", "next_comm", "waker_comm"),
                timeline=Timeline(
                    switches=Switches(
                        state="prev_state",
                        next="next_tid",
                        lasted="on_cpu_ns",
                        waited="run_queue_ns",
                        waker="waker_tid",
                        waker_process="waker_pid",
                        waker_name="waker_comm",
                    )
                ),
            ),
            rollup=Rollup(measured="run_queue_ns"),
        ),
        Stream(
            "sched_summary",
            "time per thread: on a CPU, waiting for a CPU, asleep",
            columns={"tid": HEADER["tid"], "thread_comm": Column("name of the thread")} | _TIMES,
            summary=Summary(),
            shown=Shown(
                tables=(Table(("comm", "pid", "thread_comm", "tid"), (*map(Sum, _SUMS), Quantiles("run_queue"))),)
            ),
            rollup=Rollup(by=("comm", "thread_comm"), count="on_cpu_count", measured="on_cpu_ns", histogram="on_cpu"),
        ),
        Stream(
            "sched_process_summary",
            "time per process, the sum of its threads: on a CPU, waiting for a CPU, asleep",
            columns=_TIMES,
            summary=Summary(adds_up="sched_summary"),
            shown=Shown(tables=(Table(("comm", "pid"), (*map(Sum, _SUMS), Quantiles("run_queue"))),)),
            rollup=Rollup(count="run_queue_count", measured="run_queue_ns", histogram="run_queue"),
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
    guide=GUIDE,
)

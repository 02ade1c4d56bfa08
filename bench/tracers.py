"""A syscall loop on one core under scope, bpftrace and strace on the other."""

import shutil
import sys

from bench.measure import Result, at_least, at_most, loop, ns_per_call, on_tracer_cpu, recorded
from bench.measure import median_of as median

CALLS = 5_000_000
SLOW_CALLS = 100_000
STRACE_CALLS = 10_000
ROUNDS = 3

SCOPE = [sys.executable, "-m", "scope_cli.main", "trace", "syscalls"]
COUNT = "tracepoint:raw_syscalls:sys_enter { @enter = count(); } tracepoint:raw_syscalls:sys_exit { @exit = count(); }"
HISTOGRAM = (
    "tracepoint:raw_syscalls:sys_enter { @began[tid] = nsecs; } "
    "tracepoint:raw_syscalls:sys_exit /@began[tid]/ { @ = hist(nsecs - @began[tid]); delete(@began[tid]); }"
)
PRINT = 'tracepoint:raw_syscalls:sys_enter /pid == cpid/ { printf("%d %d\\n", tid, args->id); }'


def run() -> list[Result]:
    """Ratios of the loop's speed under scope to its speed under each other tracer."""
    lost: list[int] = []

    def scope(*options: str) -> float:
        ran = on_tracer_cpu([*SCOPE, *options, "--", *loop(CALLS)])
        lost.append(recorded(ran.stderr)[1])
        return ns_per_call(ran.stdout)

    def bpftrace(program: str, calls: int) -> float:
        return ns_per_call(on_tracer_cpu(["bpftrace", "-e", program, "-c", " ".join(loop(calls))]).stdout)

    contenders = {
        "bare": lambda: ns_per_call(on_tracer_cpu(loop(CALLS)).stdout),
        "events": scope,
        "summary": lambda: scope("--mode", "summary"),
        "count": lambda: bpftrace(COUNT, CALLS),
        "histogram": lambda: bpftrace(HISTOGRAM, CALLS),
        "print": lambda: bpftrace(PRINT, SLOW_CALLS),
        "strace": lambda: ns_per_call(on_tracer_cpu(["strace", "-f", "-o", "/dev/null", *loop(STRACE_CALLS)]).stdout),
    }
    for tool in ("bpftrace", "strace"):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is missing; run `apt-get install {tool}`")
    ns = median(ROUNDS, contenders)
    events = ns["events"]
    named = ", ".join(f"{name} {value:,.0f}" for name, value in ns.items())
    return [
        Result("ns per call", named),
        at_least("speed of the loop under scope events, compared with bpftrace counting", ns["count"] / events, 1.0),
        at_least("... with bpftrace's histogram", ns["histogram"] / events, 1.3),
        at_least("... with bpftrace printing each event", ns["print"] / events, 10),
        at_least("... with strace", ns["strace"] / events, 80),
        at_most("ns per call under scope summary, compared with scope events", ns["summary"] / events, 1.0, "×"),
        at_most("... with bpftrace's histogram", ns["summary"] / ns["histogram"], 0.8, "×"),
        Result(f"events lost of {ROUNDS * 2 * CALLS:,}, default ring", f"{sum(lost):,}", "0", not sum(lost)),
    ]

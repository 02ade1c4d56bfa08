"""The cost of tracing a command: its start, its run time, and lost objects of --json."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from bench.measure import Result, at_least, at_most, loop, on_tracer_cpu
from bench.measure import median_of as median

START_ROUNDS, FIND_ROUNDS = 9, 5
RATE = 500_000
CALLS = 5 * RATE
SCOPE = [sys.executable, "-m", "scope_cli.main", "trace", "syscalls"]
DECODED = ["-o", "decode=all"]
COUNT = "tracepoint:raw_syscalls:sys_exit /pid == cpid/ { @[comm, args->id] = count(); }"


def run() -> list[Result]:
    """Run times compared with bpftrace, with no tracer, and with strace."""
    start = median(
        START_ROUNDS,
        {
            "scope": lambda: _seconds([*SCOPE, "--", "true"]),
            "bpftrace": lambda: _seconds(["bpftrace", "-q", "-e", COUNT, "-c", "/bin/true"]),
        },
    )
    find = median(
        FIND_ROUNDS,
        {
            "bare": lambda: _own_seconds([]),
            "scope": lambda: _own_seconds([*SCOPE, "--"]),
            "decoded": lambda: _own_seconds([*SCOPE, *DECODED, "--"]),
        },
    )
    strace = _own_seconds(["strace", "-f", "-y", "-o", "/dev/null"])
    said = on_tracer_cpu(["sh", "-c", '"$@" > /dev/null', "sh", *SCOPE, "--json", "--", *loop(CALLS, RATE)]).stderr
    lost = sum(int(count.replace(",", "")) for count in re.findall(r"([\d,]+) lost", said))
    return [
        Result("seconds to trace `true`, from start to end", _named(start)),
        at_most("... scope trace, compared with bpftrace counting", start["scope"] / start["bpftrace"], 1.0, "×"),
        Result("run time of `find /usr`, s", f"{_named(find)}, strace {strace:.1f}"),
        at_most("... under scope trace syscalls, compared with no tracer", find["scope"] / find["bare"], 1.25, "×"),
        at_most("... with decoded arguments, compared with no tracer", find["decoded"] / find["bare"], 1.6, "×"),
        at_least("... with decoded arguments, speed compared with strace", strace / find["decoded"], 5),
        Result(f"objects lost by --json on one core, at {RATE:,} calls/s", f"{lost:,}", "0", not lost),
    ]


def _seconds(command: Sequence[str]) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, env=environment)
    return time.perf_counter() - began


def _own_seconds(tracer: Sequence[str]) -> float:
    """The run time of `find /usr` itself, without the tracer's start and end."""
    with tempfile.NamedTemporaryFile("r") as file:
        timed = f"TIMEFORMAT=%R; {{ time find /usr > /dev/null; }} 2> {file.name}"
        subprocess.run([*tracer, "bash", "-c", timed], capture_output=True, check=True)
        return float(file.read())


def _named(seconds: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in seconds.items())

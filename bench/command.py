"""What tracing a command costs its user: the time until it starts, its own speed, objects of every call."""

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
    """Ratios to bpftrace, to the command alone, and to strace."""
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
        Result("seconds for `true`, from start to end", _named(start)),
        at_most("... scope trace, against bpftrace counting", start["scope"] / start["bpftrace"], 1.0, "×"),
        Result("seconds that `find /usr` runs", f"{_named(find)}, strace {strace:.1f}"),
        at_most("... under scope trace syscalls, against alone", find["scope"] / find["bare"], 1.25, "×"),
        at_most("... with decoded arguments", find["decoded"] / find["bare"], 1.6, "×"),
        at_least("... with decoded arguments, its speed against that under strace", strace / find["decoded"], 5),
        Result(f"objects lost of {RATE:,} a second, --json on one core", f"{lost:,}", "0", not lost),
    ]


def _seconds(command: Sequence[str]) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, env=environment)
    return time.perf_counter() - began


def _own_seconds(tracer: Sequence[str]) -> float:
    """How long the command runs, measured beside it, without what its tracer does before and afterwards."""
    with tempfile.NamedTemporaryFile("r") as file:
        timed = f"TIMEFORMAT=%R; {{ time find /usr > /dev/null; }} 2> {file.name}"
        subprocess.run([*tracer, "bash", "-c", timed], capture_output=True, check=True)
        return float(file.read())


def _named(seconds: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in seconds.items())

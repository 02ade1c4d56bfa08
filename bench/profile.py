"""The cost of sampled stacks of a Python program, compared with py-spy and `perf record -g`."""

import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cuda import ROUNDS
from bench.measure import LOOP_CPU, TRACER_CPU, Result, at_most, median_of, ns_per_call

RATE = "99"
INTERPRETER = "/usr/bin/python3.11"  # py-spy cannot read every build
# Calls functions for a few seconds on a CPU of its own, and prints the time of an iteration in ns.
PROGRAM = f"""
import os, time
os.sched_setaffinity(0, {{{LOOP_CPU}}})

def inner(number):
    return sum(range(number))

def outer(number):
    return [inner(number) for _ in range(5)]

began = time.perf_counter_ns()
for number in range(1_000_000):
    outer(20)
print((time.perf_counter_ns() - began) / 1_000_000)
"""


def run() -> list[Result]:
    """Ratios of what sampling costs: the time that it adds to the program, and the tool's own CPU time."""
    for tool, package in (("py-spy", "pip install py-spy"), ("perf", "apt-get install linux-perf")):
        if not shutil.which(tool) and not (Path(sys.executable).parent / tool).exists():
            raise SystemExit(f"{tool} is missing; run `{package}`")
    with tempfile.TemporaryDirectory(prefix="scopebench") as folder:
        program, out = Path(folder, "program.py"), f"{folder}/out"
        program.write_text(PROGRAM)
        command = [INTERPRETER, str(program)]
        py_spy = shutil.which("py-spy") or str(Path(sys.executable).parent / "py-spy")
        tools: dict[str, Sequence[str]] = {
            "bare": [],
            "scope": [sys.executable, "-m", "scope_cli.main", "trace", "profile", "--folded", out, "--"],
            "py-spy": [py_spy, "record", "-r", RATE, "-f", "raw", "-o", out, "--"],
            "perf": ["perf", "record", "-q", "-F", RATE, "-g", "-o", out, "--"],
        }
        own_s: dict[str, list[float]] = {name: [] for name in tools}

        def measured(name: str) -> Callable[[], float]:
            def measure() -> float:
                before = _cpu_of_children_s()
                ns = ns_per_call(_on_tracer_cpu([*tools[name], *command]))
                own_s[name].append(_cpu_of_children_s() - before)
                return ns

            return measure

        ns = median_of(ROUNDS, {name: measured(name) for name in tools})
    cpu_s = {name: sorted(values)[len(values) // 2] for name, values in own_s.items()}
    slower = {name: ns[name] / ns["bare"] - 1 for name in tools if name != "bare"}
    more_s = {name: cpu_s[name] - cpu_s["bare"] for name in slower}
    return [
        Result(
            "profile at 99 Hz: how much longer the program takes",
            ", ".join(f"{name} {value:.2%}" for name, value in slower.items()),
        ),
        at_most("... compared with py-spy", ns["scope"] / ns["py-spy"], 1, "×"),
        at_most("... compared with perf record -g", ns["scope"] / ns["perf"], 1, "×"),
        Result(
            "... CPU time more, of the tool and the program",
            ", ".join(f"{name} {value:.2f} s" for name, value in more_s.items()),
        ),
    ]


def _on_tracer_cpu(command: Sequence[str]) -> str:
    pinned = ["/usr/bin/taskset", "-c", str(TRACER_CPU), *command]
    ran = subprocess.run(pinned, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return ran.stdout


def _cpu_of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

"""The cost of sampled stacks of a Python program, compared with py-spy and `perf record -g`.

What 99 samples a second cost is less than the noise of the machine. So it is measured with twenty times as many.
"""

import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cuda import ROUNDS
from bench.measure import LOOP_CPU, TRACER_CPU, Result, at_most, median_of, ns_per_call

RATE = 99  # samples a second
MEASURED = 20 * RATE
TRACE = [sys.executable, "-m", "scope_cli.main", "trace", "profile"]
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
            "scope": [*TRACE, "-o", f"rate={MEASURED}", "--folded", out, "--"],
            "py-spy": [py_spy, "record", "-r", str(MEASURED), "-f", "raw", "-o", out, "--"],
            "perf": ["perf", "record", "-q", "-F", str(MEASURED), "-g", "-o", out, "--"],
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
    slower = {name: (ns[name] / ns["bare"] - 1) * RATE / MEASURED for name in tools if name != "bare"}
    more_s = {name: cpu_s[name] - cpu_s["bare"] for name in slower}
    return [
        Result(
            "profile at 99 Hz: how much longer the program takes",
            ", ".join(f"{name} {value:.2%}" for name, value in slower.items()),
        ),
        at_most("... compared with py-spy", (1 + slower["scope"]) / (1 + slower["py-spy"]), 1, "×"),
        at_most("... compared with perf record -g", (1 + slower["scope"]) / (1 + slower["perf"]), 1, "×"),
        Result(
            f"... at {MEASURED} Hz, CPU time more, of the tool and the program",
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

"""The cost of a recorded call of `python`, compared with Python's own sys.setprofile doing the same."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.cuda import ROUNDS
from bench.measure import LOOP_CPU, Result, at_most, median_of, ns_per_call, on_tracer_cpu, recorded

SCOPE = [sys.executable, "-m", "scope_cli.main", "trace", "python"]
INTERPRETER = "/usr/bin/python3.11"  # Debian's, with USDT probes
CALLS = 200_000
# A function with a few lines, called in a loop. With a second argument it is profiled in the process: each call with
# its time, names, line and depth is kept (events), or added up by function (summary).
PROGRAM = f"""
import os, sys, time
os.sched_setaffinity(0, {{{LOOP_CPU}}})
now, stack, rows, sums = time.perf_counter_ns, [], [], {{}}

def events(frame, event, _):
    if event == "call":
        stack.append((now(), frame.f_lineno))
    elif event == "return":
        began, line = stack.pop()
        code = frame.f_code
        rows.append((began, now() - began, code.co_filename, code.co_name, line, len(stack)))

def summary(frame, event, _):
    if event == "call":
        stack.append(now())
    elif event == "return":
        took, code = now() - stack.pop(), frame.f_code
        key = code.co_filename, code.co_name
        calls, total = sums.get(key, (0, 0))
        sums[key] = calls + 1, total + took

def measured(number):
    square = number * number
    if square > 10:
        square -= 1
    return square

def main(calls):
    began = now()
    for number in range(calls):
        measured(number)
    return (now() - began) / calls

main(1000)
if len(sys.argv) > 1:
    sys.setprofile(globals()[sys.argv[1]])
taken = main({CALLS})
sys.setprofile(None)
print(taken)
"""


def _contenders(program: Path) -> dict[str, Callable[[], float]]:
    command = [INTERPRETER, str(program)]

    def scope(mode: str) -> float:
        ran = on_tracer_cpu([*SCOPE, "-o", f"file_prefix={program}", "--mode", mode, "--", *command])
        if mode == "events":
            rows, lost = recorded(ran.stderr)
            if rows < CALLS or lost:
                raise ValueError(f"scope did not record every call: {ran.stderr}")
        return ns_per_call(ran.stdout)

    return {
        "bare": lambda: ns_per_call(on_tracer_cpu(command).stdout),
        "events": lambda: scope("events"),
        "summary": lambda: scope("summary"),
        "setprofile, events": lambda: ns_per_call(on_tracer_cpu([*command, "events"]).stdout),
        "setprofile, summary": lambda: ns_per_call(on_tracer_cpu([*command, "summary"]).stdout),
    }


def run() -> list[Result]:
    """Ratios of the time that tracing adds to a call: of each event, and of a summary."""
    with tempfile.TemporaryDirectory(prefix="scope-bench") as folder:
        program = Path(folder) / "calls.py"
        program.write_text(PROGRAM)
        ns = median_of(ROUNDS, _contenders(program))
    added = {name: value - ns["bare"] for name, value in ns.items()}
    named = ", ".join(f"{name} {value:,.0f}" for name, value in ns.items())
    return [
        Result("python: ns per call of a Python function", named),
        *(
            at_most(
                f"... time added by {mode}, compared with sys.setprofile",
                added[mode] / added[f"setprofile, {mode}"],
                0.5,
                "×",
            )
            for mode in ("events", "summary")
        ),
    ]

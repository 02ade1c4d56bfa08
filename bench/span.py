"""The cost of a recorded call of `span`, compared with what bpftrace takes to do the same."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.cuda import BEGINNINGS, CALLS, ROUNDS, build
from bench.measure import LOOP_CPU, Result, at_most, median_of, ns_per_call, on_tracer_cpu, recorded

SCOPE = [sys.executable, "-m", "scope_cli.main", "trace", "span"]
FUNCTION = "cudaStreamSynchronize"  # any function would do


def _contenders(program: Path) -> dict[str, Callable[[], float]]:
    command = [str(program), FUNCTION, str(CALLS), str(LOOP_CPU)]
    probe = f"{program.parent}/libcudart.so.13:{FUNCTION}"
    began = f"uprobe:{probe} {{ @began[tid] = nsecs; @stream[tid] = arg0; }} uretprobe:{probe} /@began[tid]/"
    forget = "delete(@began[tid]); delete(@stream[tid]);"
    histogram = f"{began} {{ @ = hist(nsecs - @began[tid]); {forget} }}"
    printing = f'{began} {{ printf("%d %d %p %d\\n", tid, nsecs - @began[tid], @stream[tid], retval); {forget} }}'

    def scope(mode: str) -> float:
        declared = f"{probe} stream=arg0:ptr result=ret:i32"
        ran = on_tracer_cpu([*SCOPE, declared, "--mode", mode, "--", *command])
        if mode == "events" and recorded(ran.stderr) != (CALLS, 0):
            raise ValueError(f"scope did not record every call: {ran.stderr}")
        return ns_per_call(ran.stdout)

    def bpftrace(text: str) -> float:
        ran = on_tracer_cpu(["bpftrace", "-o", "/dev/null", "-e", text, "-c", " ".join(command)])
        return ns_per_call(ran.stdout)

    return {
        "bare": lambda: ns_per_call(on_tracer_cpu(command).stdout),
        "events": lambda: scope("events"),
        "summary": lambda: scope("summary"),
        "histogram": lambda: bpftrace(histogram),
        "printing": lambda: bpftrace(printing),
    }


def run() -> list[Result]:
    """Ratios of the time that tracing adds to a call: of each event, and of a summary."""
    results = []
    for beginning, protection in BEGINNINGS.items():
        with tempfile.TemporaryDirectory(prefix="scopebench") as folder:
            ns = median_of(ROUNDS, _contenders(build(Path(folder), protection)))
        added = {name: value - ns["bare"] for name, value in ns.items()}
        named = ", ".join(f"{name} {value:,.0f}" for name, value in ns.items())
        results += [
            Result(f"span, functions that begin with {beginning}: ns per call", named),
            at_most(
                "... time added by events, compared with bpftrace printing", added["events"] / added["printing"], 1, "×"
            ),
            at_most(
                "... by a summary, compared with bpftrace's histogram", added["summary"] / added["histogram"], 1, "×"
            ),
        ]
    return results

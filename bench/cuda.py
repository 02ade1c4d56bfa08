"""The cost of a fully recorded CUDA call, compared with bpftrace's histogram of the same function's durations."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.measure import LOOP_CPU, Result, at_most, median_of, ns_per_call, on_tracer_cpu, recorded

CALLS = 300_000
ROUNDS = 3
SOURCE = Path(__file__).parent / "cuda_calls.c"
BEGINNINGS = {"endbr64; push": "full", "push": "none"}  # first instructions of functions: -fcf-protection=...
WANTED = {"endbr64; push": 0.5, "push": 1.1}
FUNCTIONS = {"cudaLaunchKernel": "launches, with stacks", "cudaStreamSynchronize": "other calls"}


def build(folder: Path, protection: str) -> Path:
    """A library of functions named as CUDA's, and a program that calls them."""
    flags = ["-O1", "-fno-omit-frame-pointer", f"-fcf-protection={protection}"]
    library = folder / "libcudart.so.13"
    soname = f"-Wl,-soname,{library.name}"
    subprocess.run(["gcc", *flags, "-DLIBRARY", "-shared", "-fPIC", soname, "-o", library, SOURCE], check=True)
    run_path = f"-Wl,-rpath,{folder}"
    subprocess.run(["gcc", *flags, "-o", folder / "calls", SOURCE, library, run_path], check=True)
    return folder / "calls"


def _contenders(program: Path, function: str) -> dict[str, Callable[[], float]]:
    command = [str(program), function, str(CALLS), str(LOOP_CPU)]
    probe = f"{program.parent}/libcudart.so.13:{function}"
    histogram = (
        f"uprobe:{probe} {{ @began[tid] = nsecs; }} "
        f"uretprobe:{probe} /@began[tid]/ {{ @ = hist(nsecs - @began[tid]); delete(@began[tid]); }}"
    )

    def scope() -> float:
        ran = on_tracer_cpu([sys.executable, "-m", "scope_cli.main", "trace", "cuda", "--", *command])
        if recorded(ran.stderr) != (CALLS, 0):
            raise ValueError(f"scope did not record every call: {ran.stderr}")
        return ns_per_call(ran.stdout)

    return {
        "bare": lambda: ns_per_call(on_tracer_cpu(command).stdout),
        "scope": scope,
        "bpftrace": lambda: ns_per_call(on_tracer_cpu(["bpftrace", "-e", histogram, "-c", " ".join(command)]).stdout),
    }


def run() -> list[Result]:
    """Ratios of the time that tracing adds to a call."""
    results = []
    for beginning, protection in BEGINNINGS.items():
        with tempfile.TemporaryDirectory(prefix="scopebench") as folder:
            program = build(Path(folder), protection)
            for function, what in FUNCTIONS.items():
                ns = median_of(ROUNDS, _contenders(program, function))
                ratio = (ns["scope"] - ns["bare"]) / (ns["bpftrace"] - ns["bare"])
                named = ", ".join(f"{name} {value:,.0f}" for name, value in ns.items())
                results.append(Result(f"CUDA, {what}, functions that begin with {beginning}: ns per call", named))
                results.append(at_most("... time added, compared with bpftrace", ratio, WANTED[beginning], "×"))
    return results

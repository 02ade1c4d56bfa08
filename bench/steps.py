"""The cost of each step of the syscalls probe: a loop runs under BPF programs that each do one step more."""

import os
import platform
import subprocess
import tempfile
from functools import cache, cached_property, partial
from pathlib import Path

from bench.measure import TRACER_CPU, Result, loop, median_of
from bench.watched import ns_under
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.probes import probe_named

CALLS = 500_000
ROUNDS = 15
BPF = Path(__file__).parents[1] / "bpf"
STEPS = (
    "nothing attached",
    "two empty programs",
    "the thread's state, and the filter",
    "two clock reads",
    "the arguments",
    "the ring, and its reader on another core",
    "the process's identity",
    "the rest of the record",
)


class _Steps(Probe):
    @cached_property
    def elf(self) -> bytes:
        return _compiled()


def run() -> list[Result]:
    """Nanoseconds per call: the loop alone, and the time that each step adds."""
    contenders = {name: partial(_ns_at, number) for number, name in enumerate(STEPS, -1)}
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {TRACER_CPU})
    ns = median_of(ROUNDS, contenders)
    os.sched_setaffinity(0, everywhere)
    results, before = [], 0.0
    for name, value in ns.items():
        results.append(Result(f"ns per call: {name}", f"{value - before:+.0f} = {value:.0f}"))
        before = value
    return results


def _ns_at(step: int) -> float:
    """Time of a call with programs up to this step; -1: without programs."""
    return ns_under(_probe(step) if step >= 0 else None, loop(CALLS))


def _probe(step: int) -> Probe:
    syscalls = probe_named("syscalls")
    return _Steps(
        name="steps",
        meaning="a call as far as a step",
        streams=syscalls.event_streams,
        ring_bytes=syscalls.ring_bytes,
        alternatives=(Alternative("raw tracepoints", ("step_exit", "step_enter")),),
        constants=lambda _: {"step": step},
    )


@cache
def _compiled() -> bytes:
    architecture = "arm64" if platform.machine() == "aarch64" else "x86"
    flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", f"-D__TARGET_ARCH_{architecture}"]
    includes = [f"-I{BPF}/{folder}" for folder in ("include", f"vmlinux/{architecture}", "probes/syscalls")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.bpf.o"
        source = Path(__file__).with_name("steps.bpf.c")
        subprocess.run(["clang", *flags, *includes, "-c", source, "-o", path], check=True)
        return path.read_bytes()

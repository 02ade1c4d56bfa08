"""Compares SCOPE's records of PyTorch with the profiler's kernels and the allocator's figures."""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec

from tests.gpu.report import Report
from tests.gpu.traced import Row, Traced, trace

from scope_bpf.binding.demangle import demangle

_UNNAMED = {"offset", "handle"}  # the kernel column then has an offset or a handle, no name


def check_pytorch(report: Report) -> None:
    """Checks PyTorch, if it is installed."""
    report.title("PyTorch")
    if not find_spec("torch"):
        report.fact("it is not installed here")
        return
    traced = trace(sys.executable, "-m", "tests.gpu.torch_workload")
    report.check("it ran to its end", 0, traced.status)
    if traced.status:
        return
    (host,) = traced.said("host")
    report.fact(f"PyTorch {host['torch']}, CUDA {host['cuda']}, Triton: {host['triton']}")
    report.check("nothing is lost", {}, traced.lost)
    report.check("the profiler has kernels", True, bool(traced.said("kernel")))
    calls = traced.said("cuda_driver") + traced.said("cuda_runtime")
    launches = [row for row in traced.rows("cuda_launch") if not row["result"]]
    compare_kernels(report, kernels_of(traced.said("kernel"), calls), launches)
    compare_memory(report, traced.said("memory")[0], traced.rows("cuda_call"), traced.rows("cuda_memory"))
    _tell(report, traced)


def plain(name: str) -> str:
    """A demangled name in one spelling.

    SCOPE and the profiler use the C++ runtime's demangler. PyTorch's wheels may contain an older one, which puts spaces
    between closing brackets. The profiler leaves names of more than 1,024 characters mangled (Demangle.cpp of Kineto).
    """
    return re.sub(r">\s+(?=>)", ">", demangle(name))


def kernels_of(events: Sequence[Row], calls: Sequence[Row]) -> list[Row]:
    """The profiler's kernels, with the function that launched each.

    Args:
        events: the profiler's events of the category `kernel`.
        calls: the profiler's events of the runtime and the driver.
    """
    launched_by = {call["args"].get("correlation"): call["name"] for call in calls}
    return [
        {
            "kernel": plain(event["name"]),
            "shape": f"{event['args']['grid']} {event['args']['block']}",
            "launched_by": launched_by.get(event["args"].get("correlation"), "what it does not know"),
        }
        for event in events
    ]


def compare_kernels(report: Report, profiled: Sequence[Row], launches: Sequence[Row]) -> None:
    """Compares the profiler's kernels (`kernels_of`) with the recorded launches, by name, count and shape.

    A launch recorded with a handle or an offset has no name. The report counts these launches; there must be as many as
    kernels of the profiler without a named launch.
    """
    known = Counter(kernel["kernel"] for kernel in profiled)
    named = Counter(plain(row["kernel"]) for row in launches if row["name_source"] not in _UNNAMED)
    report.check("as many launches as the profiler has kernels", len(profiled), len(launches))
    report.check("no name that the profiler lacks, none more often than there", {}, dict(named - known))
    shapes = Counter(kernel["shape"] for kernel in profiled), Counter(map(_shape, launches))
    report.check("grids and blocks", *shapes)
    equal = sum(count for name, count in known.items() if named[name] == count)
    share = equal / max(len(profiled), 1)
    report.fact(f"{len(known)} kernels, {len(profiled)} launches; {share:.1%} of these exactly by name and count")
    by = {kernel["kernel"]: kernel["launched_by"] for kernel in profiled}
    for name in sorted(known - named):
        report.fact(f"recorded {named[name]} of {known[name]} by name, launched by {by[name]}: {name}")
    for name, count in sorted(Counter(row["kernel"] for row in launches if row["name_source"] in _UNNAMED).items()):
        report.fact(f"recorded {count} without a name: {name}")


def compare_memory(report: Report, said: Row, calls: Sequence[Row], held: Sequence[Row]) -> None:
    """Compares the allocator's segments with the recorded cudaMalloc calls, and its peak with the recorded peak.

    Other device memory belongs to libraries. The recorded peak is a range, because two times are unknown: when the
    libraries had their memory, and when each row had its peak. (Threads that never chose a device have their own row.)
    """
    taken = [row["bytes"] for row in calls if row["function"] == "cudaMalloc" and not row["result"]]
    report.check("as many cudaMalloc as the allocator has segments", said["segment.all.allocated"], len(taken))
    report.check("of as many bytes", said["reserved_bytes.all.allocated"], sum(taken))
    last = {(row["pid"], row["device"]): row for row in held if row["memory"] == "device"}
    peaks = [row["peak_bytes"] for row in last.values()] or [0]
    others = sum(row["allocated_bytes"] for row in last.values()) - sum(taken)
    least, most, reserved = max(peaks) - others, sum(peaks), said["reserved_bytes.all.peak"]
    report.check("the peak, but for what libraries took", reserved, min(max(reserved, least), most))
    report.fact(f"peak of the allocator {reserved} bytes, recorded {least} to {most}; libraries took {others}")


def _shape(row: Row) -> str:
    grid, block = ([row[f"{part}_{axis}"] for axis in "xyz"] for part in ("grid", "block"))
    return f"{grid} {block}"


def _tell(report: Report, traced: Traced) -> None:
    launches = traced.rows("cuda_launch")
    for what in ("function", "name_source"):
        counts = Counter(row[what] for row in launches)
        report.fact(f"launches by {what}: {', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}")
    nested = Counter(row["function"] for stream in ("cuda_call", "cuda_launch") for row in traced.nested(stream))
    report.fact(f"calls that other calls made: {dict(sorted(nested.items())) or 'none'}")

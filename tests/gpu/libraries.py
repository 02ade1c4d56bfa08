"""Compares recorded launches of installed libraries with what Nsight Compute (`ncu`) sees of the same program."""

import csv
import io
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec

from tests.gpu.pytorch import plain
from tests.gpu.report import Report
from tests.gpu.traced import trace

_WORKLOADS = {"cupy": ("cupy",), "jax": ("jax",), "torchvision": ("torch", "torchvision")}
_UNNAMED = {"offset", "handle"}  # the kernel column then has an offset or a handle, no name


def check_libraries(report: Report) -> None:
    """Checks the workloads whose modules are installed. Without ncu there is nothing to compare with."""
    report.title("libraries, against Nsight Compute")
    if not shutil.which("ncu"):
        report.fact("ncu is not installed here")
        return
    for workload, modules in _WORKLOADS.items():
        if all(map(find_spec, modules)):
            _check(report, workload)
        else:
            report.fact(f"{workload}: needs {', '.join(modules)}")


def _check(report: Report, workload: str) -> None:
    """Names must be right or absent. The workloads launch the same kernels each time."""
    command = [sys.executable, "-m", "tests.gpu.library_workloads", workload]
    traced = trace(*command)
    report.check(f"{workload}: it ran to its end", 0, traced.status)
    if traced.status:
        return
    report.check(f"{workload}: nothing is lost", {}, traced.lost)
    launches = [row for row in traced.rows("cuda_launch") if not row["result"]]
    named = Counter(plain(row["kernel"]) for row in launches if row["name_source"] not in _UNNAMED)
    known = _kernels(command)
    report.check(f"{workload}: as many launches as ncu has kernels", known.total(), len(launches))
    report.check(f"{workload}: no name that ncu lacks, none more often than there", {}, dict(named - known))
    share = (known & named).total() / max(known.total(), 1)
    sources = ", ".join(
        f"{count} {source}" for source, count in Counter(one["name_source"] for one in launches).items()
    )
    report.fact(f"{workload}: {known.total()} kernels; {share:.1%} of these by name ({sources})")
    for name in sorted(known - named)[:5]:
        report.fact(f"{workload}: recorded {named[name]} of {known[name]} by name: {name[:200]}")


def _kernels(command: list[str]) -> Counter[str]:
    """The kernels that ncu sees, in the demangler's spelling."""
    asked = ("--metrics", "gpu__time_duration.sum", "--clock-control", "none", "--print-kernel-base", "mangled")
    with tempfile.NamedTemporaryFile() as file:
        ncu = ["ncu", "--csv", *asked, *command, file.name]
        printed = subprocess.run(ncu, capture_output=True, text=True, check=True).stdout
    table = [line for line in printed.splitlines() if line.startswith('"')]  # other lines are messages
    return Counter(plain(row["Kernel Name"]) for row in csv.DictReader(io.StringIO("\n".join(table))))

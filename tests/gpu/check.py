"""Compares SCOPE's records on a GPU with the accounts of programs, of PyTorch's profiler and allocator, and of ncu.

Status: 0 if all records are equal, 1 if one differs, 2 if this machine cannot run the check.
"""

import argparse
import os
import platform
import sys
from pathlib import Path

import pynvml as nvml
from tests.gpu.gpus import tell_gpus
from tests.gpu.libraries import check_libraries
from tests.gpu.programs import check_programs, tell_costs
from tests.gpu.pytorch import check_pytorch
from tests.gpu.report import Report

from scope_bpf.errors import ScopeBpfError
from scope_bpf.host import require_bpf


class NoGpu(Exception):
    """This machine has no driver or no GPU; the message says which."""


def host() -> list[str]:
    """Lines that name the driver and the GPUs, from NVML.

    Raises:
        NoGpu: there is no driver or no GPU.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise NoGpu("no NVIDIA driver on this host") from error
    version = nvml.nvmlSystemGetCudaDriverVersion_v2()
    count = nvml.nvmlDeviceGetCount()
    if not count:
        raise NoGpu("no NVIDIA GPU on this host")
    gpus = [nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(number)) for number in range(count)]
    return [
        f"driver   {nvml.nvmlSystemGetDriverVersion()}, CUDA {version // 1000}.{version % 1000 // 10}",
        f"GPU      {', '.join(gpus)}",
    ]


def main() -> int:
    """Runs all checks and returns the status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, help="the folder of the compiled programs")
    parser.add_argument("--libraries", type=Path, help="stand-ins in place of a GPU; an absolute path")
    arguments = parser.parse_args()
    try:
        require_bpf()
        found = ["stand-in: no GPU"] if arguments.libraries else host()
    except (ScopeBpfError, NoGpu) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"kernel   {platform.release()}", *found, f"python   {platform.python_version()}", sep="\n")
    report = Report()
    if arguments.libraries:
        os.environ["LD_LIBRARY_PATH"] = str(arguments.libraries.resolve())
    check_programs(report, arguments.programs, lambda linked: not arguments.libraries or linked == "shared")
    if not arguments.libraries:
        check_pytorch(report)
        check_libraries(report)
    tell_gpus(report)
    tell_costs(report, arguments.programs)
    print(f"\n{report.checks['ok']} checks ok, {report.checks['FAILED']} FAILED")
    return 1 if report.checks["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())

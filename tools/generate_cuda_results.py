#!/usr/bin/env python3
"""Makes src/scope_bpf/probes/cuda/results.py, the names of CUDA's results, from a toolkit's headers.

The numbers of `enum cudaError` (driver_types.h) and `enum cudaError_enum` (cuda.h) are part of CUDA's ABI and
never reused. To regenerate from the newest headers::

    pip download --no-deps --dest /tmp nvidia-cuda-runtime && unzip -d /tmp/cuda /tmp/nvidia_cuda_runtime-*.whl
    tools/generate_cuda_results.py /tmp/cuda/nvidia/cu13/include
"""

import re
import sys
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "src/scope_bpf/probes/cuda/results.py"

TEMPLATE = '''\
# DO NOT EDIT: made by tools/generate_cuda_results.py from the headers of CUDA {version}
"""The names of what CUDA's functions return, by number."""

from collections.abc import Mapping
from typing import Final

RUNTIME: Final[Mapping[int, str]] = {{
{runtime}}}

DRIVER: Final[Mapping[int, str]] = {{
{driver}}}
'''


def read_enum(header: Path, name: str) -> dict[int, str]:
    """The constants of an enum by their numbers."""
    found = re.search(rf"enum\s+(?:__device_builtin__\s+)?{name}\s*\{{(.*?)\}}", header.read_text(), re.DOTALL)
    if not found:
        raise SystemExit(f"{header} has no enum {name}")
    body = re.sub(r"/\*.*?\*/", "", found[1], flags=re.DOTALL)
    return {int(number, 0): constant for constant, number in re.findall(r"(\w+)\s*=\s*(\w+)", body)}


def main(include: Path) -> None:
    """Reads the headers and writes the table."""
    version = re.search(r"#define CUDA_VERSION (\d+)", (include / "cuda.h").read_text())
    runtime = read_enum(include / "driver_types.h", "cudaError")
    driver = read_enum(include / "cuda.h", "cudaError_enum")
    if not version or runtime.get(2) != "cudaErrorMemoryAllocation" or driver.get(2) != "CUDA_ERROR_OUT_OF_MEMORY":
        raise SystemExit(f"{include} has not CUDA's headers as they are known")
    thousands, tens = divmod(int(version[1]), 1000)
    text = TEMPLATE.format(version=f"{thousands}.{tens // 10}", runtime=_lines(runtime), driver=_lines(driver))
    OUTPUT.write_text(text)


def _lines(names: dict[int, str]) -> str:
    return "".join(f'    {number}: "{name}",\n' for number, name in sorted(names.items()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

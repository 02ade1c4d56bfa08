"""A stand-in for NVML on hosts without a GPU; see nvml_stand_in.c."""

import subprocess
from pathlib import Path

WORKLOADS = Path(__file__).parent / "workloads"


def build_nvml(folder: Path) -> dict[str, str]:
    """Builds the stand-in; returns the environment in which programs load it."""
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, WORKLOADS / "nvml_stand_in.c"], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "NVML_PROCESSES": str(folder / "processes")}

"""NCCL's library, and programs that call a stand-in for it, for hosts without a GPU."""

import fcntl
import subprocess
import sys
from pathlib import Path

WORKLOADS = Path(__file__).parent / "workloads"
WHEEL = "nvidia-nccl-cu13==2.32.3"


def nccl(cache: Path) -> Path:
    """The folder of NCCL 2.32 in a Python environment, with `lib/libnccl.so.2`; downloaded once: 305 MB."""
    site = cache / "nccl-2.32.3" / "site-packages"
    site.mkdir(parents=True, exist_ok=True)
    with (site.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers wait
        if not (site.parent / "installed").exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir"]
            subprocess.run([*pip, "--target", site, WHEEL], check=True, timeout=500)
            (site.parent / "installed").touch()
    return site / "nvidia" / "nccl"


def build(folder: Path, linked: str, source: str = "nccl_ranks.c") -> Path:
    """Compiles a program with the stand-in, which is `shared`: a library in a Python environment, or `static`."""
    program = folder / "ranks"
    sources: list[str | Path] = [WORKLOADS / source, WORKLOADS / "nccl_stand_in.c"]
    gcc: list[str | Path] = ["gcc", "-O1", "-fno-inline", "-fno-optimize-sibling-calls"]
    if linked == "static":
        subprocess.run([*gcc, "-o", program, *sources], check=True)
        return program
    library = folder / "site-packages/nvidia/nccl/lib/libnccl.so.2"
    library.parent.mkdir(parents=True)
    soname = "-Wl,-soname,libnccl.so.2"
    subprocess.run([*gcc, "-fPIC", "-shared", soname, "-o", library, sources.pop()], check=True)
    subprocess.run([*gcc, "-o", program, *sources, library, f"-Wl,-rpath={library.parent}"], check=True)
    return program

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


def stand_in(folder: Path) -> Path:
    """Compiles the stand-in: a library in a Python environment."""
    library = folder / "site-packages/nvidia/nccl/lib/libnccl.so.2"
    library.parent.mkdir(parents=True)
    _compile(library, "nccl_stand_in.c", "-fPIC", "-shared", "-Wl,-soname,libnccl.so.2")
    return library


def build(folder: Path, linked: str, source: str = "nccl_ranks.c") -> Path:
    """Compiles a program with the stand-in: linked with the library, if it is `shared`, or `static`; or with `none`."""
    program = folder / "ranks"
    if linked == "static":
        return _compile(program, source, str(WORKLOADS / "nccl_stand_in.c"))
    if linked == "none":
        return _compile(program, source)
    library = stand_in(folder)
    return _compile(program, source, str(library), f"-Wl,-rpath={library.parent}")


def _compile(made: Path, source: str, *more: str) -> Path:
    flags = ("-O1", "-fno-inline", "-fno-optimize-sibling-calls")
    subprocess.run(["gcc", *flags, "-o", made, WORKLOADS / source, *more], check=True)
    return made

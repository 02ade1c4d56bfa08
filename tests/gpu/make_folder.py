"""Makes the folder of `make gpu-check`: programs, wheels and checks, to be run on a machine with a GPU."""

import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.probes.cuda_programs import toolkit

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parent
PYTHONS = ("3.11", "3.12", "3.13")
# Machines with PyTorch usually have numpy and pyarrow, but not these and cffi. Each Python needs its own cffi wheel.
SMALL_WHEELS = ("pycparser", "nvidia-ml-py")
LINKED = {
    "shared": ("-cudart", "shared", "-Xlinker", "--enable-new-dtags,-rpath=$ORIGIN"),
    "static": (),
    "stripped": ("-Xlinker", "-s"),
}
DRIVER_CALLS = (
    *("cuGetErrorName", "cuCtxSynchronize", "cuLaunchKernel", "cuLaunchKernelEx"),
    *("cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload"),
    *("cuLibraryLoadData", "cuLibraryGetKernel", "cuLibraryUnload"),
    *("cuMemAddressFree", "cuMemAddressReserve", "cuMemCreate", "cuMemGetAllocationGranularity"),
    *("cuMemMap", "cuMemRelease", "cuMemSetAccess", "cuMemUnmap"),
)


def run(*command: object) -> None:
    """Runs a command that must succeed."""
    subprocess.run([str(word) for word in command], check=True)


def is_fresh(made: Path, sources: Sequence[Path]) -> bool:
    """Whether the made file exists and is newer than its sources."""
    return made.exists() and all(made.stat().st_mtime > source.stat().st_mtime for source in sources)


def make_programs(folder: Path) -> None:
    """Compiles calls.cu once, and links it with the runtime in each way.

    The programs have machine code for every major architecture: PTX would need a driver as new as this nvcc.
    """
    sources = [SOURCES / name for name in ("account.cuh", "calls.cu", "cost.cu", "make_folder.py")]
    wanted = [folder / name for name in (*LINKED, "cost", "libcudart.so.13")]
    if all(is_fresh(made, sources) for made in wanted):
        return
    folder.mkdir(parents=True, exist_ok=True)
    libraries = toolkit() / "lib"
    shutil.copy(libraries / "libcudart.so.13", folder)
    nvcc = (toolkit() / "bin/nvcc", "-std=c++17", "-arch=all-major", "--threads", "0")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "libcudart.so").symlink_to(libraries / "libcudart.so.13")
        # The driver comes with the GPU. For linking, the names of its functions are enough.
        (scratch / "driver.c").write_text("".join(f"void {call}(void) {{}}\n" for call in DRIVER_CALLS))
        run("gcc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", scratch / "libcuda.so", scratch / "driver.c")
        run(*nvcc, "-Xcompiler", "-fno-omit-frame-pointer", "-c", "-o", scratch / "calls.o", SOURCES / "calls.cu")
        found = ("-L", scratch, "-L", libraries)
        for linked, flags in LINKED.items():
            run(*nvcc, *flags, "-o", folder / linked, scratch / "calls.o", *found, "-lcuda")
        run(*nvcc, *LINKED["shared"], "-o", folder / "cost", SOURCES / "cost.cu", *found)


def make_wheels(folder: Path) -> None:
    """Copies SCOPE's wheel, and downloads its small dependencies in the versions of the lock file."""
    lock = ROOT / "requirements.lock"
    fresh = is_fresh(folder / ".downloaded", [lock, Path(__file__)])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("scope_observe-*.whl" if fresh else "*.whl"):
        old.unlink()
    (wheel,) = (ROOT / "dist").glob("scope_observe-*.whl")
    shutil.copy(wheel, folder)
    if fresh:
        return
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
    locked = ("--only-binary", ":all:", "--constraint", lock, "--dest", folder)
    run(*pip, *locked, *SMALL_WHEELS)
    for python in PYTHONS:
        run(*pip, *locked, "--python-version", python, "--platform", f"manylinux2014_{platform.machine()}", "cffi")
    (folder / ".downloaded").touch()


def make_checks(folder: Path) -> None:
    """Copies the modules as a package with __init__.py, so that no installed package `tests` is imported instead."""
    for module in (*SOURCES.glob("*.py"), ROOT / "tests/probes/recording.py"):
        copy = folder / module.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(module, copy)
    (folder / "tests/__init__.py").touch()
    shutil.copy(SOURCES / "run.sh", folder)


if __name__ == "__main__":
    made = Path(sys.argv[1])
    make_programs(made / "programs")
    make_wheels(made / "wheels")
    make_checks(made)

"""The checks of `make gpu-check` pass with stand-ins for libcudart and libcuda, and fail if a record differs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.gpu.pytorch import compare_kernels, compare_memory, kernels_of
from tests.gpu.report import Report
from tests.probes.cuda_programs import WORKLOADS
from tests.probes.nvml import build_nvml

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(900)  # the first test builds the wheel


@pytest.fixture(scope="module")
def made() -> str:
    """The output of `make gpu-check`."""
    ran = subprocess.run(["make", "--no-print-directory", "gpu-check"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def folder(made: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the made folder, outside the checkout."""
    assert made
    copy = tmp_path_factory.mktemp("elsewhere") / "gpu-check"
    shutil.copytree(ROOT / "dist/gpu-check", copy)
    return copy


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stand-ins for NVML, and for the runtime and driver with all functions that calls.cu calls."""
    folder = tmp_path_factory.mktemp("libraries")
    build_nvml(folder)
    driver, runtime = folder / "libcuda.so.1", folder / "libcudart.so.13"
    sources = [WORKLOADS / "cuda_stand_in.c", ROOT / "tests/gpu/stand_in.c"]
    for library, *more in ((driver, "-DDRIVER"), (runtime, driver)):
        versions = folder / f"{library.name}.map"
        versions.write_text(f"{library.name} {{ *; }};\n")
        flags = ["-O1", "-fPIC", "-shared", "-fno-omit-frame-pointer", "-fno-shrink-wrap"]
        flags += [f"-Wl,-soname,{library.name}", f"-Wl,--version-script={versions}"]
        subprocess.run(["gcc", *flags, "-o", library, *sources, *more], check=True)
    return folder


def check(folder: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the folder's run.sh in another working directory, with this Python."""
    words = map(str, (folder / "run.sh", *arguments))
    environment = {**os.environ, "PYTHON": sys.executable, **environment}
    return subprocess.run([*words], cwd="/", env=environment, capture_output=True, text=True)


def test_it_says_what_it_did(made: str) -> None:
    """Without a driver, `make gpu-check` only makes the folder. Its last line says so and names run.sh."""
    if not Path("/dev/nvidiactl").exists():
        assert "this host has no NVIDIA driver" in made.splitlines()[-1]
        assert "run.sh" in made.splitlines()[-1]


def test_the_folder_can_be_carried(folder: Path) -> None:
    """The folder has machine code for several GPU generations, a cffi wheel for each Python, and less than 40 MiB."""
    assert sum(file.stat().st_size for file in folder.rglob("*")) < 40 << 20
    wheels = [file.name for file in (folder / "wheels").glob("*.whl")]
    assert {name.split("-")[0] for name in wheels} == {
        *("scope_observe", "cffi", "pycparser", "nvidia_ml_py"),
    }
    assert sum(name.startswith("cffi-") for name in wheels) == 3
    for program in ("shared", "static", "stripped", "cost"):
        code = (folder / "programs" / program).read_bytes()
        assert all(name in code for name in (b"sm_80", b"sm_90", b"sm_120")), program


def test_everything_is_equal(folder: Path, libraries: Path) -> None:
    """All checks pass: recorded calls, launches, memory and leaks equal the programs' accounts. Facts are printed."""
    ran = check(folder, "--libraries", libraries, LD_LIBRARY_PATH=str(libraries))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "stand-in: no GPU" in ran.stdout
    assert "31 checks ok, 0 FAILED" in ran.stdout
    assert "memory_used_bytes 7516192768" in ran.stdout
    assert ran.stdout.count("ok      calls (1") == 4
    assert "ok      launches (28)" in ran.stdout, "those of the stripped program"
    assert "55 cuMemFree_v2" in ran.stdout, "calls of the driver that the runtime makes"
    assert "add<double>(double*, double const*, int) by registration" in ran.stdout
    assert "cudaMalloc and cudaFree: " in ran.stdout


def test_a_program_that_says_otherwise(folder: Path, libraries: Path, tmp_path: Path) -> None:
    """If a program names another kernel than was recorded, the check prints both names; the status is 1."""
    tampered = tmp_path / "gpu-check"
    shutil.copytree(folder, tampered)
    program = tampered / "programs/shared"
    program.write_bytes(program.read_bytes().replace(b"::hidden(int*)\0", b"::hiding(int*)\0"))
    ran = check(tampered, "--libraries", libraries)
    assert ran.returncode == 1
    assert "28 checks ok, 2 FAILED" in ran.stdout, "when traced from its start, and when it runs already"
    lines = ran.stdout.splitlines()
    at = lines.index("  FAILED  launches (33)")
    assert lines[at + 1].strip().startswith("expected")
    assert "::hiding(int*)" in lines[at + 1]
    assert lines[at + 2].strip().startswith("recorded")
    assert "::hidden(int*)" in lines[at + 2]


def test_without_a_driver(folder: Path, tmp_path: Path) -> None:
    """Without a driver, run.sh prints one line and ends with status 2. The test hides the host's NVML."""
    (tmp_path / "libnvidia-ml.so.1").touch()
    ran = check(folder, LD_LIBRARY_PATH=str(tmp_path))
    assert (ran.returncode, ran.stderr) == (2, "no NVIDIA driver on this host\n")


def event(name: str, correlation: int, grid: int = 1) -> dict[str, Any]:
    """A kernel as the profiler exports it."""
    return {"name": name, "args": {"correlation": correlation, "grid": [grid, 1, 1], "block": [32, 1, 1]}}


def launch(kernel: str, source: str = "registration", grid: int = 1) -> dict[str, Any]:
    """A launch as SCOPE records it."""
    shape = {f"{part}_{axis}": 1 for part in ("grid", "block") for axis in "xyz"}
    return {"kernel": kernel, "name_source": source, **shape, "grid_x": grid, "block_x": 32}


PROFILED = kernels_of(
    [event("void f<g<int> >(int*)", 1), event("_Z3addPi", 2, 3), event("cutlass", 3), event("cutlass", 4)],
    [
        {"name": "cudaLaunchKernel", "args": {"correlation": 1}},
        {"name": "cuLaunchKernelEx", "args": {"correlation": 4}},
    ],
)


def test_kernels_of_the_profiler(capsys: pytest.CaptureFixture[str]) -> None:
    """Different spellings of a name are equal. A launch without a name is reported, but fails no check."""
    report = Report()
    launches = [launch("void f<g<int>>(int*)"), launch("add(int*)", grid=3), launch("cutlass"), launch("0x1", "handle")]
    compare_kernels(report, PROFILED, launches)
    assert report.checks == {"ok": 3}
    said = capsys.readouterr().out
    assert "3 kernels, 4 launches; 50.0% of these exactly" in said
    assert "recorded 1 of 2 by name, launched by cuLaunchKernelEx: cutlass" in said
    assert "recorded 1 without a name: 0x1" in said


@pytest.mark.parametrize(
    ("third", "fourth", "failed"),
    [
        (launch("cutlass"), launch("wrong"), 1),
        (launch("cutlass"), launch("add(int*)"), 1),
        (launch("cutlass"), launch("cutlass", grid=2), 1),
        (launch("cutlass"), None, 2),
    ],
    ids=["a name that it lacks", "one too often", "another shape", "one too few"],
)
def test_kernels_that_differ(third: dict[str, Any], fourth: dict[str, Any] | None, failed: int) -> None:
    """A wrong name, a repeated name or another shape fails one check; a missing launch fails two."""
    report = Report()
    launches = [launch("void f<g<int>>(int*)"), launch("add(int*)", grid=3), third, *([fourth] if fourth else [])]
    compare_kernels(report, PROFILED, launches)
    assert report.checks["FAILED"] == failed


@pytest.mark.parametrize(
    ("reserved", "others", "failed"),
    [(100, 0, 0), (99, 0, 1), (101, 0, 1), (93, 7, 0), (100, 7, 0), (92, 7, 1)],
)
def test_memory_of_the_allocator(reserved: int, others: int, failed: int) -> None:
    """The allocator's peak may be below the recorded peak by at most the memory that other libraries took."""
    calls = [{"function": "cudaMalloc", "result": result, "bytes": 50} for result in (0, 2, 0)]
    calls.append({"function": "cudaFree", "result": 0, "bytes": 50})
    held = {"pid": 1, "device": 0, "memory": "device", "peak_bytes": 100, "allocated_bytes": 100 + others}
    said = {
        "segment.all.allocated": 2,
        "reserved_bytes.all.allocated": 100,
        "reserved_bytes.all.peak": reserved,
    }
    report = Report()
    compare_memory(report, said, calls, [held | {"peak_bytes": 1}, held])
    assert report.checks["FAILED"] == failed

"""CUDA programs under the probe: recorded arguments, results and names equal the programs' own."""

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.left_behind import left_behind, unheld
from tests.probes import cuda_programs
from tests.probes.cuda_programs import Nvcc, launches_of
from tests.probes.recording import Record

LINKED = {"shared": ("-cudart", "shared"), "static": (), "optimized": ("-O2",)}


@pytest.fixture(scope="session")
def nvcc(tmp_path_factory: pytest.TempPathFactory) -> Nvcc:
    return Nvcc(tmp_path_factory.mktemp("cuda"))


@pytest.fixture(params=sorted(LINKED))
def program(nvcc: Nvcc, request: pytest.FixtureRequest) -> Path:
    """The same program, with the runtime linked each way."""
    return nvcc.build(request.param, "cuda_calls.cu", *LINKED[request.param])


def test_every_call_is_there(record: Record, program: Path) -> None:
    """Calls are recorded in order, with the bytes that the program passed and the result that it got."""
    account = cuda_programs.run(program)
    rows = record("cuda", [str(program)]).rows("cuda_call")
    assert [(row["function"], row["result"], row["bytes"] or 0) for row in rows] == account.calls
    assert {row["api"] for row in rows} == {"runtime"}
    assert {row["result_name"] for row in rows if row["result"] == 35} <= {"cudaErrorInsufficientDriver"}
    assert len(rows) == 23


def test_every_launch_is_there_by_name(record: Record, program: Path) -> None:
    """Every launch has the kernel's name, also for templates and kernels without linkage, and its geometry."""
    account = cuda_programs.run(program, "7")
    recording = record("cuda", [str(program), "7"])
    rows = recording.rows("cuda_launch")
    assert launches_of(rows) == account.launches
    assert len(rows) == 4 * 7 + 1
    assert {(row["name_source"], row["module"]) for row in rows} == {("registration", str(program))}
    assert {row["function"] for row in rows} == {"cudaLaunchKernel", "cudaLaunchKernelExC"}
    assert all(not account.lost for account in recording.accounts.values())


def test_threads_are_told_apart(record: Record, program: Path) -> None:
    """When threads launch at the same time, each launch is one row of its own thread."""
    recording = record("cuda", [str(program), "1", "5"])
    rows = [row for row in recording.rows("cuda_launch") if row["tid"] != row["pid"]]
    counts = Counter((row["tid"], row["grid_x"]) for row in rows)
    assert sorted(grid for _, grid in counts) == [1, 2, 3, 4, 5]
    assert set(counts.values()) == {101}
    assert {row["kernel"] for row in rows} == {"scale(float*, float)"}


@pytest.mark.parametrize("optimized", [False, True])
def test_launches_of_a_stripped_program(record: Record, nvcc: Nvcc, optimized: bool) -> None:
    """With the runtime linked in and all symbols stripped, `<<<...>>>` launches still have rows with names."""
    flags = ("-O2",) if optimized else ()
    program = nvcc.build(f"stripped{optimized}", "cuda_calls.cu", *flags, "-Xlinker", "-s")
    listed = subprocess.run(["nm", program], capture_output=True, text=True)
    assert "no symbols" in listed.stderr
    recording = record("cuda", [str(program), "7"])
    launches = [launch for launch in cuda_programs.run(program, "7").launches if launch[1:4] != (19, 2, 3)]
    assert launches_of(recording.rows("cuda_launch")) == launches
    assert len(launches) == 4 * 7
    assert not recording.rows("cuda_call")


@pytest.mark.parametrize("way", ["itself", "child"])
def test_a_runtime_that_is_loaded_later(record: Record, workload: Callable[[str], str], way: str) -> None:
    """A runtime that a watched process or its child opens during the trace is attached."""
    command = [workload("cuda_dlopen"), str(cuda_programs.toolkit() / "lib/libcudart.so.13"), "1009"]
    recording = record("cuda", command if way == "itself" else ["sh", "-c", f"{' '.join(command)}; true"])
    rows = recording.rows("cuda_call")
    assert {(row["function"], row["bytes"]) for row in rows} == {("cudaMalloc", 211)}
    assert len(rows) == 1009


def test_copies_say_between_what(record: Record, nvcc: Nvcc) -> None:
    """A copy has the given direction, or that of its addresses for cudaMemcpyDefault; a failed one has no bandwidth."""
    program = nvcc.build("shared", "cuda_calls.cu", *LINKED["shared"])
    rows = [row for row in record("cuda", [str(program)]).rows("cuda_call") if row["kind"]]
    assert [(row["function"], row["kind"]) for row in rows] == [
        ("cudaMemcpy", "H2D"),
        ("cudaMemcpy", "D2H"),
        ("cudaMemcpyAsync", "D2D"),
        ("cudaMemcpy2D", "H2H"),
        ("cudaMemcpy2DAsync", "H2H"),
        ("cudaMemcpyPeer", "D2D"),
        ("cudaMemcpyPeerAsync", "D2D"),
    ]
    assert all(row["bandwidth"] is None for row in rows if row["result"])


def test_nothing_is_attached_without_a_task(record: Record, nvcc: Nvcc) -> None:
    """Soon after a recording ends, the kernel has none of the probe's programs."""
    before = unheld()
    record("cuda", [str(nvcc.build("shared", "cuda_calls.cu", *LINKED["shared"]))])
    assert not left_behind(before)

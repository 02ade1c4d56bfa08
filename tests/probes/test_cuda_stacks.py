"""Call stacks in difficult cases, and of code that is no longer mapped when names are resolved."""

import subprocess
from pathlib import Path

import pytest
from tests.probes.cuda_programs import WORKLOADS, StandIn
from tests.probes.recording import Record, Recording

FRAMES = 64  # STACK_FRAMES in stack.bpf.h


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    return StandIn(tmp_path_factory.mktemp("stand_in"))


def build(runtime: StandIn, output: Path, *flags: object) -> Path:
    libraries = [runtime.folder / name for name in ("libcudart.so.13", "libcuda.so.1")]
    words = ["gcc", "-O1", "-fno-omit-frame-pointer", "-o", output, WORKLOADS / "cuda_stacks.c", *flags]
    words += [f"-Wl,--no-as-needed,-rpath={runtime.folder}", *libraries]
    subprocess.run([str(word) for word in words], check=True)
    return output


@pytest.fixture(scope="module")
def libraries(runtime: StandIn, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same code in three libraries, under different function names."""
    folder = tmp_path_factory.mktemp("libraries")
    names = ("linked", "alpha", "omega")
    flags = ("-shared", "-fPIC", "-DLIBRARY")
    return [build(runtime, folder / f"lib{name}.so", *flags, f"-DNAME={name}") for name in names]


@pytest.fixture(scope="module", params=["-fplt", "-fno-plt"])
def program(runtime: StandIn, libraries: list[Path], request: pytest.FixtureRequest) -> Path:
    """A program that calls libraries through the linkage table, or directly."""
    output = libraries[0].parent / f"program{request.param}"
    return build(runtime, output, request.param, libraries[0], f"-Wl,-rpath={libraries[0].parent}")


def stacks(recording: Recording) -> list[str]:
    return [row["stack"] for row in recording.rows("cuda_call") if not row["nested"]]


def test_a_deep_stack_is_marked_as_cut(record: Record, program: Path) -> None:
    """A stack without room for its outermost frames begins with [cut]; a whole stack does not."""
    (cut,) = stacks(record("cuda", [str(program), "deep", "80"]))
    assert cut == ";".join(["[cut]", *["deep"] * FRAMES])
    (whole,) = stacks(record("cuda", [str(program), "deep", "50"]))
    assert "[cut]" not in whole
    assert whole.endswith(";".join(["main", *["deep"] * 51]))


@pytest.mark.parametrize(
    ("way", "frames"),
    [
        ("stub", ["by_stub", "inner_stub"]),
        ("stubs", ["by_stubs", "outer_stub", "inner_stub"]),
        ("behind", ["before_stub", "stub_behind"]),
        ("linked", ["by_link", "linked_stub"]),
    ],
)
def test_a_stub_without_a_frame_pointer_does_not_hide_its_caller(
    record: Record, program: Path, way: str, frames: list[str]
) -> None:
    """The stack has the stub, its caller, and the caller's caller."""
    (stack,) = stacks(record("cuda", [str(program), way]))
    assert stack.endswith(";".join(["main", *frames]))


@pytest.mark.parametrize("poll", [True, False])
def test_what_was_unmapped_is_named(record: Record, program: Path, libraries: list[Path], poll: bool) -> None:
    """Libraries mapped at the same address one after the other keep their own names, even after the process's end.

    Without polling, names are looked up only after the process has ended.
    """
    command = [str(program), "open", *map(str, libraries[1:])]
    output = subprocess.run(["setarch", "-R", *command], capture_output=True, text=True, check=True).stdout
    assert len(set(output.split())) == 1, "both are at the same address"
    recording = record("cuda", command, poll=poll)
    assert [stack.rpartition(";")[2] for stack in stacks(recording)] == ["alpha", "omega"]
    assert all("main" in stack for stack in stacks(recording))

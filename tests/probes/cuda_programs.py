"""CUDA programs for the tests, compiled by nvcc. Without a GPU, every call in them fails with CUDA's own error."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path

from tests.cached import compiled

WORKLOADS = Path(__file__).parent / "workloads"


def toolkit() -> Path:
    """The folder in which the wheels install nvcc and the runtime."""
    nvcc = next(file for file in files("nvidia-cuda-nvcc") or () if file.name == "nvcc")
    return Path(str(nvcc.locate())).parents[1]


@dataclass(frozen=True)
class Nvcc:
    """Builds programs into a folder."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "libcudart.so").symlink_to(toolkit() / "lib/libcudart.so.13")

    def build(self, name: str, source: str, *flags: str, linked: Sequence[str] = ()) -> Path:
        """Compiles workloads/SOURCE to a program, or to a library if the flags say so.

        Args:
            linked: flags for the linker only, such as paths that are never the same; its folders come first.
        """
        program = self.folder / name
        if not program.exists():
            nvcc = toolkit() / "bin/nvcc"
            object_ = compiled(self.folder / f"{name}.o", nvcc, ["-std=c++17", *flags, "-c"], WORKLOADS / source)
            libraries: list[str | Path] = [*linked, "-L", self.folder, "-L", toolkit() / "lib"]
            libraries += ["-Xlinker", f"-rpath={toolkit() / 'lib'}"]
            subprocess.run([nvcc, *flags, "-o", program, object_, *libraries], check=True)
        return program


@dataclass(frozen=True)
class StandIn:
    """A runtime and a driver whose calls succeed (cuda_stand_in.c), built into a folder of their own.

    Attributes:
        made: whether the folder already has both libraries.
        protection: with "full", functions begin with endbr64, as Ubuntu's compiler builds them; with "none", not.
    """

    folder: Path
    protection: str = "none"
    made: bool = False

    def __post_init__(self) -> None:
        if self.made:
            return
        flags = ["-O1", "-fPIC", "-shared", "-fno-omit-frame-pointer", "-fno-shrink-wrap"]
        flags.append(f"-fcf-protection={self.protection}")
        driver, runtime = self.folder / "libcuda.so.1", self.folder / "libcudart.so.13"
        for library, *more in ((driver, "-DDRIVER"), (runtime,)):
            versions = [f"-Wl,-soname,{library.name}", f"-Wl,--version-script={WORKLOADS / library.name}.map"]
            needed = [driver] if library is runtime else []
            compiled(library, "gcc", [*flags, *versions, *more], WORKLOADS / "cuda_stand_in.c", *needed)

    def build(self, nvcc: Nvcc, name: str, source: str) -> Path:
        """Compiles workloads/SOURCE to a program that runs with the stand-in."""
        return nvcc.build(
            name,
            source,
            *("-cudart", "shared", "-Xcompiler", "-fno-omit-frame-pointer"),
            linked=("-Xlinker", str(self.folder / "libcuda.so.1"), "-Xlinker", f"-rpath={self.folder}"),
        )


@dataclass(frozen=True)
class Account:
    """The calls and launches that cuda_calls.cu prints."""

    calls: list[tuple[str, int, int]]  # function, result, bytes
    launches: list[tuple[object, ...]]  # result, grid, block, shared bytes, kernel


def run(program: Path, *arguments: str) -> Account:
    """Runs the program without a probe; it makes the same calls every time."""
    return account_of(subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout)


def account_of(output: str) -> Account:
    """Parses the program's output."""
    lines = [line.split(maxsplit=9) for line in output.splitlines()]
    return Account(
        [(words[1], int(words[2]), int(words[3])) for words in lines if words[0] == "call"],
        [(*map(int, words[1:9]), words[9]) for words in lines if words[0] == "launch"],
    )


def launches_of(rows: Sequence[dict[str, object]]) -> list[tuple[object, ...]]:
    """Recorded launches in the format of `Account.launches`."""
    shape = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes", "kernel")
    return [tuple(row[name] for name in ("result", *shape)) for row in rows]

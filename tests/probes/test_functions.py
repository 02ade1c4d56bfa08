"""Attaching to more user-space functions does not disturb the recording of those already attached."""

import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.probes.cuda_programs import WORKLOADS, StandIn
from tests.probes.recording import Record

from scope_bpf.capture.uprobe import Uprobes
from scope_bpf.code import effort
from scope_bpf.code.modules import Module

SYMBOLS = 200_000
TIMES = 100_000


@pytest.fixture
def large_library(tmp_path: Path) -> Path:
    """A library of many functions, one of them a CUDA function."""
    source, library = tmp_path / "large.s", tmp_path / "liblarge.so"
    function = ".globl {0}\n.type {0}, @function\n{0}: push %rbp\nxor %eax, %eax\npop %rbp\nret\n.size {0}, .-{0}\n"
    names = [f"_ZN5large8templateINS_4typeILi{n}EEEE8functionEv" for n in range(SYMBOLS)]
    text = "".join(map(function.format, ["cudaSetDevice", *names]))
    source.write_text(f".text\n{text}.section .note.GNU-stack\n")
    subprocess.run(["gcc", "-shared", "-o", library, source], check=True)
    return library


def test_a_large_library_is_attached_to_under_full_load(record: Record, large_library: Path, tmp_path: Path) -> None:
    """No call of an attached function is lost while the symbols of a large library are read."""
    runtime, program = StandIn(tmp_path).folder / "libcudart.so.13", tmp_path / "program"
    flags: list[str | Path] = [
        "-O1",
        "-pthread",
        f"-Wl,--no-as-needed,-rpath={tmp_path}",
        runtime,
        tmp_path / "libcuda.so.1",
        "-ldl",
    ]
    subprocess.run(["gcc", "-o", program, WORKLOADS / "large_library.c", *flags], check=True)
    recording = record("cuda", [str(program), str(TIMES), str(large_library)], stacks=False)
    assert recording.status == 0
    assert {name: account.lost for name, account in recording.accounts.items() if account.lost} == {}
    assert recording.accounts["cuda_call"].emitted == recording.count("cuda_call")
    calls = recording.table("cuda_call").select(["function", "nested"]).to_pylist()
    counts = Counter(row["function"] for row in calls if not row["nested"])
    assert (counts["cudaMalloc"], counts["cudaFree"]) == (TIMES, TIMES)
    assert 0 < counts["cudaSetDevice"] <= 1000, "the large library's, once it was attached to"


def test_files_that_take_too_long_are_told(
    record: Record, workload: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose tables cost more CPU time than a file gets is named: functions in it may be missing."""
    program = workload("spin")
    assert not [note for note in record("llama", [program, "3"]).notes if "not looked for" in note]
    monkeypatch.setattr(effort, "MOST_S", -1e9)
    notes = record("llama", [program, "3"]).notes
    assert [note for note in notes if note.startswith(f"functions not looked for: {program}: what is left after ")]


def test_the_files_of_a_command_are_read_once(
    record: Record, workload: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without functions that are read before a command runs are not read again once it has mapped them."""
    program, read, attach = workload("spin"), Counter[str](), Uprobes.attach

    def counted(self: Uprobes, module: Module, found: Mapping[str, int]) -> int:
        read[module.path] += 1
        return attach(self, module, found)

    monkeypatch.setattr(Uprobes, "attach", counted)
    record("cuda", [program, "30000000"])  # long enough to be looked at while it runs
    assert read[program] == 1
    assert set(read.values()) == {1}

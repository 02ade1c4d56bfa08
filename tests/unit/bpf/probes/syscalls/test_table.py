"""The generated tables of syscalls."""

import pytest

from scope_bpf.probes.syscalls.table import ARM64, X86_64


@pytest.mark.parametrize("table", [X86_64, ARM64], ids=["x86_64", "arm64"])
def test_a_name_belongs_to_one_number(table: dict[int, str]) -> None:
    """Each name belongs to one syscall, so the name selects this syscall."""
    assert len(set(table.values())) == len(table)
    assert all(name.isidentifier() for name in table.values())


@pytest.mark.parametrize(
    ("table", "number", "name"),
    [
        (X86_64, 0, "read"),
        (X86_64, 59, "execve"),
        (X86_64, 231, "exit_group"),
        (X86_64, 334, "rseq"),
        (X86_64, 335, "uretprobe"),
        (ARM64, 0, "io_setup"),
        (ARM64, 63, "read"),
        (ARM64, 221, "execve"),
        (ARM64, 291, "statx"),
        (ARM64, 435, "clone3"),
        (X86_64, 435, "clone3"),
        (X86_64, 462, "mseal"),
        (ARM64, 462, "mseal"),
    ],
)
def test_known_numbers(table: dict[int, str], number: int, name: str) -> None:
    """Some syscalls have the numbers of the kernel's tables, which never change."""
    assert table[number] == name


def test_there_are_no_holes() -> None:
    """Every number up to the last has a name, except in the ranges that the kernel skips."""
    assert set(X86_64) == {*range(337), *range(424, max(X86_64) + 1)}
    assert set(ARM64) == {*range(244), *range(260, 295), *range(424, max(ARM64) + 1)}

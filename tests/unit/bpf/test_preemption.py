"""Nothing preempts the programs of functions and packets where the kernel allows a program to say so."""

import numpy as np
import pytest
from tests.unit.bpf.functions import CALL, FRAME_POINTER, LOADS, STORES, Array, Function, functions_of

from scope_bpf.catalogue.probe import OBJECTS

EXIT, JUMP = 0x95, 0x05  # include/uapi/linux/bpf.h
PREEMPTED = ("uprobe", "uretprobe", "cgroup_skb")  # by default; the kernel itself keeps others from running twice


def programs_of(name: str) -> list[Function]:
    """The programs of an object that a thread could run while another thread on its CPU is in the same program."""
    functions = functions_of(OBJECTS / name).values()
    return [function for function in functions if function.section.partition("/")[0] in PREEMPTED]


@pytest.mark.parametrize("name", sorted(path.name for path in OBJECTS.glob("*.bpf.o") if programs_of(path.name)))
def test_a_program_is_not_preempted(name: str) -> None:
    """It says so before it uses its stack, which other threads on the CPU may share, and to the end of its work."""
    for program in programs_of(name):
        at = {extern: place for place, extern in program.externs.items()}
        assert {"bpf_preempt_disable", "bpf_preempt_enable"} <= at.keys(), f"{program.name} is not SCOPE_UNPREEMPTED"
        code = program.code
        before, after = code[: at["bpf_preempt_disable"]], _until_exit(code, at["bpf_preempt_enable"] + 1)
        assert not (_uses_stack(before) | _uses_stack(after)).any(), program.name
        assert CALL not in before["code"] and CALL not in after["code"], program.name


def _until_exit(code: Array, at: int) -> Array:
    """The instructions that run from here to the end of the program."""
    path = []
    while code[at]["code"] != EXIT:
        if code[at]["code"] == JUMP:
            at += int(code[at]["offset"])
        else:
            path.append(at)
        at += 1
    return code[path]


def _uses_stack(code: Array) -> Array:
    """Which instructions write anything, or read from the stack."""
    kind, of = code["code"] & 7, code["registers"] >> 4
    uses: Array = np.isin(kind, STORES) | np.isin(kind, LOADS) & (of == FRAME_POINTER)
    return uses

"""What a build of ggml says of its tensors: where their members are, and what the numbers of operations mean.

Both differ from version to version, and builds do not tell their version. So they are read in the code of short
functions that every build exports: it has the offsets of the members, and the address of the table of names. Code that
is not the known one leaves all unknown. Only x86-64.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scope_bpf.code.elf import X86_64, ElfFile
from scope_bpf.errors import LayoutMismatch

_ENDBR64 = rb"(?:\xf3\x0f\x1e\xfa)?"
_MOST_CODE = 64  # bytes
_MOST_OPERATIONS = 256
_OPERATION = re.compile(r"[A-Z0-9_]+")

# What GCC makes of them, at any level of optimization. clang's differ: it has a table of differences of addresses.
_CODE = {
    "ggml_get_name": rb"\x48\x8d\x87(?P<name>.{4})\xc3",  # lea NAME(%rdi),%rax
    # mov NE(%rdi),%rax; three times imul NE(%rdi),%rax; ret
    "ggml_nelements": rb"\x48\x8b\x47(?P<a>.)"
    + b"".join(rb"\x48\x0f\xaf\x47(?P<%c>.)" % by for by in b"bcd")
    + rb"\xc3",
    "ggml_get_unary_op": rb"\x83\x7f(?P<op>.)(?P<unary>.)",  # cmpl $GGML_OP_UNARY,OP(%rdi)
    # mov to clear the upper half; lea TABLE(%rip),%reg; mov (%reg,%reg,8),%rax; ret
    "ggml_op_name": rb"\x89[\xc0-\xff]\x48\x8d[\x05\x0d\x15\x35](?P<table>.{4})\x48\x8b\x04[\xc0-\xff]\xc3",
}
_NAMES_AT = (0, 8)  # in `names` of struct ggml_tensor (bpf/probes/ggml/frames.bpf.h): since December 2024, and before

# enum ggml_type in ggml.h. Files of models hold these numbers, so their meanings do not change.
TYPES = {
    **{0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 9: "q8_1", 10: "q2_K", 11: "q3_K"},
    **{12: "q4_K", 13: "q5_K", 14: "q6_K", 15: "q8_K", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s"},
    **{20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 24: "i8", 25: "i16", 26: "i32", 27: "i64", 28: "f64"},
    **{29: "iq1_m", 30: "bf16", 34: "tq1_0", 35: "tq2_0", 39: "mxfp4", 40: "nvfp4", 41: "q1_0", 42: "q2_0"},
}


@dataclass(frozen=True)
class Tensors:
    """What is known of the tensors of a build.

    Attributes:
        name_at: offset of the name in the copied bytes `names`.
        operations: names of operations by number, such as MUL_MAT.
    """

    name_at: int
    operations: tuple[str, ...]


def tensors_of(elf: ElfFile, members: Mapping[str, int]) -> Tensors | None:
    """What a file says; None: it does not contain ggml.

    Args:
        members: offsets of the members of struct ggml_tensor, as the BPF program has them.

    Raises:
        LayoutMismatch: it has ggml, but its code is not the known one, or the members are elsewhere.
    """
    offsets = elf.functions(_CODE)
    if "ggml_op_name" not in offsets:
        return None
    if elf.machine != X86_64:
        raise LayoutMismatch("the layout of its tensors is only known on x86-64")
    found: dict[str, bytes] = {}
    for function, code in _CODE.items():
        text = elf.read(offsets[function], _MOST_CODE) if function in offsets else b""
        match = re.match(_ENDBR64 + code, text, re.DOTALL)
        if not match:
            raise LayoutMismatch(f"the layout of its tensors is unknown: {function} is not the known code")
        found |= match.groupdict()
        if "table" in match.groupdict():
            after = (elf.address_of(offsets[function]) or 0) + match.end("table")
            table = after + int.from_bytes(found["table"], "little", signed=True)
    sizes = sorted(found[each][0] for each in "abcd")
    name_at = int.from_bytes(found["name"], "little") - members["names"]
    if sizes != [members["ne"] + 8 * number for number in range(4)] or found["op"][0] != members["op"]:
        raise LayoutMismatch("the layout of its tensors is unknown: members are at other places")
    if name_at not in _NAMES_AT:
        raise LayoutMismatch("the layout of its tensors is unknown: the name is at another place")
    operations = _operations(elf, table)
    if operations[:1] != ("NONE",) or operations[found["unary"][0] : found["unary"][0] + 1] != ("UNARY",):
        raise LayoutMismatch("the names of its operations are unknown: their table is not where it should be")
    return Tensors(name_at, operations)


def _operations(elf: ElfFile, table: int) -> tuple[str, ...]:
    """The texts that a table of pointers refers to, up to the first one that is no operation's name."""
    stored = np.frombuffer(elf.read_at(table, 8 * _MOST_OPERATIONS).ljust(8 * _MOST_OPERATIONS, b"\0"), "<i8")
    relocated = elf.pointers_at(table + 8 * np.arange(_MOST_OPERATIONS))
    names: list[str] = []
    for pointer in np.where(relocated >= 0, relocated, stored).tolist():
        name = elf.text_at(pointer) if pointer > 0 else None
        if not name or not _OPERATION.fullmatch(name):
            break
        names.append(name)
    return tuple(names)

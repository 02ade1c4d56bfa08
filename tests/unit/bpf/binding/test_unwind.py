"""Unwind rows, compared with those of readelf."""

import errno
import random
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from scope_bpf.binding.unwind import Rows, functions_in, unwind_rows
from scope_bpf.code.elf import ElfFile
from scope_bpf.errors import KernelError
from scope_bpf.layout.records import enum_values, record_dtype
from scope_bpf.probes import probe_named

BTF = probe_named("profile").btf
ROW = record_dtype(BTF, "unwind_row")
RULES = {number: name for name, number in enum_values(BTF, "unwind_rule").items()}
FUNCTION = re.compile(r"FDE cie=\w+ pc=(\w+)\.\.(\w+)")
REGISTER = re.compile(r" \(\w+\)")  # the name behind a register's number
LINE = re.compile(r"^([0-9a-f]{16}) (\S+)\s+(.*)$")


def told_by_readelf(path: Path) -> dict[int, tuple[str, str, str]]:
    """CFA, and where the frame pointer and the return address are saved, by address; functions' ends have none."""
    output = subprocess.run(["readelf", "-wF", path], capture_output=True, text=True).stdout  # warns with status 1
    rows: dict[int, tuple[str, str, str]] = {}
    starts: set[int] = set()
    ends: set[int] = set()
    columns: list[str] = []
    is_function = False
    for line in output.splitlines():
        if found := FUNCTION.search(line):
            is_function = True
            starts.add(int(found[1], 16))
            ends.add(int(found[2], 16))
        elif " CIE " in line:
            is_function = False
        elif line.strip().startswith("LOC"):
            columns = line.split()[2:] if is_function else []
        elif (found := LINE.match(line)) and columns:
            saved = dict(zip(columns, REGISTER.sub("", found[3]).split(), strict=False))
            rows[int(found[1], 16)] = found[2], saved.get("rbp", "u"), saved.get("ra", "u")
    return {**dict.fromkeys(ends - starts, ("none", "u", "u")), **rows}


def rows_of(path: Path) -> Rows:
    with path.open("rb") as file:
        address, section = ElfFile(file).section(".eh_frame")
    return unwind_rows(section, address, 0, ROW)


@pytest.fixture(scope="module", params=["libc.so.6", "libstdc++.so.6", "/usr/bin/python3.11", "/bin/bash"])
def file(request: pytest.FixtureRequest) -> Path:
    """A file of this machine, built by somebody else."""
    if request.param.startswith("/"):
        return Path(request.param)
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return next(
        Path(line.split("=> ")[1]) for line in listed.splitlines() if request.param in line and "x86-64" in line
    )


def test_rows_are_those_of_readelf(file: Path) -> None:
    """At every address at which a rule begins, the row in force has the same CFA and the same frame pointer."""
    told, rows = told_by_readelf(file), rows_of(file)
    assert len(told) > 1000
    checked = 0
    in_force = rows[np.searchsorted(rows["pc"], list(told), "right") - 1]
    for row, (cfa, fp, ra) in zip(in_force, told.values(), strict=True):
        rule = RULES[int(row["rule"])]
        register, _, offset = cfa.partition("+")
        if rule == "UNWIND_END":
            assert ra == "u"
        elif rule in ("UNWIND_SP", "UNWIND_FP"):
            assert register == {"UNWIND_SP": "rsp", "UNWIND_FP": "rbp"}[rule]
            assert int(row["cfa"]) * 8 == int(offset)
            saved = {"u": 0, "s": 0}.get(fp)
            assert int(row["fp"]) == (1 if fp == "exp" else saved if saved is not None else int(fp[1:]) // 8)
            checked += 1
        else:
            assert register in ("exp", "none", "r10", "rdi", "rdx", "rcx", "rax", "rbx", "rsi") or fp == "exp"
    assert checked > 0.95 * len([cfa for cfa, _, _ in told.values() if cfa != "none"])


def test_rows_are_in_order_and_differ() -> None:
    """So that a search finds the rule in force, and no row says nothing new."""
    rows = rows_of(Path("/bin/bash"))
    assert np.all(np.diff(rows["pc"].astype(np.int64)) > 0)
    same = (rows[1:]["rule"] == rows[:-1]["rule"]) & (rows[1:]["cfa"] == rows[:-1]["cfa"])
    assert not np.any(same & (rows[1:]["fp"] == rows[:-1]["fp"]))


def test_rows_count_from_the_base() -> None:
    """A file at a high address has rows, too."""
    rows = rows_of(Path("/bin/bash"))
    with Path("/bin/bash").open("rb") as file:
        address, section = ElfFile(file).section(".eh_frame")
    assert unwind_rows(section, address, 0x1000, ROW)["pc"][0] == rows["pc"][0] - 0x1000


def test_no_section_has_no_rows() -> None:
    """A file may have been built without the section."""
    assert len(unwind_rows(b"", 0, 0, ROW)) == 0


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_section_is_survived(seed: int) -> None:
    """Bytes of any kind give some rows, and never read or write outside."""
    chosen = random.Random(seed)
    with Path("/bin/bash").open("rb") as file:
        address, section = ElfFile(file).section(".eh_frame")
    damaged = bytearray(section[: chosen.randrange(20_000)])
    for _ in range(chosen.randrange(1, 200)):
        if damaged:
            damaged[chosen.randrange(len(damaged))] = chosen.choice((0, 0xFF, 0x7F, chosen.randrange(256)))
    unwind_rows(bytes(damaged), address, 0, ROW)
    unwind_rows(chosen.randbytes(5000), address, 0, ROW)
    for functions in (functions_in(bytes(damaged), address), functions_in(chosen.randbytes(5000), address)):
        assert np.all(functions["start"] < functions["end"])


def test_functions_are_those_of_readelf(file: Path) -> None:
    """Each one's begin and end, in order; but not the frames of signal handlers' callers, which begin before it."""
    output = subprocess.run(["readelf", "-wF", file], capture_output=True, text=True).stdout
    signals = set(re.findall(r'^(\w+) .* CIE "zRS', output, re.MULTILINE))
    told = re.findall(r"FDE cie=(\w+) pc=(\w+)\.\.(\w+)", output)
    with file.open("rb") as opened:
        address, section = ElfFile(opened).section(".eh_frame")
    found = functions_in(section, address)
    assert sorted((int(one[1], 16), int(one[2], 16)) for one in told if one[0] not in signals) == found.tolist()
    assert len(found) > 500


def record(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def cie(program: bytes) -> bytes:
    """A CIE for absolute addresses: no augmentation, units 1 and -8, return address in 16."""
    return record(struct.pack("<IB", 0, 1) + b"\0" + b"\x01\x78\x10" + program)


def fde(at: int, common: int, start: int, size: int, program: bytes) -> bytes:
    """An FDE that lies at `at`, and refers to the CIE at `common`."""
    return record(struct.pack("<IQQ", at + 4 - common, start, size) + program)


DEF_CFA = b"\x0c\x07\x08"  # rsp + 8
NOP, ADVANCE_1 = b"\0", b"\x41"
LONG = 1 << 20


def test_a_long_cie_is_run_once() -> None:
    """However many functions share it: 100,000 functions times a million instructions would take hours."""
    section = bytearray(cie(DEF_CFA + NOP * LONG))
    for number in range(100_000):
        section += fde(len(section), 0, number * 16, 16, NOP)
    rows = unwind_rows(bytes(section), 0, 0, ROW)
    assert rows["pc"].tolist() == [0, 1_600_000]
    assert len(functions_in(bytes(section), 0)) == 100_000


@pytest.mark.parametrize("is_string", [False, True])
def test_long_cies_in_turn_are_refused(is_string: bool) -> None:
    """The bytes of CIEs that are read are counted. An ordinary file's are far from the limit."""
    long = cie(DEF_CFA + NOP * LONG)
    if is_string:  # a long string instead of instructions
        long = record(struct.pack("<IB", 0, 1) + b"z" * LONG + b"\0\x01\x78\x10\0" + DEF_CFA)
    section = bytearray(long + long)
    for number in range(100_000):
        section += fde(len(section), number % 2 * len(long), number * 16, 16, NOP)
    for read in (lambda: unwind_rows(bytes(section), 0, 0, ROW), lambda: functions_in(bytes(section), 0)):
        with pytest.raises(KernelError) as refused:
            read()
        assert refused.value.errno == errno.E2BIG
    few = bytes(section[: 2 * len(long) + 10 * 25])
    assert len(unwind_rows(few, 0, 0, ROW)) > 0, "as long as there are few of them"


def test_overlapping_functions() -> None:
    """Each makes rows for its own instructions only, however much code it claims; an end does not hide a begin."""
    section = bytearray(cie(DEF_CFA))
    for number in range(1000):
        section += fde(len(section), 0, number, 1 << 30, ADVANCE_1 * 3)
    rows = unwind_rows(bytes(section), 0, 0, ROW)
    assert rows["pc"].tolist() == [0, 1 << 30]


def test_instructions_behind_the_end_of_a_function_are_not_run() -> None:
    """Also where addresses overflow: no row is about code of others."""
    section = bytearray(cie(DEF_CFA))
    loop = b"\x04\xff\xff\xff\xff" + b"\x0e\x10"  # advance by 4 G; rsp + 16
    section += fde(len(section), 0, 0x1000, 16, loop * 1000)
    rows = unwind_rows(bytes(section), 0, 0, ROW)
    assert rows["pc"].tolist() == [0x1000, 0x1010]


def test_too_many_rows_are_refused() -> None:
    """33 million, which would take 512 MB."""
    section = bytearray(cie(DEF_CFA))
    section += fde(len(section), 0, 0, 1 << 31, (ADVANCE_1 + b"\x0e\x10" + ADVANCE_1 + b"\x0e\x08") * (1 << 24))
    with pytest.raises(KernelError) as refused:
        unwind_rows(bytes(section), 0, 0, ROW)
    assert refused.value.errno == errno.E2BIG

"""32-bit programs on a 64-bit kernel: probes record their calls, whose numbers are their own."""

import errno
import platform
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.probes.conftest import WORKLOADS
from tests.probes.recording import ONE_INTERVAL_MS, Record

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the 32-bit program is one of i386")

HEADERS = "/usr/include/x86_64-linux-gnu"  # where Debian has asm/, if anywhere but in /usr/include
BUILD = ["gcc", "-m32", "-O1", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-fno-stack-protector", f"-I{HEADERS}"]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A 32-bit program without a C library, so no package besides the compiler is needed."""
    path = tmp_path_factory.mktemp("compat") / "compat"
    subprocess.run([*BUILD, "-o", path, WORKLOADS / "compat.c"], check=True)
    if subprocess.run([path, path.parent], check=False).returncode:
        pytest.skip("this kernel runs no 32-bit programs (CONFIG_IA32_EMULATION)")
    return str(path)


def test_opens_of_a_32_bit_program_are_recorded(record: Record, program: str, tmp_path: Path) -> None:
    """Every open has its absolute path, flags, mode and result, by int 0x80 as by the vDSO."""
    recording = record("files", [program, str(tmp_path)])
    rows = [row for row in recording.rows("open") if str(row["path"]).startswith(str(tmp_path))]
    counted = Counter((Path(row["path"]).resolve().name, row["flags"], row["mode"], min(row["ret"], 0)) for row in rows)
    read_write, write_only, create, truncate, append, directory = 2, 1, 0o100, 0o1000, 0o2000, 0o200000
    assert counted == {
        ("opened", create | read_write, 0o640, 0): 101,
        ("created", create | write_only | truncate, 0o600, 0): 13,
        ("absent", 0, 0, -2): 11,
        (tmp_path.name, directory, 0, 0): 1,
        ("opened", 0, 0, 0): 31,
        ("created", write_only | append, 0, 0): 17,
        ("used", create | read_write | 0o100000, 0o600, 0): 1,
        (tmp_path.name, 0, 0, 0): 1,
        ("cut", create | read_write, 0o600, 0): 1,
    }
    assert {row["comm"] for row in rows} == {"compat"}
    assert recording.notes == []


def test_other_calls_of_a_32_bit_program_are_recorded(record: Record, program: str, tmp_path: Path) -> None:
    """Stats, renames and so on have their operation, paths and result."""
    rows = record("files", [program, str(tmp_path)]).rows("file_op")
    counted = Counter((row["operation"], row["path"], row["new_path"], row["ret"]) for row in rows)
    cut, made, deep, moved = (f"{tmp_path}/{name}" for name in ("cut", "made", "made/moved", "moved"))
    assert counted == {
        ("mkdir", made, None, 0): 1,
        ("stat", cut, None, 0): 31 + 23,
        ("stat", f"{tmp_path}/none", None, -2): 29,
        ("truncate", cut, None, 0): 19 + 17,
        ("fsync", cut, None, 0): 13,
        ("rename", cut, deep, 0): 1,
        ("rename", deep, moved, 0): 1,
        ("unlink", moved, None, 0): 1,
        ("rmdir", made, None, 0): 1,
    }


def test_reads_and_writes_of_a_32_bit_program_are_counted(record: Record, program: str, tmp_path: Path) -> None:
    """Counts and bytes per file are the program's; failed reads are counted apart."""
    recording = record("files", [program, str(tmp_path)], mode="summary", interval_ms=ONE_INTERVAL_MS)
    by_path: dict[str, dict[str, Any]] = {row["path"]: row for row in recording.rows("file_summary")}
    used, directory = by_path[f"{tmp_path}/used"], by_path[str(tmp_path)]
    assert (used["writes"], used["write_errors"]) == (61 + 23 + 37 + 43, 0)
    assert used["write_bytes"] == 61 * 7 + 23 * 5 + 37 * 11 + 43 * 5
    assert (used["reads"], used["read_errors"]) == (29 + 41 + 53 + 19, 0)
    assert used["read_bytes"] == 29 * 13 + 41 * 5 + 53 * 3 + 19 * 5
    assert used["inode"] == (tmp_path / "used").stat().st_ino
    assert (directory["reads"], directory["read_errors"]) == (5, 5)


def test_32_bit_calls_have_the_names_that_strace_shows(record: Record, program: str, tmp_path: Path) -> None:
    """Every call is named from i386's table; execve, which begins as a 64-bit call, has its name too."""
    log = tmp_path / "log"
    subprocess.run(["strace", "-qq", "-o", log, program, str(tmp_path)], check=True)
    shown = Counter(re.findall(r"^(\w+)\(", log.read_text(), re.MULTILINE))
    shown += Counter(socketcall=4)  # strace shows these as what they do
    shown -= Counter(connect=4)
    recording = record("syscalls", [program, str(tmp_path)])
    assert Counter(row["name"] for row in recording.rows("syscall")) == shown
    assert sum(shown.values()) > 500
    summary = record("syscalls", [program, str(tmp_path)], mode="summary", interval_ms=ONE_INTERVAL_MS)
    counted: Counter[str] = Counter()
    for row in summary.rows("syscall_summary"):
        counted[row["name"]] += row["count"]
    assert counted == shown


def test_32_bit_calls_are_chosen_by_name(record: Record, program: str, tmp_path: Path) -> None:
    """A name chooses the 32-bit call with that name, with the registers of its arguments, and no other number."""
    rows = record("syscalls", [program, str(tmp_path)], names="pwrite64,creat").rows("syscall")
    assert Counter(row["name"] for row in rows) == {"pwrite64": 37, "creat": 13}
    written = [row for row in rows if row["name"] == "pwrite64"]
    columns = ("arg0", "arg2", "arg3", "arg4", "ret")
    assert {tuple(row[column] for column in columns) for row in written} == {(3, 11, 0, 1, 11)}
    assert {row["arg1"] for row in rows if row["name"] == "creat"} == {0o600}


def test_mappings_of_a_32_bit_program_are_recorded(record: Record, program: str, tmp_path: Path) -> None:
    """Each call that changes the address space has its growth, in pages; one that fails has its error; mmap's older
    form, whose arguments are in memory, has its arguments."""
    rows = record("memory", [program, str(tmp_path)]).rows("mapping")
    rows = [row for row in rows if row["comm"] == "compat"]
    private, anonymous = 2, 0x20
    assert Counter((row["call"], row["grown_bytes"] // 4096, row["flags"], row["error"]) for row in rows) == {
        ("mmap", 1009, private | anonymous, 0): 17,
        ("munmap", -1009, None, 0): 13,
        ("mmap", 3, private | anonymous, 0): 7,
        ("mremap", 500, None, 0): 7,
        ("brk", 11, None, 0): 5,
        ("mmap", 0, private, -errno.EBADF): 1,
    }
    assert {row["length_bytes"] for row in rows if row["grown_bytes"] == 3 * 4096} == {3 * 4096}
    assert all(0 < row["address"] < 1 << 32 for row in rows if not row["error"])
    assert {row["stack"] for row in rows} == {None}


def test_waits_of_a_32_bit_program_for_locks_are_recorded(record: Record, program: str, tmp_path: Path) -> None:
    """Each wait has its kind, holder and result, with times of 32 as of 64 bits; a call that only wakes is none."""
    recording = record("locks", [program, str(tmp_path)])
    rows = [row for row in recording.rows("lock_wait") if row["comm"] == "compat"]
    columns = ("kind", "owner_tid", "has_timeout", "ret")
    assert Counter(tuple(row[column] for column in columns) for row in rows) == {
        ("other", None, 1, -errno.ETIMEDOUT): 17 + 7,
        ("other", None, 0, -errno.EAGAIN): 23,
        ("lock", 4242, 1, -errno.ETIMEDOUT): 5,
        ("lock", recording.pid, 0, -errno.EDEADLK): 3,
    }
    assert min(row["duration_ns"] for row in rows if row["has_timeout"]) >= 1_000_000
    assert {row["stack"] for row in rows} == {None}


def test_32_bit_calls_that_wait_are_named(record: Record, program: str, tmp_path: Path) -> None:
    """Blocked time is put down to the call by its name in i386's table, and to the file that it waits for."""
    recording = record("why", [program, str(tmp_path)], interval_ms=ONE_INTERVAL_MS, stacks=True)
    counted: Counter[tuple[str, str | None]] = Counter()
    for row in recording.rows("why_summary"):
        if row["blocked_ns"] and row["thread_comm"] == "compat":
            counted[row["blocked_in"], row["file_kind"]] += row["count"]
            assert row["stack"] is None
    expected = {("poll", "pipe"): 13, ("nanosleep", None): 11, ("read", "kernel object"): 7}
    assert {key: counted[key] for key in expected} == expected
    assert counted["futex", None] == 17 + 5
    assert counted["futex_time64", None] == 7


def test_connects_of_a_32_bit_program_that_send_nothing(record: Record, program: str, tmp_path: Path) -> None:
    """Each has a row with its peer, error and process: by connect and socketcall, and by sendto and sendmmsg with
    MSG_FASTOPEN."""
    recording = record("net", [program, str(tmp_path)])
    rows = [row for row in recording.rows("connection") if row["pid"] == recording.pid]
    columns = ("comm", "remote", "remote_port", "error", "ended")
    failed = ("compat", "127.255.255.255")
    assert Counter(tuple(row[column] for column in columns) for row in rows) == {
        (*failed, 1009, -errno.ENETUNREACH, "connect_failed"): 6 + 4,
        (*failed, 1013, -errno.ENETUNREACH, "connect_failed"): 3 + 2,
    }


def test_a_32_bit_program_has_what_it_accepted(record: Record, program: str, tmp_path: Path) -> None:
    """By accept4 and socketcall: connections that a child closes, and that nobody has used."""
    recording = record("net", [program, str(tmp_path), "accepts"])
    rows = recording.rows("connection")
    assert Counter((row["direction"], row["pid"]) for row in rows) == {
        ("incoming", recording.pid): 7 + 3,
        ("outgoing", recording.pid): 7 + 3,
    }

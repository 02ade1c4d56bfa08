"""32-bit programs on a 64-bit kernel: `files` and `syscalls` record their calls, whose numbers are their own."""

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

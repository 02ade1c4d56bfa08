"""What io_uring does for a program: `files` records it as it does calls."""

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

LARGE = 0o100000 if os.uname().machine == "x86_64" else 0o400000  # O_LARGEFILE, which io_uring adds

Operate = Callable[..., Recording]


@pytest.fixture
def operate(record: Record, workload: Callable[[str], str], tmp_path: Path) -> Operate:
    """Records the program that uses io_uring in `tmp_path`."""

    def run(*how: str, **options: object) -> Recording:
        recording = record("files", [workload("operations"), str(tmp_path), *how], **options)
        if recording.status == 2:
            pytest.skip("this kernel has no io_uring for this user")
        assert recording.status == 0
        return recording

    return run


@pytest.mark.parametrize("how", ["submitted", "sqpoll"])
def test_opens_by_io_uring_are_recorded(operate: Operate, tmp_path: Path, how: str) -> None:
    """Every open has its path, flags, mode and result, whether the process, a worker or the kernel's poller runs it."""
    recording = operate(how)
    rows = [row for row in recording.rows("open") if row["io_uring"]]
    made = str(tmp_path / "made")
    assert Counter((row["path"], row["flags"], row["mode"], min(row["ret"], 0)) for row in rows) == {
        (made, os.O_CREAT | os.O_RDWR | LARGE, 0o640, 0): 53,
        (made, os.O_RDONLY | LARGE, 0, 0): 31,
        (made, os.O_WRONLY | os.O_APPEND | LARGE, 0, 0): 17,
        ("/nonsense/absent", os.O_RDONLY | LARGE, 0, -2): 11,
        (None, os.O_RDONLY, 0, -14): 7,  # its name is unreadable, so it was not even prepared
        (str(tmp_path / "used"), os.O_CREAT | os.O_RDWR | LARGE, 0o600, 0): 1,
    }
    assert {row["pid"] for row in rows} == {recording.pid}
    if how == "submitted":
        assert {(row["tid"], row["comm"]) for row in rows} == {(recording.pid, "operations")}
    assert all(row["duration_ns"] > 0 for row in rows)
    assert recording.accounts["open"].incomplete == 0
    assert recording.notes == []


def test_reads_and_writes_by_io_uring_are_counted(operate: Operate, tmp_path: Path) -> None:
    """Counts and bytes per file equal the program's, also through registered files; failures are counted apart. A
    splice reads one file and writes another."""
    recording = operate(mode="summary", interval_ms=ONE_INTERVAL_MS)
    by_path = {row["path"]: row for row in recording.rows("file_summary")}
    used, directory = by_path[str(tmp_path / "used")], by_path[str(tmp_path)]
    assert (used["writes"], used["write_bytes"], used["write_errors"]) == (43 + 23, 43 * 7 + 23 * 5, 0)
    read_bytes = 37 * 3 + 19 * 5 + 9 * 6 + 13 * 2 + 4
    assert (used["reads"], used["read_bytes"], used["read_errors"]) == (37 + 19 + 9 + 13 + 1, read_bytes, 0)
    assert (sum(used["write_latency"]), sum(used["read_latency"])) == (43 + 23, 37 + 19 + 9 + 13 + 1)
    (pipe,) = [row for row in by_path.values() if row["file_type"] == stat.S_IFIFO and row["write_bytes"]]
    assert (pipe["writes"], pipe["write_bytes"], pipe["write_errors"]) == (9 + 3, 9 * 6 + 4, 2)
    assert used["inode"] == (tmp_path / "used").stat().st_ino
    assert (directory["reads"], directory["read_errors"]) == (5, 5)
    assert recording.notes == []


def test_other_operations_by_io_uring_are_recorded(operate: Operate, tmp_path: Path) -> None:
    """Each has its operation, its names as absolute paths or the file's own path, and its result."""
    recording = operate("others")
    rows = [row for row in recording.rows("file_op") if row["io_uring"]]
    synced, folder, moved = (str(tmp_path / name) for name in ("synced", "folder", "moved"))
    symbolic, hard = f"{folder}/symbolic", f"{folder}/hard"
    truncated = {row["ret"] for row in rows if row["operation"] == "truncate"}
    assert truncated <= {0, -errno.EINVAL}  # before Linux 6.9, the operation is unknown and has no row
    rows = [row for row in rows if row["operation"] != "truncate" or not row["ret"]]
    assert Counter((row["operation"], row["path"], row["new_path"] or row["target"], row["ret"]) for row in rows) == {
        ("stat", synced, None, 0): 31 + 5,
        ("stat", "/nonsense/absent", None, -errno.ENOENT): 13,
        ("stat", None, None, -errno.EFAULT): 7,
        ("mkdir", folder, None, 0): 3,
        ("symlink", symbolic, "anywhere", 0): 3,
        ("link", synced, hard, 0): 3,
        ("rename", hard, moved, 0): 3,
        ("unlink", moved, None, 0): 3,
        ("unlink", symbolic, None, 0): 3,
        ("rmdir", folder, None, 0): 3,
        ("fsync", synced, None, 0): 17,
        ("fdatasync", synced, None, 0): 11,
        ("fsync", None, None, -errno.EINVAL): 2,  # a pipe
        ("fsync", None, None, -errno.EBADF): 2,
        ("sync_file_range", synced, None, 0): 1,
        **({("truncate", synced, None, 0): 1} if 0 in truncated else {}),
    }
    assert {row["pid"] for row in rows} == {recording.pid}
    assert all(row["duration_ns"] > 0 for row in rows)
    assert recording.accounts["file_op"].incomplete == 0
    assert recording.notes == []


def test_operations_without_a_completion_are_counted(operate: Operate) -> None:
    """An open whose completion the program leaves out has no row; a note tells how many there were."""
    recording = operate("skip")
    assert sum(row["io_uring"] for row in recording.rows("open")) == 53 + 31 + 17 + 11 + 7 + 1
    assert recording.notes == ["not recorded by files: 3 io_uring operations without a completion of their own"]


def test_calls_are_not_marked(operate: Operate) -> None:
    """Opens and stats by calls of the same program are not io_uring's."""
    recording = operate()
    assert {row["io_uring"] for row in recording.rows("open") if str(row["path"]).endswith("ld.so.cache")} == {0}
    assert {row["io_uring"] for row in recording.rows("file_op")} == {0}

"""The stream `file_op` of `files`: every call about a name or a file, with its paths and its result."""

import platform
import re
import subprocess
import sys
from collections import Counter
from errno import EBADF, EEXIST, EFAULT, ENOENT, ENOTDIR, ENOTEMPTY
from pathlib import Path
from typing import Any

import pytest
from tests.probes.conftest import WORKLOADS
from tests.probes.recording import Record

Row = tuple[str, str | None, str | None, int]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program with known counts of calls, each by its own number."""
    path = tmp_path_factory.mktemp("file_ops") / "file_ops"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", path, WORKLOADS / "file_ops.c"], check=True)
    return str(path)


def counted(rows: list[dict[str, Any]], below: Path) -> Counter[Row]:
    """Rows by operation, path, new path or target, and result; paths below a directory are relative to it."""

    def shown(path: str | None) -> str | None:
        return path and path.removeprefix(f"{below}/")

    assert {row["operation"] for row in rows if row["target"]} <= {"symlink"}
    return Counter(
        (row["operation"], shown(row["path"]), shown(row["new_path"]) or row["target"], row["ret"]) for row in rows
    )


def twice(operation: str, path: str, new_path: str | None, second: int) -> dict[Row, int]:
    """A call that succeeds, and the same call again, which fails."""
    return {(operation, path, new_path, 0): 1, (operation, path, new_path, -second): 1}


EVERYWHERE: dict[Row, int] = {
    **twice("mkdir", "below", None, EEXIST),
    ("stat", "below/file", None, 0): 11 + 5 + 13 + 4,
    ("stat", "below/absent", None, -ENOENT): 7,
    ("stat", "/dev/null/x", None, -ENOTDIR): 3,
    ("stat", None, None, 0): 6,
    ("stat", None, None, -EBADF): 8,
    ("stat", None, None, -EFAULT): 2,
    ("truncate", "below/file", None, 0): 17 + 19,
    ("fsync", "below/file", None, 0): 9,
    ("fdatasync", "below/file", None, 0): 10,
    ("sync_file_range", "below/file", None, 0): 12,
    **twice("link", "below/file", "linked", EEXIST),
    **twice("symlink", "below/symbolic", "anything", EEXIST),
    **twice("rename", "linked", "below/renamed", ENOENT),
    **twice("unlink", "below/renamed", None, ENOENT),
    ("rmdir", "below", None, -ENOTEMPTY): 2,
}
X86_64: dict[Row, int] = {
    ("stat", "below", None, 0): 21,
    ("stat", "below/symbolic", None, 0): 22,
    **twice("mkdir", "old", None, EEXIST),
    **twice("rename", "old", "new", ENOENT),
    **twice("rmdir", "new", None, ENOENT),
    **twice("link", "below/file", "one", EEXIST),
    **twice("symlink", "two", "anything", EEXIST),
    **twice("rename", "one", "three", ENOENT),
    **twice("unlink", "three", None, ENOENT),
}


def test_every_call_has_its_operation_paths_and_result(record: Record, program: str, tmp_path: Path) -> None:
    """Counts by operation, path, new path and result are the program's, whichever variant of a call it makes."""
    recording = record("files", [program, str(tmp_path)])
    rows = recording.rows("file_op")
    begin = next(place for place, row in enumerate(rows) if row["operation"] == "mkdir")  # before: the loader's
    expected = EVERYWHERE | (X86_64 if platform.machine() == "x86_64" else {})
    assert counted(rows[begin:], tmp_path) == expected
    assert {row["comm"] for row in rows[begin:]} == {"file_ops"}
    assert all(row["duration_ns"] > 0 for row in rows)
    assert {(row["path_truncated"], row["new_path_truncated"]) for row in rows} == {(0, 0)}
    assert recording.accounts["file_op"].emitted == len(rows)


def test_calls_are_those_of_strace(record: Record, tmp_path: Path) -> None:
    """A real program makes as many calls of each operation as strace shows, with these names."""
    log, source = tmp_path / "log", tmp_path / "source"
    source.mkdir()
    for n in range(37):
        (source / str(n)).touch()
    names = {"stat": "stat", "lstat": "stat", "newfstatat": "stat", "fstat": "stat", "statx": "stat"}
    names |= {"mkdir": "mkdir", "mkdirat": "mkdir", "linkat": "link", "link": "link"}
    trace = ["strace", "-e", f"trace=/^({'|'.join(names)})$", "-e", "signal=none", "-qq", "-o", str(log)]
    subprocess.run([*trace, "cp", "-rl", source, tmp_path / "first"], check=True)
    # strace also shows uretprobe(2), which probes of other tests cause, whatever is asked of it.
    calls = re.findall(rf"^({'|'.join(names)})\(", log.read_text(), re.MULTILINE)
    shown = Counter(names[name] for name in calls)
    rows = record("files", ["cp", "-rl", str(source), str(tmp_path / "second")]).rows("file_op")
    assert Counter(row["operation"] for row in rows) == shown
    assert shown["link"] == 37
    links = {(row["path"], row["new_path"]) for row in rows if row["operation"] == "link"}
    assert links == {(f"{source}/{n}", f"{tmp_path}/second/{n}") for n in range(37)}


def test_both_paths_of_a_rename_may_be_long(record: Record, tmp_path: Path) -> None:
    """Each path is whole up to PATH_MAX below its directory; the lengths add up in one row."""
    script = (
        "import os, sys\nos.chdir(sys.argv[1])\nfor n in range(14):\n    os.mkdir('d' * 255); os.chdir('d' * 255)\n"
        "open('a', 'w').close(); os.rename('./' * 1500 + 'a', './' * 1700 + 'b')"
    )
    rows = record("files", [sys.executable, "-S", "-E", "-c", script, str(tmp_path)]).rows("file_op")
    (row,) = [row for row in rows if row["operation"] == "rename"]
    deep = str(tmp_path) + ("/" + "d" * 255) * 14
    assert (row["path"], row["new_path"]) == (f"{deep}/{'./' * 1500}a", f"{deep}/{'./' * 1700}b")

"""The `files` probe: opens with absolute paths, reads and writes by file."""

import os
import re
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.probes.recording import ONE_INTERVAL_MS, Record

from scope_bpf.probes.syscalls import NUMBERS

PYTHON = [sys.executable, "-S", "-E", "-c"]


def opened(record: Record, script: str, *arguments: str) -> list[tuple[str | None, int]]:
    """Paths and results of the opens that a Python script makes between two marks."""
    marked = f"import os, sys\ndef attempt(f, *a, **k):\n    try: f(*a, **k)\n    except OSError: pass\n{script}"
    rows = record("files", [*PYTHON, marked, *arguments]).rows("open")
    return [(row["path"], row["ret"]) for row in rows]


def test_paths_are_absolute(record: Record, tmp_path: Path) -> None:
    """A relative name is resolved through the working directory or the descriptor it is relative to."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").touch()
    script = (
        "os.chdir(sys.argv[1]); d = os.open('below', os.O_DIRECTORY); os.open('file', os.O_RDONLY, dir_fd=d); "
        "os.open('below/../below/file', os.O_RDONLY); attempt(os.open, 'absent', os.O_RDONLY); "
        "attempt(os.open, '/nonsense/x', 0); attempt(os.open, 'below', os.O_WRONLY)"
    )
    found = opened(record, script, str(tmp_path))[-6:]
    paths = ["below", "below/file", "below/../below/file", "absent"]
    assert [path for path, _ in found] == [
        *(f"{tmp_path}/{path}" for path in paths),
        "/nonsense/x",
        f"{tmp_path}/below",
    ]
    assert [min(ret, 0) for _, ret in found] == [0, 0, 0, -2, -2, -21]


def test_a_changed_root_is_part_of_the_path(record: Record, tmp_path: Path) -> None:
    """In a chroot, paths are as seen outside it."""
    (tmp_path / "inside").mkdir()
    script = "os.chroot(sys.argv[1]); os.chdir('/inside'); attempt(os.open, '/inside/x', 0); attempt(os.open, 'y', 0)"
    found = opened(record, script, str(tmp_path))[-2:]
    assert found == [(f"{tmp_path}/inside/x", -2), (f"{tmp_path}/inside/y", -2)]


def test_mounts_are_crossed(record: Record, tmp_path: Path) -> None:
    """A directory on a mount has the path that its mount namespace gives it."""
    script = f"mount -t tmpfs none {tmp_path} && mkdir {tmp_path}/in && cd {tmp_path}/in && cat x"
    rows = record("files", ["unshare", "-m", "sh", "-c", script]).rows("open")
    assert [row["ret"] for row in rows if row["path"] == f"{tmp_path}/in/x"] == [-2]


def test_a_bad_descriptor_has_no_path(record: Record) -> None:
    """An open relative to a bad descriptor, or to one that is no directory, has no path but is recorded."""
    assert opened(record, "attempt(os.open, 'x', 0, dir_fd=777)")[-1] == (None, -9)
    assert opened(record, "attempt(os.open, 'x', 0, dir_fd=os.memfd_create('m'))")[-1] == (None, -20)


def test_an_unreadable_name_has_no_path(record: Record) -> None:
    """An open with an invalid name pointer has no path, and the kernel's EFAULT."""
    script = "import ctypes; ctypes.CDLL(None).open(ctypes.c_void_p(1), 0)"
    assert (None, -14) in opened(record, script)


def test_openat2_in_its_own_root(record: Record, tmp_path: Path) -> None:
    """With RESOLVE_IN_ROOT an absolute name begins at the descriptor."""
    script = (
        "import ctypes, struct; d = os.open(sys.argv[1], os.O_DIRECTORY); how = struct.pack('QQQ', 0o2, 0o640, 0x10); "
        "ctypes.CDLL(None).syscall(437, d, b'/etc/x', how, 24)"
    )
    rows = record("files", [*PYTHON, f"import os, sys\n{script}", str(tmp_path)]).rows("open")
    assert (rows[-1]["path"], rows[-1]["flags"], rows[-1]["mode"]) == (f"{tmp_path}/etc/x", 0o2, 0o640)


def test_depths_beyond_the_walk_are_flagged(record: Record, tmp_path: Path) -> None:
    """A path of less than 64 directories is whole; a deeper one lacks its beginning, and `path_truncated` is 1."""
    script = (
        "os.chdir(sys.argv[1])\nfor n in range(90):\n    os.mkdir('d'); os.chdir('d')\n    attempt(os.open, 'x', 0)"
    )
    rows = record(
        "files",
        [
            *PYTHON,
            f"import os, sys\ndef attempt(f, *a):\n    try: f(*a)\n    except OSError: pass\n{script}",
            str(tmp_path),
        ],
    ).rows("open")
    rows = [row for row in rows if row["path"].endswith("d/x")]
    assert len(rows) == 90
    whole = [row for row in rows if not row["path_truncated"]]
    assert len(whole) > 40
    assert all(row["path"].startswith(f"{tmp_path}/d") for row in whole)
    assert all(row["path"] == f"{tmp_path}" + "/d" * n + "/x" for n, row in enumerate(whole, 1))
    assert rows[-1]["path_truncated"] == 1


def test_a_cut_path_of_a_summary_is_marked(record: Record, tmp_path: Path) -> None:
    """In a summary, a path whose beginning was cut begins with ... and not like an absolute path."""
    script = (
        "import os, sys\nos.chdir(sys.argv[1])\nfor n in range(70):\n    os.mkdir('d'); os.chdir('d')\n"
        "os.write(os.open('deep', os.O_CREAT | os.O_WRONLY), bytes(1009))"
    )
    rows = record("files", [*PYTHON, script, str(tmp_path)], mode="summary").rows("file_summary")
    (row,) = [row for row in rows if row["write_bytes"] == 1009]
    assert re.fullmatch(r"\.\.\.(/d)+/deep", row["path"])


def test_every_open_is_counted(record: Record, tmp_path: Path) -> None:
    """997 opens are 997 rows; names arrive whole even if they are not UTF-8."""
    name = os.fsdecode(b"\xfe\n")
    (tmp_path / name).touch()
    script = "for n in range(997): os.close(os.open(os.path.join(sys.argv[1], os.fsdecode(b'\\xfe\\n')), 0))"
    recording = record("files", [*PYTHON, f"import os, sys\n{script}", str(tmp_path)])
    rows = [row for row in recording.rows("open") if row["path"] == f"{tmp_path}/\\xfe\n"]
    assert len(rows) == 997
    assert recording.accounts["open"].emitted == recording.count("open")


def test_flags_and_mode_are_the_callers(record: Record, tmp_path: Path) -> None:
    """An open by creat() has the flags that creat() implies."""
    if os.uname().machine == "x86_64":
        script = "import ctypes; ctypes.CDLL(None).syscall(85, os.path.join(sys.argv[1], 'made').encode(), 0o751)"
    else:  # without that syscall, creat() is this
        script = "os.open(os.path.join(sys.argv[1], 'made'), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o751)"
    rows = record("files", [*PYTHON, f"import os, sys\n{script}", str(tmp_path)]).rows("open")
    (row,) = [row for row in rows if row["path"] == f"{tmp_path}/made"]
    assert (row["flags"], row["mode"]) == (os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o751)


def test_every_file_of_a_summary_has_its_path(record: Record, tmp_path: Path) -> None:
    """Every file has its path, also one first used just as one interval ends and the next begins."""
    for n in range(3001):
        (tmp_path / str(n)).write_text("x")
    script = (
        "import sys, time\nfor n in range(3001):\n"
        "    if n % 500 == 0: time.sleep(0.1)\n"
        "    with open(f'{sys.argv[1]}/{n}') as f: f.read()\n"
    )
    recording = record("files", [*PYTHON, script, str(tmp_path)], mode="summary", interval_ms=100)
    rows = recording.rows("file_summary")
    assert len({row["ktime_ns"] for row in rows}) > 1, "all was in one interval"
    inodes = {row["inode"]: row["path"] for row in rows if row["file_type"] == stat.S_IFREG}
    assert [path for path in inodes.values() if path is None] == []
    assert [inodes[file.stat().st_ino] for file in tmp_path.iterdir()] == list(map(str, tmp_path.iterdir()))


def test_reads_and_writes_by_file(record: Record, tmp_path: Path) -> None:
    """Counts and bytes per file equal the program's, with the file's path; failed calls are counted apart. A copy by
    the kernel is a read of one file and a write of the other."""
    script = (
        "a = os.open(sys.argv[1] + '/a', os.O_RDWR | os.O_CREAT)\n"
        "for n in range(503): os.write(a, b'x' * 101)\n"
        "for n in range(211): os.pread(a, 97, n)\n"
        "for n in range(7): attempt(os.read, os.open(sys.argv[1], 0), 1)\n"
        "r, w = os.pipe()\n"
        "for n in range(13): os.write(w, b'y' * 11); os.read(r, 11)\n"
        "b = os.open(sys.argv[1] + '/b', os.O_RDWR | os.O_CREAT)\n"
        "for n in range(17): os.copy_file_range(a, b, 89, n, n)\n"
        "for n in range(19): os.sendfile(b, a, n, 83)\n"
        "for n in range(23): os.splice(a, w, 79, n); os.read(r, 79)\n"
        "for n in range(3): attempt(os.copy_file_range, a, os.open(sys.argv[1] + '/b', 0), 1)\n"
    )
    marked = f"import os, sys\ndef attempt(f, *a):\n    try: f(*a)\n    except OSError: pass\n{script}"
    recording = record("files", [*PYTHON, marked, str(tmp_path)], mode="summary", interval_ms=ONE_INTERVAL_MS)
    rows = recording.rows("file_summary")
    a = [row for row in rows if row["path"] == f"{tmp_path}/a"]
    assert sum(row["writes"] for row in a) == 503
    assert sum(row["write_bytes"] for row in a) == 503 * 101
    assert sum(row["reads"] for row in a) == 211 + 17 + 19 + 23 + 3
    assert sum(row["read_bytes"] for row in a) == 211 * 97 + 17 * 89 + 19 * 83 + 23 * 79
    assert sum(row["read_errors"] for row in a) == 3
    (b,) = [row for row in rows if row["path"] == f"{tmp_path}/b"]
    assert (b["writes"], b["write_bytes"], b["write_errors"], b["reads"]) == (17 + 19 + 3, 17 * 89 + 19 * 83, 3, 0)
    assert {row["inode"] for row in a} == {(tmp_path / "a").stat().st_ino}
    assert sum(sum(row["write_latency"]) for row in a) == 503
    folder = [row for row in rows if row["path"] == str(tmp_path)]
    assert sum(row["read_errors"] for row in folder) == 7
    pipes = [row for row in rows if row["file_type"] == 0o010000 and row["write_bytes"] == 13 * 11 + 23 * 79]
    assert [(row["path"], row["writes"], row["reads"]) for row in pipes] == [(None, 13 + 23, 13 + 23)]


def test_two_processes_have_a_row_each(record: Record, tmp_path: Path) -> None:
    """Reads of one file are kept apart by process."""
    file = tmp_path / "shared"
    file.write_bytes(b"z" * 1009)
    command = ["sh", "-c", f"cat {file} >/dev/null; cat {file} > /dev/null"]
    recording = record("files", command, mode="summary", interval_ms=ONE_INTERVAL_MS)
    readers = [row for row in recording.rows("file_summary") if row["path"] == str(file)]
    assert len({row["pid"] for row in readers}) == 2
    assert [row["read_bytes"] for row in readers] == [1009, 1009]


def test_opens_are_those_of_strace(record: Record, tmp_path: Path) -> None:
    """The paths of a real program's opens are those that strace shows for another run."""
    log = tmp_path / "log"
    command = ["ls", "/usr/share"]
    subprocess.run(["strace", "-e", "trace=openat", "-e", "signal=none", "-qq", "-o", log, *command], check=True)
    lines = log.read_text().splitlines()
    # strace also shows uretprobe(2), which probes of other tests cause, whatever is asked of it.
    expected = [line.split('"')[1] for line in lines if line.startswith("openat(")]
    assert [row["path"] for row in record("files", command).rows("open")] == expected


def test_a_bind_mount_is_the_way_it_was_gone(record: Record, tmp_path: Path) -> None:
    """A file behind a bind mount has the path by which it was reached, not that of its source."""
    for folder in ("source", "bound"):
        (tmp_path / folder).mkdir()
    (tmp_path / "source" / "file").touch()
    script = f"mount --bind {tmp_path}/source {tmp_path}/bound && cd {tmp_path}/bound && cat file"
    rows = record("files", ["unshare", "-m", "sh", "-c", script]).rows("open")
    assert [row["path"] for row in rows if row["path"].endswith("/file")] == [f"{tmp_path}/bound/file"]


def test_a_refused_open_is_kept(record: Record, tmp_path: Path) -> None:
    """An open that fails with EACCES is recorded, with the user's id."""
    (tmp_path / "secret").touch(0o600)
    tmp_path.chmod(0o755)
    script = "d = os.open(sys.argv[1], 0); os.setresuid(65534, 65534, 65534); attempt(os.open, 'secret', 0, dir_fd=d)"
    marked = f"import os, sys\ndef attempt(f, *a, **k):\n    try: f(*a, **k)\n    except OSError: pass\n{script}"
    row = record("files", [*PYTHON, marked, str(tmp_path)]).rows("open")[-1]
    assert (row["path"], row["ret"], row["uid"]) == (f"{tmp_path}/secret", -13, 65534)


def test_a_long_path_is_whole(record: Record, tmp_path: Path) -> None:
    """A path is whole even if it is longer than PATH_MAX and has parts of NAME_MAX bytes."""
    script = (
        "os.chdir(sys.argv[1])\nfor n in range(14):\n    os.mkdir('d' * 255); os.chdir('d' * 255)\n"
        "attempt(os.open, '/'.join(['.'] * 1000), os.O_WRONLY)"
    )
    path, ret = opened(record, script, str(tmp_path))[-1]
    assert path == str(tmp_path) + ("/" + "d" * 255) * 14 + "/" + "/".join(["."] * 1000)
    assert ret == -21


def test_what_is_in_no_directory_has_no_path(record: Record, tmp_path: Path) -> None:
    """Memory files and event descriptors have no path; a named pipe has one."""
    script = (
        "os.write(os.eventfd(0), (1).to_bytes(8, 'little'))\nos.write(os.memfd_create('nonsense'), b'x' * 1009)\n"
        "os.mkfifo(sys.argv[1] + '/fifo'); os.write(os.open(sys.argv[1] + '/fifo', os.O_RDWR), b'y' * 503)"
    )
    command = [*PYTHON, f"import os, sys\n{script}", str(tmp_path)]
    recording = record("files", command, mode="summary", interval_ms=ONE_INTERVAL_MS)
    written = {row["write_bytes"]: row["path"] for row in recording.rows("file_summary") if row["writes"]}
    assert written == {8: None, 1009: None, 503: f"{tmp_path}/fifo"}


SWAPPED = """
import os, sys, threading
fifo, ready, number = sys.argv[1:]
reader, other = os.open(fifo, os.O_RDWR), os.open("/etc/passwd", os.O_RDONLY)
thread = threading.Thread(target=os.read, args=(reader, 1))
thread.start()
waits = f"/proc/self/task/{thread.native_id}/syscall"
while open(waits).read().split()[:2] != [number, hex(reader)]:
    pass
os.dup2(other, reader)
os.mkdir(ready)
thread.join()
"""


def test_a_file_has_no_other_files_name(record: Record, tmp_path: Path) -> None:
    """If a descriptor gets another file during a read, the row does not have that other file's path."""
    fifo, ready = tmp_path / "fifo", tmp_path / "ready"
    os.mkfifo(fifo)

    def write() -> None:
        deadline = time.monotonic() + 60
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        fifo.write_bytes(b"x")

    writing = threading.Thread(target=write, daemon=True)  # the writer is not watched, so it gives the FIFO no path
    writing.start()
    command = [sys.executable, "-c", SWAPPED, str(fifo), str(ready), str(NUMBERS["read"])]
    recording = record("files", command, mode="summary")
    writing.join()
    assert recording.status == 0
    (row,) = [row for row in recording.rows("file_summary") if row["inode"] == fifo.stat().st_ino]
    assert (row["reads"], row["path"]) == (1, None)

"""The `process` probe: execs, forks and exits of known programs."""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import Record

from scope_bpf.probes import probe_named


def test_an_exec_has_every_argument_in_full(record: Record) -> None:
    """More than 4 KiB of arguments arrive complete, whatever they contain."""
    words = [f"argument-{n}-" + "x" * n for n in range(101)] + ["", "two\nlines", "ünïcode", "tab\t"]
    assert sum(len(word.encode()) + 1 for word in words) > 4096
    (row,) = record("process", ["/bin/true", *words]).rows("exec")
    assert row["args"] == ["/bin/true", *words]
    assert row["args_truncated"] == 0
    assert (row["filename"], row["comm"], row["ret"]) == ("/bin/true", "true", 0)
    assert row["ppid"] == os.getpid()
    assert row["cwd"] == str(Path.cwd())


def test_arguments_are_what_proc_has(record: Record, tmp_path: Path) -> None:
    """An exec's arguments are those of /proc/PID/cmdline, for scripts as well."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh -e\ntr '\\0' '\\n' < /proc/$$/cmdline > " + str(tmp_path / "cmdline") + "\n")
    script.chmod(0o755)
    rows = record("process", [str(script), "one", "two"]).rows("exec")
    assert rows[0]["args"] == (tmp_path / "cmdline").read_text().splitlines()
    assert rows[0]["filename"] == str(script)


def test_too_many_arguments_are_flagged(record: Record) -> None:
    """Arguments beyond the buffer are cut, and `args_truncated` is 1."""
    (row,) = record("process", ["/bin/true", *["x" * 99] * 200]).rows("exec")
    assert row["args_truncated"] == 1
    assert row["args"][:100] == ["/bin/true", *["x" * 99] * 99]


def test_bytes_that_are_no_text_are_kept(record: Record) -> None:
    """Bytes that are not UTF-8 arrive as \\xHH, and the text around them is unchanged."""
    word = os.fsdecode(b"a\xff\xc3(\xe2\x82\xacz")
    (row,) = record("process", ["/bin/true", word]).rows("exec")
    assert row["args"][1] == "a\\xff\\xc3(€z"


def test_failed_execs_are_kept(record: Record) -> None:
    """A failed exec is a row with the requested file, its arguments and the error."""
    rows = record("process", ["sh", "-c", "/nonsense/program first 'second one'; /etc/passwd; true"]).rows("exec")
    failed = [(row["filename"], row["args"], row["ret"]) for row in rows if row["ret"]]
    assert failed == [
        ("/nonsense/program", ["/nonsense/program", "first", "second one"], -2),
        ("/etc/passwd", ["/etc/passwd"], -13),
    ]


def test_failed_execs_by_every_alternative(record: Record, need: Callable[[str], None]) -> None:
    """All alternatives record the same execs, failed ones included."""
    need("tracefs")
    probe = probe_named("process")
    command = ["sh", "-c", "/nonsense/program 'an argument'; true"]
    recorded = []
    for alternative in probe.alternatives:
        rows = record(replace(probe, alternatives=(alternative,)), command).rows("exec")
        recorded.append([(row["filename"], row["args"], row["ret"]) for row in rows])
    assert recorded[0] == recorded[1]
    assert ("/nonsense/program", ["/nonsense/program", "an argument"], -2) in recorded[0]


def test_forks_of_processes_and_threads(record: Record, workload: Callable[[str], str]) -> None:
    """Each new process or thread is one fork row; a thread has its process's pid."""
    recording = record("process", [workload("threads")])
    rows = recording.rows("fork")
    assert len({row["child_tid"] for row in rows}) == len(rows) == 7
    assert {row["child_pid"] for row in rows} == {recording.pid}
    rows = record("process", ["sh", "-c", "true & true & true & (true); wait"]).rows("fork")
    assert all(row["child_pid"] == row["child_tid"] != row["pid"] for row in rows)
    assert len(rows) == 4


def test_a_fork_storm_is_followed(record: Record) -> None:
    """Each of 211 children has a fork row and an exit row; no exit code is missing."""
    script = "import os\nfor n in range(211):\n    os.fork() or os._exit(n % 199)\nfor n in range(211):\n    os.wait()"
    recording = record("process", [sys.executable, "-c", script])
    exits = [row for row in recording.rows("exit") if row["pid"] != recording.pid]
    assert recording.count("fork") == len(exits) == 211
    assert sorted(row["exit_code"] for row in exits) == sorted(n % 199 for n in range(211))
    children = {row["child_pid"]: row["child_start_ns"] for row in recording.rows("fork")}
    assert {row["pid"]: row["start_ns"] for row in exits} == children


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [("exit 7", 7, 0), ("kill -9 $$", 0, signal.SIGKILL), ("kill -SEGV $$", 0, signal.SIGSEGV)],
    ids=["code", "killed", "crashed"],
)
def test_how_a_process_ended(record: Record, script: str, code: int, number: int) -> None:
    """An exit row has the exit code or the killing signal."""
    recording = record("process", ["sh", "-c", f"ulimit -c 0; {script}"])
    (row,) = recording.rows("exit")
    assert (row["exit_code"], row["signal"], row["core_dumped"]) == (code, number, 0)
    assert row["pid"] == recording.pid
    assert recording.status == (-number if number else code)


def test_a_multithreaded_process_exits_once(record: Record, workload: Callable[[str], str]) -> None:
    """One exit row per process, however many threads it had."""
    recording = record("process", [workload("threads")])
    assert [row["pid"] for row in recording.rows("exit")] == [recording.pid]


def test_resources_are_what_wait_reports(record: Record, tmp_path: Path) -> None:
    """CPU time is within 20 ms of that of the later wait4; peak memory is equal."""
    work = "import threading\ndef f():\n    sum(range(6_000_000))\nt = [threading.Thread(target=f) for _ in range(3)]\n"
    work += "[x.start() for x in t]; [x.join() for x in t]; bytes(50_000_000)"
    parent = (
        "import os, sys\n"
        "pid = os.fork() or os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])\n"
        "_, _, used = os.wait4(pid, 0)\n"
        "open(sys.argv[2], 'w').write(f'{pid} {used.ru_utime + used.ru_stime} {used.ru_maxrss}')\n"
    )
    report = tmp_path / "usage"
    rows = record("process", [sys.executable, "-c", parent, work, str(report)]).rows("exit")
    pid, seconds, kilobytes = report.read_text().split()
    (row,) = [row for row in rows if row["pid"] == int(pid)]
    assert abs((row["user_ns"] + row["system_ns"]) / 1e9 - float(seconds)) < 0.02
    assert row["peak_rss_bytes"] == int(kilobytes) * 1024
    assert row["lifetime_ns"] >= row["user_ns"] + row["system_ns"] - 20_000_000
    assert row["user_ns"] > row["system_ns"]


def test_bytes_written_to_storage(record: Record) -> None:
    """`write_bytes` counts the written pages. The file is not in /tmp, which may be in memory."""
    target = Path(__file__).with_name("written")
    row = record("process", ["dd", "if=/dev/zero", f"of={target}", "bs=4096", "count=211", "conv=fsync", "status=none"])
    target.unlink()
    (ended,) = row.rows("exit")
    assert ended["write_bytes"] >= 211 * 4096
    assert ended["write_bytes"] < 2 * 211 * 4096


def test_threads_that_end_at_once_are_one_exit(record: Record, workload: Callable[[str], str]) -> None:
    """Threads that end at the same moment on several CPUs give exactly one exit row for their process."""
    recording = record("process", [workload("ends"), "503"])
    ended = [(row["pid"], row["start_ns"]) for row in recording.rows("exit")]
    assert len(ended) == len(set(ended)) == 503 + 1


@pytest.mark.parametrize("arguments", [[], ["gone"]], ids=["main-waits", "main-is-gone"])
def test_a_thread_ends_the_process(record: Record, workload: Callable[[str], str], arguments: list[str]) -> None:
    """A process that a thread ends has one exit row with its status, even if its main thread had already ended."""
    recording = record("process", [workload("lingers"), *arguments])
    (row,) = recording.rows("exit")
    assert (row["pid"], row["exit_code"], row["signal"]) == (recording.pid, 3, 0)
    assert (row["tid"], row["comm"]) == (recording.pid, "lingers")
    assert 0.2e9 <= row["lifetime_ns"] < row["ktime_ns"] - row["start_ns"]
    assert recording.status == 3


def test_a_changed_root_is_part_of_the_working_directory(record: Record, tmp_path: Path) -> None:
    """In a chroot, `cwd` is the path as seen outside; `filename` is as the caller gave it."""
    (tmp_path / "inside").mkdir()
    script = (
        "import os, sys\nos.chroot(sys.argv[1]); os.chdir('/inside')\n"
        "try: os.execv('/sh', ['sh'])\nexcept OSError: pass"
    )
    rows = record("process", [sys.executable, "-c", script, str(tmp_path)]).rows("exec")
    (failed,) = [row for row in rows if row["ret"]]
    assert (failed["filename"], failed["cwd"], failed["ret"]) == ("/sh", f"{tmp_path}/inside", -2)


def test_a_held_command_shows_itself(record: Record) -> None:
    """A held command's lifetime excludes the hold; its peak memory is near that of the same program without one."""
    commands: list[dict[str, Any]] = []
    for command in (["/bin/true"], ["sh", "-c", "/bin/true; true"]):
        exits = record("process", command, hold=1.0).rows("exit")
        commands += [row for row in exits if row["comm"] == "true"]
    held, started = commands
    assert 0 < held["lifetime_ns"] < held["ktime_ns"] - held["start_ns"] - 1e9
    assert held["peak_rss_bytes"] < 1.5 * started["peak_rss_bytes"]


def test_a_command_that_executes_another_lives_since_its_release(record: Record) -> None:
    """The lifetime of a process includes the time of its first program, but not the hold."""
    command = ["sh", "-c", "sleep 0.5; exec sleep 0.5"]
    (row,) = [row for row in record("process", command, hold=0.5).rows("exit") if row["ppid"] == os.getpid()]
    assert 1e9 <= row["lifetime_ns"] < row["ktime_ns"] - row["start_ns"] - 0.5e9

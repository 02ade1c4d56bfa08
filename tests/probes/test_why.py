"""The `why` probe compared with the times that programs and the kernel measure.

Programs report their /proc/thread-self/schedstat and getrusage(). Each thread reports when it began and ended; its
creator reports when it created and joined the thread. The recorded wall time lies between these two lengths.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

from scope_bpf.capture import summaries
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

PYTHON = [sys.executable, "-S", "-E", "-c"]
WORKLOADS = Path(__file__).parent / "workloads"
WORK_MS = 1200
SECTOR = 512


@dataclass
class Told:
    """The report of a thread of workloads/wall.c; times in ns."""

    tid: int
    created_ns: int
    began_ns: int
    ended_ns: int
    joined_ns: int
    run_ns: int
    waited_ns: int
    minor: int
    major: int
    pages: int

    @property
    def wall_ns(self) -> int:
        return self.ended_ns - self.began_ns

    def agrees(self, one_ns: int, other_ns: int, slack_ns: int, more_ns: int = 0) -> bool:
        """Whether two times agree to 2 % of the wall time plus `slack_ns`; the first may be longer by `more_ns`."""
        slack = 0.02 * self.wall_ns + slack_ns
        return -slack <= one_ns - other_ns <= slack + more_ns


def told(file: Path) -> list[Told]:
    return [Told(*map(int, line.split())) for line in file.read_text().splitlines()]


def own_rows(recording: Recording, tid: int, stream: str = "why_summary") -> list[dict[str, Any]]:
    return [row for row in recording.rows(stream) if row["tid"] == tid]


def parts_of(rows: list[dict[str, Any]]) -> Counter[str]:
    """The total time of each part."""
    parts: Counter[str] = Counter()
    for row in rows:
        parts[row["part"]] += row["total_ns"]
    return parts


def blocked(rows: list[dict[str, Any]], column: str) -> Counter[Any]:
    """Blocked time, by the value of another column."""
    times: Counter[Any] = Counter()
    for row in rows:
        times[row[column]] += row["blocked_ns"]
    return +times


def others_ns() -> int:
    """CPU time that the kernel counts for no thread: interrupts, and time that the host stole.

    By the clock, the interrupted thread stays on its CPU during this time.
    """
    irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[6:9])
    return (irq + softirq + steal) * 10**9 // os.sysconf("SC_CLK_TCK")


Build = Callable[[str], str]
Work = Callable[..., tuple[Recording, list[Told], int]]


@pytest.fixture
def work(record: Record, workload: Build, tmp_path: Path) -> Work:
    """Records workloads/wall.c; returns the recording, the threads' reports, and the growth of `others_ns`."""

    def run(kind: str, scratch: Path = tmp_path / "scratch", **options: Any) -> tuple[Recording, list[Told], int]:
        said, others = tmp_path / "said", others_ns()
        command = [workload("wall"), kind, str(WORK_MS), str(said), str(scratch)]
        recording = record("why", command, **options)
        assert recording.status == 0
        return recording, told(said), others_ns() - others

    return run


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    """A file of zeros, flushed to the disk if its file system has one."""
    file = tmp_path / "cold"
    with file.open("wb") as out:
        for _ in range(128):
            out.write(bytes(1 << 20))
        os.fsync(out.fileno())
    return file


KINDS = ["spin", "sleep", "lock", "pipe", "poll", "disk", "queue", "fault", "read"]
WAKE_OFTEN = ("disk", "read")
CLOCK_NS = 5000  # between the clock reads of kernel and trace, at each wait


@pytest.mark.alone  # compares times
@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_are_what_the_kernel_counts(work: Work, cold: Path, kind: str) -> None:
    """A thread's run time, waits for a CPU and blocked time agree with the kernel's to 2 % and add up to its wall time.

    The kernel reads the clock microseconds before or after a switch or a wakeup is traced. If an idle CPU wakes for a
    thread, the kernel takes one time for both the wakeup and the switch (rq_clock_skip_update, kernel/sched/core.c).
    So after thousands of wakeups, only the sum of run time and waits agrees.
    """
    recording, threads, others = work(kind, cold)
    for thread in threads:
        rows = own_rows(recording, thread.tid)
        parts = parts_of(rows)
        assert thread.wall_ns <= parts.total() <= thread.joined_ns - thread.created_ns + 0.02 * thread.wall_ns
        slack = CLOCK_NS * sum(row["count"] for row in rows if row["part"] == "run_queue")
        runnable_ns = thread.run_ns + thread.waited_ns
        assert thread.agrees(parts["on_cpu"] + parts["run_queue"], runnable_ns, slack, others)
        assert thread.agrees(thread.wall_ns - runnable_ns, parts["blocked"], slack, others)
        if kind not in WAKE_OFTEN:
            assert thread.agrees(parts["on_cpu"], thread.run_ns, slack, others)
            assert thread.agrees(parts["run_queue"], thread.waited_ns, slack)


@pytest.mark.parametrize(
    ("kind", "call", "file_kind"),
    [
        ("sleep", "clock_nanosleep", None),
        ("lock", "futex", None),
        ("pipe", "read", "pipe"),
        ("poll", "poll", "pipe"),
    ],
)
def test_a_wait_is_put_down_to_its_call_and_file(work: Work, kind: str, call: str, file_kind: str | None) -> None:
    """At least 98 % of a thread's blocked time is in the call that it made, on the kind of file that it used."""
    recording, (thread,), _ = work(kind)
    rows = own_rows(recording, thread.tid)
    total = sum(row["blocked_ns"] for row in rows)
    assert 0.98 * total <= sum(
        row["blocked_ns"] for row in rows if (row["blocked_in"], row["file_kind"]) == (call, file_kind)
    )
    if kind == "sleep":
        assert total >= WORK_MS * 1e6


def test_a_flush_is_put_down_to_its_file(work: Work, tmp_path: Path) -> None:
    """A thread that writes and flushes a file is blocked on that file, named by its path."""
    recording, (thread,), _ = work("disk")
    rows = own_rows(recording, thread.tid)
    times = blocked(rows, "path")
    assert times[str(tmp_path / "scratch")] >= 0.95 * times.total()
    assert {row["file_kind"] for row in rows if row["path"]} == {"file"}


def test_page_faults_are_counted_and_timed(work: Work) -> None:
    """Each touched page is a minor fault, as the kernel counts. Fault time is below run time plus waits for a CPU."""
    recording, (thread,), _ = work("fault")
    rows = own_rows(recording, thread.tid, "page_fault_summary")
    count = sum(row["count"] for row in rows)
    assert {row["kind"] for row in rows} == {"minor"}
    assert thread.pages <= count
    assert thread.minor <= count <= thread.minor + 20  # a few follow the report
    assert all(sum(row["duration"]) == row["count"] for row in rows)
    parts = parts_of(own_rows(recording, thread.tid))
    assert 0 < sum(row["total_ns"] for row in rows) < parts["on_cpu"] + parts["run_queue"]


def test_a_page_that_is_read_is_a_major_fault(work: Work, cold: Path) -> None:
    """Major faults equal the kernel's count; their waits are time blocked in `page fault`."""
    recording, (thread,), _ = work("read", cold)
    faults = [row for row in own_rows(recording, thread.tid, "page_fault_summary") if row["kind"] == "major"]
    assert sum(row["count"] for row in faults) == thread.major
    times = blocked(own_rows(recording, thread.tid), "blocked_in")
    assert times["page fault"] >= 0.95 * times.total()
    assert times["page fault"] <= sum(row["total_ns"] for row in faults)


def test_without_tracepoints_of_faults_they_are_the_same(record: Record, workload: Build, tmp_path: Path) -> None:
    """The alternative for architectures without tracepoints of faults counts the same faults."""
    probe = probe_named("why")
    said = tmp_path / "said"
    command = [workload("wall"), "fault", "100", str(said), ""]
    other = replace(probe, alternatives=probe.alternatives[1:])
    recording = record(other, command, interval_ms=ONE_INTERVAL_MS)
    (thread,) = told(said)
    (row,) = own_rows(recording, thread.tid, "page_fault_summary")
    assert max(thread.pages, thread.minor) <= row["count"] <= thread.minor + 20
    assert 0 < row["total_ns"] < thread.joined_ns - thread.created_ns


def test_intervals_add_up(record: Record, workload: Build, tmp_path: Path) -> None:
    """With any read interval, each wait is counted once, with its full time."""
    said = tmp_path / "said"
    for interval_ms in (100, ONE_INTERVAL_MS):
        command = [workload("wall"), "sleep", str(WORK_MS), str(said), ""]
        recording = record("why", command, interval_ms=interval_ms)
        (thread,) = told(said)
        rows = own_rows(recording, thread.tid)
        assert (len({row["ktime_ns"] for row in rows}) > 5) == (interval_ms == 100)
        total = sum(row["total_ns"] for row in rows)
        assert thread.wall_ns <= total <= thread.joined_ns - thread.created_ns + 0.02 * thread.wall_ns
        naps = [row for row in rows if row["blocked_in"] == "clock_nanosleep"]
        assert sum(row["count"] for row in naps) == 10
        assert sum(sum(row["duration"][26:]) for row in naps) == 10  # 2^26 ns are 67 ms; a nap takes 120 ms
        for row in rows:
            assert sum(row["duration"]) == row["count"]
            assert row["on_cpu_ns"] + row["run_queue_ns"] + row["blocked_ns"] == row["total_ns"]
            assert row[f"{row['part']}_ns"] == row["total_ns"]


def test_a_process_is_its_threads_added_up(record: Record, workload: Build, tmp_path: Path) -> None:
    """Per interval and process, times are the sums over the threads; each stream's account equals its rows."""
    command = [workload("wall"), "queue", "300", str(tmp_path / "said"), ""]
    recording = record("why", command, interval_ms=100)
    names = ("total_ns", "on_cpu_ns", "run_queue_ns", "blocked_ns")
    added: Counter[tuple[int, int, str, str]] = Counter()
    for row in recording.rows("why_summary"):
        for name in names:
            added[row["ktime_ns"], row["pid"], row["comm"], name] += row[name]
    found = {
        (row["ktime_ns"], row["pid"], row["comm"], name): row[name]
        for row in recording.rows("why_process_summary")
        for name in names
    }
    assert found == added
    for stream in ("why_summary", "why_process_summary", "page_fault_summary"):
        account = recording.accounts[stream]
        assert (account.emitted, dict(account.lost)) == (recording.count(stream), {})


def test_what_has_no_room_is_counted(record: Record, workload: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a summary map is full, the emitted count is rows plus losses."""
    monkeypatch.setattr(summaries, "KEYS", 3)
    recording = record("why", [workload("wall"), "queue", "100", os.devnull, ""], interval_ms=ONE_INTERVAL_MS)
    account = recording.accounts["why_summary"]
    assert recording.count("why_summary") == 3
    assert account.lost["map_full"] > 0
    assert account.emitted == 3 + account.lost["map_full"]


LATE = """
import os, socket, struct, sys, threading, time
family, address = (socket.AF_INET6, "::1") if sys.argv[2] == "6" else (socket.AF_INET, "127.0.0.1")
server = socket.create_server((address, 0), family=family)
def answer():
    connection, _ = server.accept()
    connection.recv(1)
    time.sleep(0.4)
    connection.sendall(b"a")
    connection.recv(1)
thread = threading.Thread(target=answer)
thread.start()
client = socket.create_connection(server.getsockname()[:2])
client.sendall(b"q")
client.recv(1)
client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 5, 0))
with open(sys.argv[1], "w") as out:
    print(server.getsockname()[1], client.getsockname()[1], threading.get_native_id(), thread.native_id, file=out)
    out.flush()
    os.fsync(out.fileno())
client.close()
thread.join()
"""


@pytest.mark.parametrize(("version", "address"), [("4", "127.0.0.1"), ("6", "::1")])
def test_a_socket_has_its_peer(record: Record, tmp_path: Path, version: str, address: str) -> None:
    """A client that waits for a late answer waits for the server's address; a socket that listens has no peer."""
    said = tmp_path / "said"
    recording = record("why", [*PYTHON, LATE, str(said), version], interval_ms=ONE_INTERVAL_MS)
    served, used, client, server = map(int, said.read_text().split())
    of_sockets = [row for row in recording.rows("why_summary") if row["file_kind"] == "socket"]
    late = [row for row in of_sockets if row["tid"] == client and row["blocked_in"] == "recvfrom"]
    assert {(row["remote"], row["remote_port"]) for row in late} == {(address, served)}
    assert sum(row["blocked_ns"] for row in late) >= 0.35e9
    peers = {(row["blocked_in"], row["remote"], row["remote_port"]) for row in of_sockets if row["tid"] == server}
    assert peers <= {("accept4", None, None), ("recvfrom", address, used)}
    assert {row["remote"] for row in recording.rows("why_summary") if row["file_kind"] != "socket"} == {None}


WRITE = """
import os, sys, time
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
for _ in range(7):
    os.write(file, bytes(1 << 20))
    os.fsync(file)
near, far = os.pipe()
if not os.fork():
    os.read(near, 1)
    os._exit(0)
time.sleep(0.2)
os.write(far, b"a")
os.wait()
"""


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder on a partition of a disk of its own, and the disk's name."""
    file, folder = tmp_path / "disk", tmp_path / "mounted"
    with file.open("wb") as disk:
        disk.truncate(64 << 20)
    made = subprocess.run(["losetup", "--find", "--show", "--partscan", file], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"this host has no loop device: {made.stderr}")
    device = made.stdout.strip()
    try:
        subprocess.run(["addpart", device, "1", "2048", f"{(63 << 20) // SECTOR}"], check=True)
        subprocess.run(["mkfs.ext4", "-q", f"{device}p1"], check=True)
        folder.mkdir()
        subprocess.run(["mount", f"{device}p1", folder], check=True)
        try:
            yield folder, Path(device).name
        finally:
            subprocess.run(["umount", folder], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def test_a_file_has_its_disk(record: Record, mounted: tuple[Path, str]) -> None:
    """The disk whose partition has the file's file system, by the name that `block` gives it; a pipe has none."""
    folder, disk = mounted
    recording = record("why", [*PYTHON, WRITE, str(folder / "written")], interval_ms=ONE_INTERVAL_MS)
    rows = recording.rows("why_summary")
    written = [row for row in rows if row["path"] == str(folder / "written") and row["blocked_in"] == "fsync"]
    assert sum(row["count"] for row in written) >= 7
    assert {row["disk"] for row in written} == {disk}
    assert {row["disk"] for row in rows if row["file_kind"] == "pipe"} == {None}


SLEEPERS = """
import os, select, socket, sys, threading, time
lock, (near, far) = threading.Lock(), socket.socketpair()
lock.acquire()
poller = select.epoll()
poller.register(near, select.EPOLLIN)
for wait in (lock.acquire, poller.poll, lambda: near.recv(1), lambda: time.sleep(10000)):
    threading.Thread(target=wait, daemon=True).start()
print(flush=True)
os.read(0, 1)
"""


def test_threads_that_sleep_all_the_time_are_watched(runnable: dict[str, str]) -> None:
    """In a process that already runs, each sleeping thread has blocked time from the trace's begin to its end."""
    if runnable["why"]:
        pytest.skip(runnable["why"])
    probe = probe_named("why")
    with subprocess.Popen([*PYTHON, SLEEPERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        threads = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
        patience = time.monotonic() + 60
        while not all(_sleeps(process.pid, tid) for tid in threads) and time.monotonic() < patience:
            time.sleep(0.01)
        recording = Recording(process.pid)
        with Tracer(probe, parse_options(probe.options, {"interval_ms": 100}), Target(pid=process.pid)) as tracer:
            starts = time.monotonic_ns()
            tracer.start()
            started = time.monotonic_ns()
            while time.monotonic_ns() < started + 1_500_000_000:
                for raw in tracer.poll(50):
                    recording.add(raw)
            ends = time.monotonic_ns()
            for raw in tracer.finish():
                recording.add(raw)
            ended = time.monotonic_ns()
        process.kill()
    for tid in threads:
        rows = own_rows(recording, tid)
        assert ends - started <= sum(row["blocked_ns"] for row in rows) <= ended - starts
        assert sum(row["blocked_ns"] for row in rows if row["ktime_ns"] == rows[0]["ktime_ns"]) > 0
    rows = recording.rows("why_summary")
    waits = {row["tid"]: (row["blocked_in"], row["file_kind"]) for row in rows}
    assert sorted(waits.values(), key=str) == [
        ("clock_nanosleep", None),
        ("epoll_wait", "kernel object"),
        ("futex", None),
        ("read", "pipe"),
        ("recvfrom", "socket"),
    ]


def _sleeps(pid: int, tid: int) -> bool:
    return Path(f"/proc/{pid}/task/{tid}/stat").read_bytes().rpartition(b") ")[2][:1] == b"S"


def test_a_command_is_not_accounted_for_before_it_begins(record: Record) -> None:
    """The time that a command is held before its start is not part of its wall time."""
    began = time.monotonic()
    recording = record("why", ["true"], hold=1.5)
    most = time.monotonic() - began - 1.5
    assert 0 < sum(row["total_ns"] for row in recording.rows("why_summary")) < most * 1e9


CHILDREN = r"""
import os, sys, time
from time import CLOCK_BOOTTIME, clock_gettime_ns as now
with open(sys.argv[1], "w") as out:
    for _ in range(31):
        forked = now(CLOCK_BOOTTIME)
        pid = os.fork()
        if not pid:
            began = now(CLOCK_BOOTTIME)
            while time.process_time() < 0.02: pass
            os.write(out.fileno(), f"{os.getpid()} {forked} {began} {now(CLOCK_BOOTTIME)} ".encode())
            os._exit(0)
        os.wait()
        os.write(out.fileno(), f"{now(CLOCK_BOOTTIME)}\n".encode())
"""


def test_children_are_watched_from_fork_to_end(record: Record, tmp_path: Path) -> None:
    """Even a short-lived child has its full wall time, or its loss is counted; its parent is blocked in wait4."""
    said = tmp_path / "said"
    recording = record("why", [*PYTHON, CHILDREN, str(said)], interval_ms=100)
    lines = [list(map(int, line.split())) for line in said.read_text().splitlines()]
    assert len(lines) == 31
    lost = recording.accounts["why_summary"].lost
    missed = [pid for pid, *_ in lines if not own_rows(recording, pid)]
    assert len(missed) <= sum(lost.values()), (missed, lost, [row["tid"] for row in recording.rows("why_summary")])
    for pid, forked, began, ended, reaped in lines:
        rows = own_rows(recording, pid)
        if pid in missed:
            continue
        assert ended - began <= sum(row["total_ns"] for row in rows) <= reaped - forked + 5_000_000
        # of 20 ms; a kernel that omits switches hides a tick
        assert sum(row["on_cpu_ns"] for row in rows) >= 15_000_000
    waits = [row for row in own_rows(recording, recording.pid) if row["blocked_in"] == "wait4"]
    assert sum(row["count"] for row in waits) <= 31
    assert sum(row["total_ns"] for row in waits) >= 0.9 * sum(ended - began for _, _, began, ended, _ in lines)


def test_a_child_that_a_reading_finds_before_it_begins(
    record: Record, workload: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel lists a child before it says whose child it is: the reading of a summary may find it in between."""
    settle = summaries.Summaries._settle
    monkeypatch.setattr(summaries.Summaries, "_settle", lambda self: [settle(self) for _ in range(200)])
    recording = record("why", [workload("forks"), "1500"], interval_ms=100)
    seen = {(row["tid"], row["start_ns"]) for row in recording.rows("why_summary")}
    assert 1501 - sum(recording.accounts["why_summary"].lost.values()) <= len(seen) <= 1501


def test_an_exec_goes_on_with_the_account(record: Record) -> None:
    """A process that executes another program keeps one wall time, in rows of both names."""
    began = time.monotonic_ns()
    recording = record("why", ["sh", "-c", "sleep 0.3; exec sleep 0.7"])
    most = time.monotonic_ns() - began
    rows = own_rows(recording, recording.pid)
    assert {row["comm"] for row in rows} == {"sh", "sleep"}
    assert 1e9 <= sum(row["total_ns"] for row in rows) < most
    assert 0.7e9 <= blocked(rows, "blocked_in")["clock_nanosleep"] < 1e9


def test_a_stop_is_told_apart(record: Record) -> None:
    """A process that a signal has stopped is blocked in `stopped`, not in a call."""
    script = "import os, signal, time\nchild = os.fork()\n"
    script += "if not child: os.kill(os.getpid(), signal.SIGSTOP); os._exit(0)\n"
    script += "os.waitpid(child, os.WUNTRACED); time.sleep(0.4); os.kill(child, signal.SIGCONT); os.wait()"
    recording = record("why", [*PYTHON, script])
    (child,) = {row["pid"] for row in recording.rows("why_summary")} - {recording.pid}
    assert blocked(own_rows(recording, child), "blocked_in")["stopped"] >= 0.39e9


@pytest.mark.parametrize("stacks", [True, False])
def test_stacks_where_threads_are_blocked(record: Record, tmp_path: Path, stacks: bool) -> None:
    """With `stacks`, a wait has its call stack, also through functions without frame pointers; otherwise none."""
    program = tmp_path / "naps"
    flags = ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]
    subprocess.run(["gcc", *flags, "-o", program, WORKLOADS / "naps.c"], check=True)
    recording = record("why", [str(program)], stacks=stacks, interval_ms=ONE_INTERVAL_MS)
    (row,) = [row for row in recording.rows("why_summary") if row["blocked_in"] == "clock_nanosleep"]
    assert row["count"] == 61
    assert row["total_ns"] >= 61 * 20e6
    if stacks:
        assert "main;outer;inner;" in row["stack"]
    else:
        assert {row["stack"] for row in recording.rows("why_summary")} == {None}


def test_there_is_no_mode_to_choose() -> None:
    """The probe's only events are names for its summaries, so it has no option `mode`."""
    assert [option.name for option in probe_named("why").options] == ["interval_ms", "ring_bytes", "stacks"]

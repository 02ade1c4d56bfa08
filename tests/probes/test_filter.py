"""The filter in the kernel: which processes are watched."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.probes.recording import Record, Recording

from scope_agentd.own_processes import families
from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.errors import TargetNotFound
from scope_bpf.host import cgroup_root
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options


def test_a_process_and_its_children_and_nobody_else(record: Record, tmp_path: Path) -> None:
    """A pid as target includes all its descendants, but not its siblings; the whole machine includes both."""
    go, done = tmp_path / "go", tmp_path / "done"
    os.mkfifo(go)
    os.mkfifo(done)
    sibling = f"while read word < {go}; do for n in 1 2 3 4 5 6 7; do /bin/true; done; echo > {done}; done"
    other = subprocess.Popen(["sh", "-c", sibling])
    own = ["sh", "-c", f"echo now > {go}; read word < {done}; sh -c 'sh -c true; true'; true"]
    try:
        watched = [record("process", own), record("process", own, target=Target())]
    finally:
        other.kill()
        other.wait()
    assert [_execs(recording, other.pid) for recording in watched] == [{"own": 3}, {"own": 3, "sibling": 7}]
    assert watched[0].count("exec") == 3


def _execs(recording: Recording, sibling: int) -> Counter[str]:
    """How many execs are of the recorded command's family, and how many of the sibling's children."""
    family, found = {recording.pid}, Counter[str]()
    for row in recording.rows("exec"):
        if row["pid"] in family or row["ppid"] in family:
            family.add(row["pid"])
            found["own"] += 1
        elif row["ppid"] == sibling:
            found["sibling"] += 1
    return found


def test_a_comm_is_compared_whole(record: Record, tmp_path: Path, workload: Callable[[str], str]) -> None:
    """A comm as target matches whole names of up to 15 bytes, not their prefixes."""
    name = f"spin{os.getpid()}"  # no other program's
    named = [(name, 103), (f"{name}er", 107), (name.ljust(15, "x"), 109)]
    for program, _ in named:
        (tmp_path / program).symlink_to(workload("spin"))
    command = ["sh", "-c", "; ".join(f"{tmp_path / program} {count}" for program, count in named)]
    for comm, count in named:
        recording = record("syscalls", command, target=Target(comm=comm), names="getppid")
        assert recording.accounts["syscall"].emitted == recording.count("syscall") == count


def test_an_executable_is_told_by_its_file(record: Record, tmp_path: Path, workload: Callable[[str], str]) -> None:
    """All processes that run the file are watched, whatever their comm; others are not."""
    link = tmp_path / "alias"
    link.symlink_to(workload("spin"))
    command = ["sh", "-c", f"{link} 211; cat /proc/self/stat"]
    recording = record("syscalls", command, target=Target(exe=workload("spin")))
    rows = recording.rows("syscall")
    assert {row["comm"] for row in rows} == {"alias"}
    assert sum(row["name"] == "getppid" for row in rows) == 211


def test_an_executable_on_an_overlay(record: Record, tmp_path: Path, workload: Callable[[str], str]) -> None:
    """An executable on overlayfs (a container's) is matched, though stat gives other numbers than its inode's."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    shutil.copy(workload("spin"), tmp_path / "lower" / "spin")
    layers = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", tmp_path / "merged"], check=True)
    try:
        spin = tmp_path / "merged" / "spin"
        command = ["sh", "-c", f"{spin} 127; {workload('spin')} 131"]
        recording = record("syscalls", command, target=Target(exe=str(spin)), names="getppid")
    finally:
        subprocess.run(["umount", tmp_path / "merged"], check=True)
    assert recording.accounts["syscall"].emitted == recording.count("syscall") == 127


def test_a_cgroup_and_what_is_below_it(
    record: Record, workload: Callable[[str], str], need: Callable[[str], None]
) -> None:
    """Members of a cgroup and of the cgroups below it are watched; a row has the id of its process's own cgroup."""
    need("cgroup v2")
    group = (cgroup_root() or Path()) / f"scope-test-{os.getpid()}"
    below = group / "below"
    below.mkdir(parents=True)
    spin = workload("spin")
    script = f"{spin} 101; (echo 0 > {group}/cgroup.procs; {spin} 103); (echo 0 > {below}/cgroup.procs; {spin} 107)"
    try:
        recording = record("syscalls", ["sh", "-c", script], target=Target(cgroup=group.name), names="getppid")
        ids = [row["cgroup_id"] for row in recording.rows("syscall")]
        assert (ids.count(group.stat().st_ino), ids.count(below.stat().st_ino), len(ids)) == (103, 107, 210)
    finally:
        below.rmdir()
        group.rmdir()


@pytest.mark.parametrize("by_pid", [True, False], ids=["pid-and-comm", "comm"])
def test_conditions_add_up(workload: Callable[[str], str], tmp_path: Path, by_pid: bool) -> None:
    """A pid with a comm records only the family's threads of that name; a comm alone also records others' threads."""
    name = f"spin{os.getpid()}"  # no other program's
    (tmp_path / name).symlink_to(workload("spin"))
    probe = probe_named("syscalls")
    family = HeldCommand(["sh", "-c", f"{tmp_path / name} 103; {workload('spin')} 109; true"])
    other = HeldCommand([str(tmp_path / name), "107"])
    target = Target(pid=family.pid if by_pid else 0, comm=name)
    with Tracer(probe, parse_options(probe.options, {"names": "getppid"}), target) as tracer:
        tracer.start()
        for command in (family, other):
            command.release()
            _wait(command)
        pids = Counter(int(pid) for raw in tracer.finish() for pid in raw.rows["pid"])
    assert pids.pop(other.pid, 0) == (0 if by_pid else 107)
    assert list(pids.values()) == [103]


def test_the_target_changes_while_running(workload: Callable[[str], str]) -> None:
    """A new target is watched from the change on; a target that does not exist changes nothing."""
    probe = probe_named("syscalls")
    first, second = HeldCommand([workload("spin"), "101"]), HeldCommand([workload("spin"), "103"])
    options = parse_options(probe.options, {"names": "getppid"})
    with Tracer(probe, options, Target(pid=first.pid)) as tracer:
        tracer.start()
        with pytest.raises(TargetNotFound, match="no process has pid 4194303"):
            tracer.retarget(Target(pid=4194303))
        first.release()
        _wait(first)
        tracer.retarget(Target(pid=second.pid))
        second.release()
        _wait(second)
        counted = Counter(int(pid) for raw in tracer.finish() for pid in raw.rows["pid"])
    assert counted == {first.pid: 101, second.pid: 103}


def test_children_of_an_earlier_target_are_no_longer_watched(workload: Callable[[str], str]) -> None:
    """Running children of the old target do not belong to the new target."""
    probe = probe_named("syscalls")
    script = "import os, sys, time\nif os.fork():\n    time.sleep(9)\nwhile True: os.getppid()"
    first, second = HeldCommand([sys.executable, "-S", "-c", script]), HeldCommand([workload("spin"), "103"])
    with Tracer(probe, parse_options(probe.options, {"names": "getppid"}), Target(pid=first.pid)) as tracer:
        tracer.start()
        try:
            first.release()
            _until(lambda: any(raw.rows["pid"].max() != first.pid for raw in tracer.poll(50)))
            (child,) = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
            tracer.retarget(Target(pid=second.pid))
            while tracer.poll(50):
                pass  # rows from before the change
            second.release()
            _wait(second)
            pids = {int(pid) for raw in tracer.finish() for pid in raw.rows["pid"]}
        finally:
            os.kill(int(child), signal.SIGKILL)
            os.kill(first.pid, signal.SIGKILL)
            _wait(first)
    assert pids == {second.pid}


def test_the_left_out_stay_left_out(workload: Callable[[str], str]) -> None:
    """An excluded process that was the target for a while is excluded again afterwards."""
    probe = probe_named("syscalls")
    commands = [HeldCommand([workload("spin"), "101"]) for _ in range(2)]
    left_out, seen = commands
    options = parse_options(probe.options, {"names": "getppid"})
    with Tracer(probe, options, Target(pid=left_out.pid), lambda: (left_out.pid,)) as tracer:
        tracer.start()
        tracer.retarget(Target(comm="spin"))
        for command in commands:
            command.release()
            _wait(command)
        pids = [int(pid) for raw in tracer.finish() for pid in raw.rows["pid"]]
    assert left_out.pid not in pids
    assert pids.count(seen.pid) == 101


def test_a_child_that_begins_while_its_family_is_listed_is_left_out() -> None:
    """It was not there when its parent was listed, and its parent was not excluded when it began."""
    probe = probe_named("syscalls")
    script = "read word; exec 3<&0; sh -c 'echo begun; read word <&3; true' & wait"
    looks: list[int] = []
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        into, out = parent.stdin, parent.stdout
        assert into
        assert out

        def listed() -> set[int]:
            family = families([parent.pid])
            if not looks:
                into.write(b"go on\n")
                into.flush()
                assert out.readline() == b"begun\n"
            looks.append(len(family))
            return family

        with Tracer(probe, parse_options(probe.options, {}), Target(comm="sh"), listed) as tracer:
            tracer.start()
            family = families([parent.pid])
            parent.communicate()
            pids = {int(pid) for raw in tracer.finish() for pid in raw.rows["pid"]}
    assert looks[:2] == [2, 3]  # with this process
    assert not pids & family


def test_a_target_that_ends_leaves_the_task_running() -> None:
    """After the target has ended, the tracer goes on and records nothing."""
    probe = probe_named("syscalls")
    command = HeldCommand(["true"])
    with Tracer(probe, parse_options(probe.options, {}), Target(pid=command.pid)) as tracer:
        tracer.start()
        command.release()
        _wait(command)
        tracer.poll(50)
        subprocess.run(["ls", "/"], check=True, capture_output=True)
        assert tracer.poll(50) == []
        assert tracer.finish() == []


def test_the_tracer_does_not_watch_itself() -> None:
    """With the whole machine as target, only the tracing process and children that it starts later are left out."""
    probe = probe_named("process")
    before = subprocess.Popen(["sh", "-c", "read word; /bin/true; true"], stdin=subprocess.PIPE)
    with Tracer(probe, parse_options(probe.options, {})) as tracer:
        tracer.start()
        subprocess.run(["sh", "-c", "/bin/true; true"], check=True)
        before.communicate(b"now\n")
        rows = [row for raw in tracer.finish() if raw.stream.name == "exec" for row in to_arrow(raw).to_pylist()]
    assert [row["comm"] for row in rows if row["ppid"] == before.pid] == ["true"], "what was started before is watched"
    assert os.getpid() not in [row["ppid"] for row in rows]


def test_processes_that_ended_are_forgotten() -> None:
    """An ended process leaves the map of watched pids, so that the map does not fill and a reused pid is not watched.

    The kernel reports nearly every process that it frees; the tracer searches for the others every few seconds.
    """
    probe = probe_named("syscalls")
    command = HeldCommand(["sh", "-c", f"{'sleep 1000 & ' * 23} wait"])
    with Tracer(probe, parse_options(probe.options, {"names": "getppid"}), Target(pid=command.pid)) as tracer:
        tracer.start()
        command.release()
        others = {os.getpid(), command.pid}
        _until(lambda: len(tracer.watched_pids() - others) == 23)
        for pid in tracer.watched_pids() - others:
            os.kill(pid, signal.SIGKILL)
        _wait(command)
        _until(lambda: len(tracer.watched_pids() - {os.getpid()}) <= 3)
        _until(lambda: tracer.poll(10) is not None and not tracer.watched_pids() - {os.getpid()})


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (Target(pid=4194303), "no process has pid 4194303"),
        (Target(comm="sixteen-bytes-xx"), "at most 15 bytes"),
        (Target(exe="/etc"), "cannot watch the executable '/etc': it is not a file"),
        (Target(exe="/nonsense"), "cannot watch the executable '/nonsense': No such file"),
        (Target(cgroup="nonsense"), "there is no cgroup"),
        (Target(container="0123456789ab"), "no cgroup v2 belongs to a container '0123456789ab'"),
        (Target(container="abc"), "or 12 digits of its id"),
        (Target(cgroup="a", container="0123456789ab"), "cannot both be the target"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_targets_that_do_not_exist(target: Target, said: str) -> None:
    """The error says which target does not exist or is not valid."""
    probe = probe_named("syscalls")
    with Tracer(probe, parse_options(probe.options, {}), target) as tracer, pytest.raises(TargetNotFound, match=said):
        tracer.start()


def test_a_thread_is_no_process() -> None:
    """The id of a thread is refused; the error names its process."""
    script = "import threading, time\nt = threading.Thread(target=time.sleep, args=(9,), daemon=True); t.start()\n"
    script += "print(t.native_id, flush=True); time.sleep(9)"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        tid = int(process.stdout.readline())
        with pytest.raises(TargetNotFound, match=f"{tid} is a thread of process {process.pid}"):
            Target(pid=tid).conditions()
    finally:
        process.kill()
        process.communicate()


def _wait(command: HeldCommand) -> None:
    _until(lambda: command.poll() is not None)


def _until(true: Callable[[], bool]) -> None:
    patience = time.monotonic() + 60
    while not true():
        assert time.monotonic() < patience, "it did not come true within 60 s"
        time.sleep(0.01)

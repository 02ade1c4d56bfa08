"""A tracer in its own namespaces, where pids and the cgroup root differ from the host's."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scope_bpf.host import cgroup_root

SCOPE = [sys.executable, "-m", "scope_cli.main"]
PRIVATE_PIDS = ["unshare", "--pid", "--fork", "--mount-proc"]

# Traces getppid calls of two held programs, of this process and of its child; prints row counts by pid and comm.
TRACING = """
import json, os, shutil, subprocess, sys, time
from collections import Counter
from pathlib import Path
from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_catalogue.options import parse_options
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named

spin, family = sys.argv[1], sys.argv[2] == "family"
probe = probe_named("syscalls")
held = [HeldCommand([spin, count]) for count in ("103", "107")]
Path("/proc/self/comm").write_text("own-process")
target = Target(pid=held[0].pid) if family else Target()
with Tracer(probe, parse_options(probe.options, {"names": "getppid"}), target) as tracer:
    tracer.start()
    print(json.dumps([command.pid for command in held]), flush=True)
    sys.stdin.readline()
    for command in held:
        command.release()
        while command.poll() is None:
            time.sleep(0.01)
    for _ in range(211):
        os.getppid()
    subprocess.run([shutil.copy(spin, spin + ".own"), "109"], check=True)
    rows = [row for raw in tracer.finish() for row in to_arrow(raw).to_pylist()]
print(json.dumps(list(Counter((row["pid"], row["comm"]) for row in rows).items())))
"""


@pytest.mark.parametrize("whom", ["family", "machine"])
def test_processes_are_told_by_the_pids_of_a_private_namespace(whom: str, workload: Callable[[str], str]) -> None:
    """A target's pid is that of the tracer's namespace, rows have host pids, and the tracer is not recorded."""
    command = [*PRIVATE_PIDS, sys.executable, "-c", TRACING, workload("spin"), whom]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracing:
        assert tracing.stdin and tracing.stdout
        inner = json.loads(tracing.stdout.readline())
        (tracer,) = Path(f"/proc/{tracing.pid}/task/{tracing.pid}/children").read_text().split()
        first, second = (_host_pid(pid, Path(f"/proc/{tracer}/ns/pid").readlink()) for pid in inner)
        answer, _ = tracing.communicate("\n", timeout=60)
    counted = {tuple(who): count for who, count in json.loads(answer)}
    own = ("own-process", "spin.own")  # the tracer, and what it starts; other tests may spin, too
    ours = {who: count for who, count in counted.items() if who[0] in (first, second) or who[1] in own}
    everybody = {(first, "spin"): 103, (second, "spin"): 107}
    assert ours == (everybody if whom == "machine" else {(first, "spin"): 103})


def test_the_command_line_traces_a_command_there(workload: Callable[[str], str]) -> None:
    """In a private pid namespace, `scope trace -- COMMAND` records only the command."""
    command = [*SCOPE, "trace", "syscalls", "-o", "names=getppid", "--json", "--", workload("spin"), "127"]
    traced = subprocess.run([*PRIVATE_PIDS, *command], capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in traced.stdout.splitlines()]
    assert [row["comm"] for row in rows] == ["spin"] * 127


def test_what_looks_at_processes_cannot_run_there() -> None:
    """`scope doctor` reports a probe that needs host pids in /proc as unavailable, and suggests --pid=host."""
    doctor = subprocess.run([*PRIVATE_PIDS, *SCOPE, "doctor", "--json"], capture_output=True, text=True)
    found = json.loads(doctor.stdout)
    features = {feature["name"]: feature for feature in found["host"]}
    assert not features["pid namespace"]["available"]
    assert "--pid=host" in features["pid namespace"]["reason"]
    findings = {finding["probe"]: finding for finding in found["probes"]}
    assert not findings["cuda"]["available"]
    assert "--pid=host" in findings["cuda"]["reason"]
    assert findings["syscalls"]["available"]


def test_another_namespaces_proc_is_refused() -> None:
    """A trace is refused if /proc belongs to another pid namespace than the tracer's."""
    command = ["unshare", "--pid", "--fork", *SCOPE, "trace", "syscalls", "--duration", "1"]
    traced = subprocess.run(command, capture_output=True, text=True)
    assert traced.returncode == 1
    assert "/proc belongs to another pid namespace" in traced.stderr


def test_a_cgroup_below_a_private_root(workload: Callable[[str], str], need: Callable[[str], None]) -> None:
    """A cgroup below a private root is found by its mounted path; only its members are recorded."""
    need("cgroup v2")
    root = cgroup_root() or Path()
    group = root / f"scope-test-{os.getpid()}"
    watched, beside = group / "watched", group / "beside"
    for folder in (watched, beside):
        folder.mkdir(parents=True)
    spin = workload("spin")
    members = f"(echo 0 > {root}/watched/cgroup.procs; {spin} 103); (echo 0 > {root}/beside/cgroup.procs; {spin} 107)"
    trace = [*SCOPE, "trace", "syscalls", "--cgroup", "watched", "-o", "names=getppid", "--json"]
    trace += ["--", "sh", "-c", members]
    script = f"umount {root} && mount -t cgroup2 cgroup2 {root} && exec {shlex.join(trace)}"
    enter = f"echo 0 > {group}/cgroup.procs && exec unshare --cgroup --mount sh -c {shlex.join([script])}"
    try:
        traced = subprocess.run(["sh", "-c", enter], capture_output=True, text=True)
        assert traced.returncode == 0, traced.stderr
        rows: list[dict[str, Any]] = [json.loads(line) for line in traced.stdout.splitlines()]
        inode = watched.stat().st_ino
        assert [row["cgroup_id"] for row in rows] == [inode] * 103
    finally:
        for folder in (watched, beside, group):
            _remove(folder)


def _host_pid(inner: int, namespace: Path) -> int:
    """The host pid of the process with pid `inner` in a namespace; see NSpid in proc(5)."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "status").read_text()
                if f"\nNSpid:\t{folder.name}\t{inner}\n" in status and (folder / "ns/pid").readlink() == namespace:
                    return int(folder.name)
            except OSError:
                continue  # it ended meanwhile
    raise AssertionError(f"no process has pid {inner} in {namespace}")


def _remove(cgroup: Path) -> None:
    patience = time.monotonic() + 20
    while cgroup.exists():
        try:
            cgroup.rmdir()
        except OSError:  # its last member has not been reaped
            assert time.monotonic() < patience
            time.sleep(0.05)

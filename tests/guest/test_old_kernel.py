"""The probes on Debian 12's kernel 6.1, in a virtual machine that uses this host's files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.guest.guest import TIMEOUT_S, fetch_kernel, run_in_guest
from tests.probes import cuda_programs
from tests.probes.cuda_programs import Nvcc, launches_of

from scope_bpf.probes import probes

pytestmark = pytest.mark.timeout(TIMEOUT_S + 60)
CACHE = Path(__file__).parents[1] / ".cache"


@pytest.fixture(scope="module")
def kernel() -> Path:
    """The image of the guest's kernel, downloaded once."""
    return fetch_kernel(CACHE)


def test_every_probe_attaches(kernel: Path) -> None:
    """Every probe loads and attaches on the older kernel."""
    ran = run_in_guest([sys.executable, "-m", "scope_cli.main", "doctor", "--json"], kernel=kernel)
    found = json.loads(ran.output[ran.output.index("{") :])
    assert found["kernel"].startswith("6.1.")
    findings = {finding["probe"]: finding for finding in found["probes"]}
    assert list(findings) == list(probes())
    assert all(finding["available"] for name, finding in findings.items() if not probes()[name].sampler)
    assert findings["gpu"]["no_device"]


def test_events_are_recorded(kernel: Path) -> None:
    """The older kernel records events with their paths, and summaries, without loss."""
    script = (
        f"{sys.executable} -m scope_cli.main trace files --json -- cat /etc/hostname | grep etc/hostname; "
        f"{sys.executable} -m scope_cli.main trace syscalls --mode summary --json -- true | grep -c execve"
    )
    ran = run_in_guest(["sh", "-c", script], kernel=kernel)
    assert '"path":"/root/etc/hostname"' in ran.output  # the guest runs in a chroot, and a path is absolute
    assert ran.output.split()[-1] == "1"
    assert ran.output.count("none lost") == 2


def test_arguments_are_read(kernel: Path) -> None:
    """On the older kernel, syscall arguments show paths, the files of descriptors, and data as text."""
    command = f"{sys.executable} -m scope_cli.main trace syscalls -o decode=all --json -- cat /etc/hostname"
    ran = run_in_guest(["sh", "-c", command], kernel=kernel)
    rows = [json.loads(line) for line in ran.output.splitlines() if line.startswith("{")]
    opened = [row for row in rows if row["name"] == "openat" and '"/etc/hostname"' in row["args"]]
    assert [row["result"].partition("<")[2] for row in opened] == ["/root/etc/hostname>"]
    reads = [row for row in rows if row["name"] == "read" and "</root/etc/hostname>" in row["args"]]
    assert [row["ret"] for row in reads] == [Path("/etc/hostname").stat().st_size, 0]
    assert '</root/etc/hostname>, "' in reads[0]["args"]


def test_the_time_of_calls_is_split(kernel: Path) -> None:
    """The older kernel tells where the time of a call went: a sleep is blocked."""
    command = f"{sys.executable} -m scope_cli.main trace span libc:clock_nanosleep -o where=true --json -- sleep 0.2"
    ran = run_in_guest(["sh", "-c", command], kernel=kernel)
    (row,) = (json.loads(line) for line in ran.output.splitlines() if line.startswith("{"))
    assert row["on_cpu_ns"] + row["run_queue_ns"] + row["blocked_ns"] == row["duration_ns"]
    assert row["blocked_ns"] > row["duration_ns"] / 2


def test_tokens_are_recorded(kernel: Path, tmp_path: Path) -> None:
    """The older kernel tells requests and tokens apart, as in tests/probes/test_llama.py."""
    program, source = tmp_path / "batches", Path(__file__).parents[1] / "probes" / "workloads" / "batches.c"
    subprocess.run(["gcc", "-O1", "-o", program, source], check=True)
    script = f"{sys.executable} -m scope_cli.main trace llama --json -- {program} failing"
    ran = run_in_guest(["sh", "-c", script], kernel=kernel)
    rows = [json.loads(line) for line in ran.output.splitlines() if line.startswith("{")]
    requests = [(row["prompt_tokens"], row["generated_tokens"]) for row in rows if row["type"] == "llama_request"]
    assert requests == [(10, 2), (7, 1)]


def test_cuda_programs_are_recorded(kernel: Path, tmp_path: Path) -> None:
    """A kernel without multi-uprobe links records every CUDA call and launch, too."""
    program = Nvcc(tmp_path).build("static", "cuda_calls.cu")
    script = f"{sys.executable} -m scope_cli.main trace cuda --json -- {program}"
    ran = run_in_guest(["sh", "-c", script], kernel=kernel)
    rows = [json.loads(line) for line in ran.output.splitlines() if line.startswith("{")]
    rows.sort(key=lambda row: row["ktime_ns"])  # a program that changed its CPU has rows in two buffers
    account = cuda_programs.run(program)
    assert launches_of([row for row in rows if row["type"] == "cuda_launch"]) == account.launches
    calls = [(row["function"], row["result"], row["bytes"] or 0) for row in rows if row["type"] == "cuda_call"]
    assert calls == account.calls

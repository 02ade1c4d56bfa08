"""The probes on Debian 12's kernel 6.1, in a virtual machine with this host's files that boots once for all tests."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.guest.guest import TIMEOUT_S, fetch_kernel, run_in_guest
from tests.guest.several import MARK
from tests.probes import cuda_programs
from tests.probes.cuda_programs import Nvcc, launches_of

from scope_bpf.probes import probes

pytestmark = pytest.mark.timeout(TIMEOUT_S + 60)
CACHE = Path(__file__).parents[1] / ".cache"
BATCHES = Path(__file__).parents[1] / "probes" / "workloads" / "batches.c"
CONNECTIONS = BATCHES.with_name("connections.py")
PRESSURE = BATCHES.with_name("pressure.py")
PYTHON = [sys.executable, "-S", "-E"]
CAT = ["--json", "--", "cat", "/etc/hostname"]
# The guest has no disk: a block device in memory is one.
WRITES = """
/sbin/modprobe -d "$1" null_blk memory_backed=1 nr_devices=1 gb=1
exec dd if=/dev/zero of=/dev/nullb0 bs=12288 count=7 oflag=direct status=none
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs that are traced."""
    folder = tmp_path_factory.mktemp("programs")
    subprocess.run(["gcc", "-O1", "-o", folder / "batches", BATCHES], check=True)
    Nvcc(folder).build("calls", "cuda_calls.cu")
    return folder


@pytest.fixture(scope="module")
def output(programs: Path) -> Callable[[str], str]:
    """What each `scope` command printed in the guest."""
    kernel = fetch_kernel(CACHE)
    talk = [*PYTHON, str(CONNECTIONS), "talk", "11", "127.0.0.1"]
    commands = {
        "doctor": ["doctor", "--json"],
        "files": ["trace", "files", *CAT],
        "summary": ["trace", "syscalls", "--mode", "summary", "--json", "--", "true"],
        "arguments": ["trace", "syscalls", "-o", "decode=all", *CAT],
        "where": ["trace", "span", "libc:clock_nanosleep", "-o", "where=true", "--json", "--", "sleep", "0.2"],
        "block": ["trace", "block", "--json", "--", "sh", "-c", WRITES, "sh", str(kernel.parents[3])],
        "net": ["trace", "net", "--json", "--", *talk],
        "memory": ["trace", "memory", "-o", "stacks=false", "--json", "--", *PYTHON, str(PRESSURE)],
        "llama": ["trace", "llama", "--json", "--", str(programs / "batches"), "failing"],
        "cuda": ["trace", "cuda", "--json", "--", str(programs / "calls")],
    }
    command = [sys.executable, "-m", "tests.guest.several", json.dumps(commands)]
    told = run_in_guest(command, kernel=kernel).output.split(MARK)
    parts = {name: text for name, _, text in (part.partition("\n") for part in told)}
    return lambda name: parts[name]


@pytest.fixture(scope="module")
def rows(output: Callable[[str], str]) -> Callable[[str], list[dict[str, Any]]]:
    """The rows that a trace printed in the guest."""
    return lambda name: [json.loads(line) for line in output(name).splitlines() if line.startswith("{")]


def test_every_probe_attaches(output: Callable[[str], str]) -> None:
    """Every probe loads and attaches on the older kernel."""
    text = output("doctor")
    found = json.loads(text[text.index("{") :])
    assert found["kernel"].startswith("6.1.")
    findings = {finding["probe"]: finding for finding in found["probes"]}
    assert list(findings) == list(probes())
    assert all(finding["available"] for name, finding in findings.items() if not probes()[name].sampler)
    assert findings["gpu"]["no_device"]


def test_events_are_recorded(output: Callable[[str], str]) -> None:
    """The older kernel records events with their paths, and summaries, without loss."""
    assert '"path":"/etc/hostname"' in output("files")
    assert sum("execve" in line for line in output("summary").splitlines()) == 1
    assert "none lost" in output("files")
    assert "none lost" in output("summary")


def test_an_empty_name_is_read(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """The older kernel reads it otherwise: the C library's fstat has one, and the file's path is known."""
    found = [row for row in rows("files") if row.get("operation") == "stat"]
    assert "/etc/hostname" in {row["path"] for row in found}
    assert all(row["path"] for row in found)


def test_arguments_are_read(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """On the older kernel, syscall arguments show paths, the files of descriptors, and data as text."""
    calls = rows("arguments")
    opened = [row for row in calls if row["name"] == "openat" and '"/etc/hostname"' in row["args"]]
    assert [row["result"].partition("<")[2] for row in opened] == ["/etc/hostname>"]
    reads = [row for row in calls if row["name"] == "read" and "</etc/hostname>" in row["args"]]
    assert [row["ret"] for row in reads] == [Path("/etc/hostname").stat().st_size, 0]
    assert '</etc/hostname>, "' in reads[0]["args"]


def test_the_time_of_calls_is_split(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """The older kernel tells where the time of a call went: a sleep is blocked."""
    (row,) = rows("where")
    assert row["on_cpu_ns"] + row["run_queue_ns"] + row["blocked_ns"] == row["duration_ns"]
    assert row["blocked_ns"] > row["duration_ns"] / 2


def test_requests_to_disks_are_recorded(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """The older kernel, which does not tell when a request is made, has each direct write with its size and program."""
    written = [row for row in rows("block") if row["operation"] == "write" and row["comm"] == "dd"]
    assert [(row["disk"], row["sector"], row["bytes"]) for row in written] == [
        ("nullb0", 24 * n, 12288) for n in range(7)
    ]
    assert {(row["failed"], row["writeback"], row["issued"]) for row in written} == {(0, 0, 1)}


def test_connections_are_recorded(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """The older kernel counts the bytes of each connection at both ends, as the programs do."""
    (told,) = [row for row in rows("net") if "sizes" in row]
    found = [row for row in rows("net") if row.get("type") == "connection"]
    sent = [row for row in found if row["remote_port"] == told["port"]]
    got = [row for row in found if row["local_port"] == told["port"]]
    expected = Counter((port, *sizes) for port, sizes in zip(told["ports"], told["sizes"], strict=True))
    assert len(expected) == 11
    assert Counter((row["local_port"], row["sent_bytes"], row["received_bytes"]) for row in sent) == expected
    assert Counter((row["remote_port"], row["received_bytes"], row["sent_bytes"]) for row in got) == expected


def test_lack_of_memory_is_recorded(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """The older kernel, whose trace of kills has the pid alone, tells who was killed and why, as its log does. Stalls
    of all kinds are there: of a thread that wants huge pages, which the kernel counts, too, and at a cgroup's limit."""
    (told,) = [row for row in rows("memory") if "stalls" in row]
    kills = [row for row in rows("memory") if row.get("type") == "oom_kill"]
    assert {row["reason"]: row["pid"] for row in kills} == told["killed"]
    reasons = {"machine": "NONE", "cgroup": "MEMCG"}
    assert [[reasons[row["reason"]], str(row["pid"])] for row in kills] == told["log"]
    limits = {row["reason"]: (row["limited_cgroup_id"], row["limit_bytes"]) for row in kills}
    assert limits == {"cgroup": (told["group"], told["limit"]), "machine": (None, None)}
    stalls = [row for row in rows("memory") if row.get("type") == "reclaim"]
    huge = Counter(row["kind"] for row in stalls if row["order"] == 9)
    assert 0 < huge["machine"] <= told["stalls"]["machine"]
    assert huge["compaction"] > 0 < told["stalls"]["compaction"]
    assert told["killed"]["cgroup"] in {row["pid"] for row in stalls if row["kind"] == "cgroup"}


def test_tokens_are_recorded(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """The older kernel tells requests and tokens apart, as in tests/probes/test_llama.py."""
    found = sorted(rows("llama"), key=lambda row: row["ktime_ns"])  # a program may have rows in the buffers of two CPUs
    requests = [row for row in found if row["type"] == "llama_request"]
    assert [(row["prompt_tokens"], row["generated_tokens"]) for row in requests] == [(10, 2), (7, 1)]


def test_cuda_programs_are_recorded(rows: Callable[[str], list[dict[str, Any]]], programs: Path) -> None:
    """A kernel without multi-uprobe links records every CUDA call and launch, too."""
    found = sorted(rows("cuda"), key=lambda row: row["ktime_ns"])
    account = cuda_programs.run(programs / "calls")
    assert launches_of([row for row in found if row["type"] == "cuda_launch"]) == account.launches
    calls = [(row["function"], row["result"], row["bytes"] or 0) for row in found if row["type"] == "cuda_call"]
    assert calls == account.calls

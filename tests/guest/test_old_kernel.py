"""The probes on Debian 12's kernel 6.1, in a virtual machine with this host's files that boots once for all tests."""

import json
import subprocess
import sys
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
CAT = ["--json", "--", "cat", "/etc/hostname"]


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
    commands = {
        "doctor": ["doctor", "--json"],
        "files": ["trace", "files", *CAT],
        "summary": ["trace", "syscalls", "--mode", "summary", "--json", "--", "true"],
        "arguments": ["trace", "syscalls", "-o", "decode=all", *CAT],
        "where": ["trace", "span", "libc:clock_nanosleep", "-o", "where=true", "--json", "--", "sleep", "0.2"],
        "llama": ["trace", "llama", "--json", "--", str(programs / "batches"), "failing"],
        "cuda": ["trace", "cuda", "--json", "--", str(programs / "calls")],
    }
    command = [sys.executable, "-m", "tests.guest.several", json.dumps(commands)]
    told = run_in_guest(command, kernel=fetch_kernel(CACHE)).output.split(MARK)
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
    assert '"path":"/root/etc/hostname"' in output("files")  # the guest runs in a chroot, and a path is absolute
    assert sum("execve" in line for line in output("summary").splitlines()) == 1
    assert "none lost" in output("files")
    assert "none lost" in output("summary")


def test_an_empty_name_is_read(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """The older kernel reads it otherwise: the C library's fstat has one, and the file's path is known."""
    found = [row for row in rows("files") if row.get("operation") == "stat"]
    assert "/root/etc/hostname" in {row["path"] for row in found}
    assert all(row["path"] for row in found)


def test_arguments_are_read(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """On the older kernel, syscall arguments show paths, the files of descriptors, and data as text."""
    calls = rows("arguments")
    opened = [row for row in calls if row["name"] == "openat" and '"/etc/hostname"' in row["args"]]
    assert [row["result"].partition("<")[2] for row in opened] == ["/root/etc/hostname>"]
    reads = [row for row in calls if row["name"] == "read" and "</root/etc/hostname>" in row["args"]]
    assert [row["ret"] for row in reads] == [Path("/etc/hostname").stat().st_size, 0]
    assert '</root/etc/hostname>, "' in reads[0]["args"]


def test_the_time_of_calls_is_split(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """The older kernel tells where the time of a call went: a sleep is blocked."""
    (row,) = rows("where")
    assert row["on_cpu_ns"] + row["run_queue_ns"] + row["blocked_ns"] == row["duration_ns"]
    assert row["blocked_ns"] > row["duration_ns"] / 2


def test_tokens_are_recorded(rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """The older kernel tells requests and tokens apart, as in tests/probes/test_llama.py."""
    requests = [row for row in rows("llama") if row["type"] == "llama_request"]
    assert [(row["prompt_tokens"], row["generated_tokens"]) for row in requests] == [(10, 2), (7, 1)]


def test_cuda_programs_are_recorded(rows: Callable[[str], list[dict[str, Any]]], programs: Path) -> None:
    """A kernel without multi-uprobe links records every CUDA call and launch, too."""
    found = sorted(rows("cuda"), key=lambda row: row["ktime_ns"])  # a program may have rows in the buffers of two CPUs
    account = cuda_programs.run(programs / "calls")
    assert launches_of([row for row in found if row["type"] == "cuda_launch"]) == account.launches
    calls = [(row["function"], row["result"], row["bytes"] or 0) for row in found if row["type"] == "cuda_call"]
    assert calls == account.calls

"""The state of GPUs through NVML, with a stand-in for the library that returns known values."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.probes.nvml import build_nvml

SCOPE = [sys.executable, "-m", "scope_cli.main"]
ABSENT = {
    *("gpu_percent", "memory_percent", "power_watts", "power_limit_watts", "pcie_received", "pcie_sent"),
    *("ecc_corrected", "ecc_uncorrected", "xid_errors"),
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return build_nvml(tmp_path_factory.mktemp("nvml"))


def _trace(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*SCOPE, "trace", "gpu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=60)


def _rows(traced: subprocess.CompletedProcess[str], stream: str) -> list[dict[str, Any]]:
    assert traced.returncode == 0, traced.stderr
    return [row for row in map(json.loads, traced.stdout.splitlines()) if row["type"] == stream]


def test_a_gpu_is_what_nvml_says(environment: dict[str, str]) -> None:
    """Each value has the unit of its column, also if NVML has it only under an older driver's function name."""
    row = _rows(_trace(environment, "--json", "--duration", "0.3"), "gpu")[0]
    assert (
        row.items()
        >= {
            "device": 0,
            "uuid": "GPU-101",
            "name": "NVIDIA H100 80GB HBM3",
            "gpu_percent": 97,
            "memory_percent": 41,
            "memory_used_bytes": 7 << 30,
            "memory_total_bytes": 80 << 30,
            "temperature_celsius": 61,
            "power_watts": 412.345,
            "power_limit_watts": 700.0,
            "sm_clock_mhz": 1980,
            "memory_clock_mhz": 2619,
            "slowed_by": "power_cap,thermal",
            "pcie_received": 3000 * 1024,
            "pcie_sent": 5000 * 1024,
            "pcie_generation": 5,
            "pcie_width": 16,
            "ecc_corrected": 17,
            "ecc_uncorrected": 2,
            "xid_errors": 1,
        }.items()
    )


def test_what_a_gpu_cannot_tell_is_absent(environment: dict[str, str]) -> None:
    """A value that NVML cannot tell for a GPU is null; the others are present."""
    row = _rows(_trace(environment, "--json", "--duration", "0.3"), "gpu")[1]
    assert {name for name, value in row.items() if value is None} == ABSENT
    assert row["memory_used_bytes"] == 2 << 30


def test_errors_are_rows(environment: dict[str, str]) -> None:
    """Each error is one row; an XID has the meaning of its number."""
    rows = _rows(_trace(environment, "--json", "--duration", "0.5", "-o", "interval_ms=100"), "gpu_error")
    assert [(row["device"], row["kind"], row["xid"], row["meaning"]) for row in rows] == [
        (0, "xid", 79, "GPU has fallen off the bus"),
        (0, "ecc_uncorrected", None, None),
    ]


def test_memory_by_process(environment: dict[str, str]) -> None:
    """A process has its name, or only its pid if it is not visible; after its last free it has one row with 0."""
    listed = Path(environment["NVML_PROCESSES"])
    listed.write_text(f"{os.getpid()} 1009\n999999 2003\n")
    command = [*SCOPE, "trace", "gpu", "--json", "--duration", "2", "-o", "interval_ms=100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment) as tracing:
        assert tracing.stdout
        first = tracing.stdout.readline()
        time.sleep(0.3)
        listed.write_text("999999 2003\n")
        rows = [json.loads(line) for line in [first, *tracing.stdout]]
    name = Path("/proc/self/comm").read_text().strip()
    mine = [row for row in rows if row["type"] == "gpu_process" and row["pid"] == os.getpid()]
    assert Counter(row["used_bytes"] for row in mine)[0] == 1
    assert (mine[0]["used_bytes"], mine[-1]["used_bytes"]) == (1009, 0)
    assert {(row["comm"], row["uid"], row["kind"]) for row in mine[:-1]} == {(name, os.getuid(), "compute")}
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) * 10_000_000
    assert {row["start_ns"] for row in mine} == {started}
    other = [row for row in rows if row["type"] == "gpu_process" and row["pid"] == 999999]
    assert {(row["comm"], row["start_ns"], row["used_bytes"]) for row in other} == {(None, 0, 2003)}


def test_no_answer_is_not_nobody(environment: dict[str, str]) -> None:
    """If NVML gives no answer, its processes do not count as having freed their memory."""
    listed = Path(environment["NVML_PROCESSES"])
    listed.write_text(f"{os.getpid()} 1009\n")
    command = [*SCOPE, "trace", "gpu", "--json", "--duration", "1.5", "-o", "interval_ms=100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment) as tracing:
        assert tracing.stdout
        first = tracing.stdout.readline()
        time.sleep(0.3)
        listed.unlink()
        rows = [json.loads(line) for line in [first, *tracing.stdout]]
    assert {row["used_bytes"] for row in rows if row["type"] == "gpu_process"} == {1009}
    assert rows[-1]["type"] == "gpu_process", "it is told of until the end"


def test_it_looks_while_a_command_runs(environment: dict[str, str]) -> None:
    """While a command runs, the GPUs are sampled at each interval."""
    command = [*SCOPE, "trace", "gpu", "--json", "-o", "interval_ms=200", "--", "cat"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environment
    ) as tracing:
        assert tracing.stdin
        assert tracing.stdout
        times: set[int] = set()
        while len(times) < 4:
            row = json.loads(tracing.stdout.readline())
            times |= {row["ktime_ns"]} if row["type"] == "gpu" else set()
        tracing.stdin.close()  # the command ends
        rest = map(json.loads, tracing.stdout)
        times |= {row["ktime_ns"] for row in rest if row["type"] == "gpu"}
    assert len(times) <= (max(times) - min(times)) / (200 * 10**6) + 3  # first, last, and one that is late
    assert tracing.returncode == 0


@pytest.mark.parametrize(
    ("variables", "arguments", "status", "said"),
    [
        ({"LD_LIBRARY_PATH": "/nonexistent"}, (), 1, "no NVIDIA driver on this host"),
        ({"NVML_FAILS": "9"}, (), 1, "no NVIDIA driver on this host"),
        ({"NVML_FAILS": "18"}, (), 1, "NVML does not start: RM has detected an NVML/RM version mismatch"),
        ({"NVML_COUNT": "0"}, (), 1, "this host has an NVIDIA driver but no GPU"),
        ({}, ("--pid", "1"), 2, "probe 'gpu' samples the whole machine; leave the target out"),
        ({}, ("-o", "ring_bytes=4096"), 2, "no option named 'ring_bytes'; there are: interval_ms"),
    ],
)
def test_what_is_missing_is_said(
    environment: dict[str, str], variables: dict[str, str], arguments: tuple[str, ...], status: int, said: str
) -> None:
    """A trace that cannot run ends with one line that says why."""
    traced = _trace(environment | variables, "--duration", "0.1", *arguments)
    assert (traced.returncode, traced.stderr.count("\n")) == (status, 1)
    assert said in traced.stderr


def test_the_table_shows_what_is(environment: dict[str, str]) -> None:
    """The table has a line per GPU, and a dash for each value that the GPU cannot tell."""
    shown = _trace(environment | {"COLUMNS": "200"}, "--duration", "0.1").stdout.splitlines()
    first, second = (next(line for line in shown if line.startswith(number)) for number in "01")
    assert first.split()[5:9] == ["97", "%", "41", "%"]
    assert second.split()[5:8] == ["-", "-", "61"]

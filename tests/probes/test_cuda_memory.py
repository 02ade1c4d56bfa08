"""Success paths of CUDA programs, with a stand-in for the runtime and driver: what they do has known answers."""

import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.probes.cuda_programs import Nvcc, StandIn
from tests.probes.recording import Record, Recording

from scope_bpf.catalogue import probe_named
from scope_bpf.options import parse_options
from scope_bpf.targets import Target
from scope_bpf.tracer import Tracer

MIB = 1 << 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cuda_memory.cu on the stand-in."""
    stand_in = StandIn(tmp_path_factory.mktemp("stand_in"))
    return stand_in.build(Nvcc(tmp_path_factory.mktemp("cuda")), "memory", "cuda_memory.cu")


@pytest.fixture
def recording(record: Record, program: Path) -> Recording:
    return record("cuda", [str(program)])


def _last(rows: list[dict[str, Any]], *keys: str) -> dict[Any, dict[str, Any]]:
    return {tuple(row[key] for key in keys): row for row in rows}


def test_calls_within_calls_are_marked(recording: Recording) -> None:
    """A driver call that the runtime makes is there, marked as nested, and only those are."""
    counts = Counter((row["function"], row["nested"]) for row in recording.rows("cuda_call"))
    assert counts["cudaMalloc", 0] == 101 + 53 + 1 + 1
    assert counts["cuMemAlloc_v2", 1] == 101 + 53 + 1
    assert counts["cudaFree", 0] == 53 + 1
    assert counts["cuMemFree_v2", 1] == 53
    assert not [key for key in counts if key[0].startswith("cuMemAlloc") and not key[1]]


def test_results_and_devices(recording: Recording) -> None:
    """Out of memory has its name; the device is the one that the thread chose."""
    rows = recording.rows("cuda_call")
    failed = [(row["function"], row["result"], row["result_name"], row["bytes"]) for row in rows if row["result"]]
    assert failed == [("cudaMalloc", 2, "cudaErrorMemoryAllocation", 2 << 40)]
    assert {row["device"] for row in rows[1:]} == {2}
    assert all(row["ptr"] for row in rows if row["function"] == "cudaMalloc" and not row["result"])


def test_bandwidth_of_copies_that_block(recording: Recording) -> None:
    """Bytes by the call's own duration."""
    copies = [row for row in recording.rows("cuda_call") if row["kind"]]
    assert [(row["function"], row["kind"], row["bytes"]) for row in copies] == [("cudaMemcpy", "H2D", MIB)] * 7
    for row in copies:
        assert row["bandwidth"] == pytest.approx(MIB / (row["duration_ns"] / 1e9))


def test_a_wait_is_its_time(recording: Recording) -> None:
    """The stand-in sleeps 3 ms in it."""
    (wait,) = [row for row in recording.rows("cuda_call") if row["function"] == "cudaDeviceSynchronize"]
    assert wait["duration_ns"] >= 3_000_000


def test_kernels_by_handle_and_by_the_drivers_names(recording: Recording) -> None:
    """A handle that is no address leads to its kernel; what the driver was asked for by name has that name."""
    rows = [row for row in recording.rows("cuda_launch") if not row["nested"]]
    assert Counter((row["function"], row["kernel"], row["name_source"]) for row in rows) == {
        ("cudaLaunchKernel", "touch(int*)", "registration"): 2,
        ("cuLaunchKernel", "triton_softmax_0d1d", "driver"): 13,
    }
    shapes = {tuple(row[f"{part}_{axis}"] for part in ("grid", "block") for axis in "xyz") for row in rows}
    assert shapes == {(3, 1, 1, 5, 1, 1), (7, 1, 1, 11, 1, 1), (2, 3, 5, 7, 11, 13)}
    assert {row["shared_bytes"] for row in rows if row["function"] == "cuLaunchKernel"} == {17}


def test_what_is_held(recording: Recording) -> None:
    """Live and peak bytes by kind of memory; a pool counts as what it maps; failures and cudaFree(NULL) do not."""
    held = _last(recording.rows("cuda_memory"), "memory")
    names = ("live_bytes", "live_count", "peak_bytes", "allocations", "frees", "unknown_frees", "device")
    assert {memory: tuple(row[name] for name in names) for (memory,), row in held.items()} == {
        "device": (101 * 307 + MIB, 102, 101 * 307 + MIB + 6 * MIB, 101 + 53 + 1 + 2, 53 + 2, 0, 2),
        "pinned": (0, 0, 4099, 1, 1, 0, 2),
        "managed": (8209, 1, 8209, 1, 0, 0, 2),
    }


def test_leaks_by_stack(recording: Recording) -> None:
    """What was not freed is put down to who allocated it; what was balanced is not live."""
    live = _last(recording.rows("cuda_live"), "stack", "memory")
    leaks = {row["stack"].rpartition(";")[2]: row for row in live.values() if row["live_count"]}
    assert set(leaks) == {"leak()", "main"}
    leak = leaks["leak()"]
    assert (leak["live_bytes"], leak["live_count"], leak["allocations"]) == (101 * 307, 101, 101)
    assert leak["mean_age_ns"] > 0
    assert ";main;" in leak["stack"]


def test_summaries_count_the_same(record: Record, program: Path) -> None:
    """Counts, errors, bytes and histograms, kept in the kernel."""
    recording = record("cuda", [str(program)], mode="summary")
    calls = {row["function"]: row for row in recording.rows("cuda_call_summary") if not row["nested"]}
    assert {name: calls["cudaMalloc"][name] for name in ("count", "errors", "bytes")} == {
        "count": 156,
        "errors": 1,
        "bytes": 101 * 307 + 53 * 1009 + MIB,
    }
    assert sum(calls["cudaMemcpy"]["latency"]) == calls["cudaMemcpy"]["count"] == 7
    launches = {row["kernel"]: row for row in recording.rows("cuda_launch_summary") if not row["nested"]}
    assert {kernel: row["count"] for kernel, row in launches.items()} == {"touch(int*)": 2, "triton_softmax_0d1d": 13}
    assert recording.rows("cuda_memory")


def _traced(pid: int, tracer: Tracer, until: str, process: "subprocess.Popen[str]") -> Recording:
    """Polls until the program says a word."""
    assert process.stdout
    recording = Recording(pid)
    while process.stdout.readline().strip() != until:
        pass
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        for raw in tracer.poll(100):
            recording.add(raw)
    return recording


def test_a_process_that_runs_already_is_attached_to(program: Path) -> None:
    """Attached late it is all there from then on; when it ends, what it held is free and said to be so."""
    command = [str(program), "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        probe = probe_named("cuda")
        with Tracer(probe, parse_options(probe.options, {}), Target(pid=process.pid)) as tracer:
            tracer.start()
            process.stdin.write("x")
            process.stdin.flush()
            recording = _traced(process.pid, tracer, "done", process)
            assert Counter(row["kernel"] for row in recording.rows("cuda_launch") if not row["nested"]) == {
                "touch(int*)": 2,
                "triton_softmax_0d1d": 13,
            }
            process.stdin.write("x")
            process.stdin.close()
            process.wait()
            for raw in tracer.finish():
                recording.add(raw)
    ended = [row for row in recording.rows("cuda_memory") if row["ended"]]
    assert {row["memory"]: row["live_bytes"] for row in ended}["device"] == 101 * 307 + MIB

"""Success paths of CUDA programs, with a stand-in for the runtime and driver, so that all results are known."""

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from tests.probes.cuda_programs import WORKLOADS, Nvcc, StandIn
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

from scope_bpf.binding.statistics import KernelStatistics
from scope_bpf.capture import functions as functions_module
from scope_bpf.capture import states as states_module
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.code.elf import ElfFile
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

MIB = 1 << 20


@pytest.fixture(scope="module", params=["none", "full"])
def stand_in(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> StandIn:
    """A stand-in whose functions begin with push, or with endbr64 and push; the probe is placed after endbr64."""
    made = StandIn(tmp_path_factory.mktemp("stand_in"), request.param)
    with FileIO(made.folder / "libcudart.so.13") as file:
        elf = ElfFile(file)
        offset = elf.functions(["cudaMalloc"])["cudaMalloc"]
        assert elf.cheapest_probe(offset) - offset == {"none": 0, "full": 4}[request.param]
    return made


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, stand_in: StandIn) -> Path:
    """cuda_memory.cu, linked with the stand-in."""
    return stand_in.build(Nvcc(tmp_path_factory.mktemp("cuda")), "memory", "cuda_memory.cu")


@pytest.fixture
def recording(record: Record, program: Path) -> Recording:
    return record("cuda", [str(program)])


def _last(rows: list[dict[str, Any]], *keys: str) -> dict[Any, dict[str, Any]]:
    return {tuple(row[key] for key in keys): row for row in rows}


def test_calls_within_calls_are_marked(recording: Recording) -> None:
    """A driver call that the runtime makes is recorded and marked as nested; other calls are not."""
    counts = Counter((row["function"], row["nested"]) for row in recording.rows("cuda_call"))
    assert counts["cudaMalloc", 0] == 101 + 53 + 1 + 1
    assert counts["cuMemAlloc_v2", 1] == 101 + 53 + 1
    assert counts["cudaFree", 0] == 53 + 1
    assert counts["cuMemFree_v2", 1] == 53
    assert not [key for key in counts if key[0].startswith("cuMemAlloc") and not key[1]]


def test_results_and_devices(recording: Recording) -> None:
    """A failed allocation has the name of its error; the device is the one that the thread selected."""
    rows = recording.rows("cuda_call")
    failed = [(row["function"], row["result"], row["result_name"], row["bytes"]) for row in rows if row["result"]]
    assert failed == [("cudaMalloc", 2, "cudaErrorMemoryAllocation", 2 << 40)]
    assert {row["device"] for row in rows[1:]} == {2}
    assert all(row["ptr"] for row in rows if row["function"] == "cudaMalloc" and not row["result"])


def test_bandwidth_of_copies_that_block(recording: Recording) -> None:
    """A blocking copy's bandwidth is its bytes divided by the call's duration."""
    copies = [row for row in recording.rows("cuda_call") if row["kind"]]
    assert [(row["function"], row["kind"], row["bytes"]) for row in copies] == [("cudaMemcpy", "H2D", MIB)] * 7
    for row in copies:
        assert row["bandwidth"] == pytest.approx(MIB / (row["duration_ns"] / 1e9))


def test_a_wait_is_its_time(recording: Recording) -> None:
    """A call that waits lasts as long as the wait: the stand-in sleeps 3 ms."""
    (wait,) = [row for row in recording.rows("cuda_call") if row["function"] == "cudaDeviceSynchronize"]
    assert wait["duration_ns"] >= 3_000_000


def test_kernels_by_handle_and_by_the_drivers_names(recording: Recording) -> None:
    """An opaque handle is resolved to its kernel; a function requested from the driver by name has that name."""
    rows = [row for row in recording.rows("cuda_launch") if not row["nested"]]
    assert Counter((row["function"], row["kernel"], row["name_source"]) for row in rows) == {
        ("cudaLaunchKernel", "touch(int*)", "registration"): 2,
        ("cuLaunchKernel", "triton_softmax_0d1d", "driver"): 13,
    }
    shapes = {tuple(row[f"{part}_{axis}"] for part in ("grid", "block") for axis in "xyz") for row in rows}
    assert shapes == {(3, 1, 1, 5, 1, 1), (7, 1, 1, 11, 1, 1), (2, 3, 5, 7, 11, 13)}
    assert {row["shared_bytes"] for row in rows if row["function"] == "cuLaunchKernel"} == {17}


def test_what_is_held(recording: Recording) -> None:
    """Live and peak bytes are counted by kind of memory, also for cuMemMap, but not for failures and cudaFree(NULL)."""
    held = _last(recording.rows("cuda_memory"), "memory")
    names = ("live_bytes", "live_count", "peak_bytes", "allocations", "frees", "unknown_frees", "device")
    assert {memory: tuple(row[name] for name in names) for (memory,), row in held.items()} == {
        "device": (101 * 307 + MIB, 102, 101 * 307 + MIB + 6 * MIB, 101 + 53 + 1 + 2, 53 + 2, 0, 2),
        "pinned": (0, 0, 4099, 1, 1, 0, 2),
        "managed": (8209, 1, 8209, 1, 0, 0, 2),
    }


def test_leaks_by_stack(recording: Recording) -> None:
    """Unfreed memory is live under the stack that allocated it; freed memory is not live."""
    live = _last(recording.rows("cuda_live"), "stack", "memory")
    leaks = {row["stack"].rpartition(";")[2]: row for row in live.values() if row["live_count"]}
    assert set(leaks) == {"leak(int)", "main"}
    leak = leaks["leak(int)"]
    assert (leak["live_bytes"], leak["live_count"], leak["allocations"]) == (101 * 307, 101, 101)
    assert 0 < leak["mean_age_ns"] < 60_000_000_000
    assert ";main;" in leak["stack"]


def test_code_without_symbols_can_be_named_later(record: Record, program: Path, tmp_path: Path) -> None:
    """A frame without a symbol has file, offset and build id, which find its name in an unstripped file."""
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    notes = subprocess.run(["readelf", "-n", stripped], capture_output=True, text=True, check=True).stdout
    (build_id,) = re.findall(r"Build ID: ([0-9a-f]{40})", notes)
    live = _last(record("cuda", [str(stripped)]).rows("cuda_live"), "stack_id")
    (stack,) = [row["stack"] for row in live.values() if row["live_count"] == 101]
    ours = [frame for frame in stack.split(";") if frame.startswith("stripped")]
    assert len(ours) >= 2
    offset = ""
    for frame in ours:
        found = re.fullmatch(rf"stripped\+(0x[0-9a-f]+) \[{build_id}\]", frame)
        assert found
        offset = found[1]
    named = subprocess.run(["addr2line", "-fe", program, offset], capture_output=True, text=True, check=True)
    assert "leak" in named.stdout.splitlines()[0], "the unstripped file has the innermost one's name there"


def test_installed_libraries_are_attached_to_beforehand(
    stand_in: StandIn, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call is missed when a program that uses installed libraries starts during a trace, not even the first."""
    libraries = [str(stand_in.folder / name) for name in ("libcuda.so.1", "libcudart.so.13")]
    monkeypatch.setattr(functions_module, "installed_libraries", lambda _: libraries)
    recording = Recording()
    command = ["sh", "-c", f"read word; exec {program}"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process,
        _tracer(process.pid) as tracer,
    ):
        tracer.start()
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
        process.wait()
        for raw in [*tracer.poll(100), *tracer.finish()]:
            recording.add(raw)
    rows = [row for row in recording.rows("cuda_call") if row["pid"] == process.pid and not row["nested"]]
    assert rows[0]["function"] == "cudaSetDevice", "the first that it calls"
    assert Counter(row["function"] for row in rows)["cudaMalloc"] == 156


def test_summaries_count_the_same(record: Record, program: Path) -> None:
    """A summary, kept in the kernel, has the program's counts, errors and bytes; histograms add up to the count."""
    recording = record("cuda", [str(program)], mode="summary", interval_ms=ONE_INTERVAL_MS)
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
    """Waits until the program prints a word, then polls for 1.5 s, and until all rows have come."""
    assert process.stdout
    recording = Recording(pid)
    while process.stdout.readline().strip() != until:
        pass
    said = time.monotonic()
    while (took := time.monotonic() - said) < 1.5 or (took < 60 and _under_way(tracer, recording)):
        for raw in tracer.poll(100):
            recording.add(raw)
    return recording


def _under_way(tracer: Tracer, recording: Recording) -> bool:
    return any(account.emitted > recording.count(stream) for stream, account in tracer.accounts().items())


@contextmanager
def _running(program: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The program, held after it has allocated 61 bytes and launched once."""
    command = [str(program), "wait", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def _let_go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin
    process.stdin.write("x")
    process.stdin.flush()


def _tracer(pid: int) -> Tracer:
    probe = probe_named("cuda")
    return Tracer(probe, parse_options(probe.options, {}), Target(pid=pid))


def test_a_process_that_runs_already_is_attached_to(program: Path) -> None:
    """A running process is recorded from the attach on; after its end, its memory has rows with `ended`."""
    with _running(program) as process, _tracer(process.pid) as tracer:
        tracer.start()
        _let_go(process)
        recording = _traced(process.pid, tracer, "done", process)
        assert Counter(row["kernel"] for row in recording.rows("cuda_launch") if not row["nested"]) == {
            "touch(int*)": 2,
            "triton_softmax_0d1d": 13,
        }
        _let_go(process)
        process.wait()
        for raw in tracer.finish():
            recording.add(raw)
    ended = {row["memory"]: row for row in recording.rows("cuda_memory") if row["ended"]}
    assert ended["device"]["live_bytes"] == 101 * 307 + MIB
    assert ended["device"]["unknown_frees"] == 1, "what was allocated before is freed, and that is no error"


def test_a_library_that_was_deleted_is_attached_to(stand_in: StandIn, tmp_path: Path) -> None:
    """The mapped file is attached, even if its path has been deleted."""
    folder = tmp_path / "stand_in"
    shutil.copytree(stand_in.folder, folder)
    copy = replace(stand_in, folder=folder, made=True)
    program = copy.build(Nvcc(tmp_path), "memory", "cuda_memory.cu")
    with _running(program) as process, _tracer(process.pid) as tracer:
        shutil.rmtree(folder)
        tracer.start()
        _let_go(process)
        recording = _traced(process.pid, tracer, "done", process)
    assert Counter(row["function"] for row in recording.rows("cuda_call") if not row["nested"])["cudaMalloc"] == 156


def test_a_process_that_dies_leaves_no_trouble(program: Path) -> None:
    """A process killed between the attach and its next call has no rows and no losses."""
    with _running(program) as process, _tracer(process.pid) as tracer:
        tracer.start()
        process.kill()
        process.wait()
        rows = sum(raw.count for raw in [*tracer.poll(100), *tracer.finish()])
        assert rows == 0
        assert not any(account.lost for account in tracer.accounts().values())


def test_ten_thousand_live_allocations(program: Path) -> None:
    """10,007 live allocations by one stack are one row, and none is lost."""
    with _running(program, "10007") as process, _tracer(process.pid) as tracer:
        tracer.start()
        _let_go(process)
        recording = _traced(process.pid, tracer, "done", process)
        assert not any(account.lost for account in tracer.accounts().values())
    leaks = [row for row in recording.rows("cuda_live") if row["live_count"] > 1]
    assert [(row["live_count"], row["live_bytes"]) for row in leaks[-1:]] == [(10_007, 10_007 * 307)]


def test_what_is_kept_of_a_process_goes_with_it(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocations, stacks and names of an ended process are removed from the maps; its rows still have them."""
    monkeypatch.setattr(states_module, "SWEEP_EVERY_S", 0)  # at each poll
    with _running(program) as process, _tracer(process.pid) as tracer:
        tracer.start()
        assert tracer._programs
        maps = [tracer._programs.object.map(name) for name in ("cuda_allocations", "scope_stacks", "cuda_names")]
        _let_go(process)
        recording = _traced(process.pid, tracer, "done", process)
        assert all(kept.list_keys() for kept in maps)
        _let_go(process)
        process.wait()
        for _ in range(3):
            for raw in tracer.poll(10):
                recording.add(raw)
        assert not any(kept.list_keys() for kept in maps)
    assert "triton_softmax_0d1d" in {row["kernel"] for row in recording.rows("cuda_launch")}
    assert all(row["stack"] for row in recording.rows("cuda_launch") if not row["nested"])


def test_a_stack_that_has_no_room_is_counted(program: Path) -> None:
    """If the stack map is full, rows arrive without a stack and are counted as incomplete; nothing is lost."""
    with _running(program) as process, _tracer(process.pid) as tracer:
        tracer.start()
        assert tracer._programs
        stacks = tracer._programs.object.map("scope_stacks")
        value = bytes(stacks.value_size)
        for number in range(stacks.max_entries):
            key = number.to_bytes(16, "little") + os.getpid().to_bytes(8, "little")
            stacks.update(key, value)
        _let_go(process)
        recording = _traced(process.pid, tracer, "done", process)
        accounts = tracer.accounts()
    launches = [row for row in recording.rows("cuda_launch") if not row["nested"]]
    assert (len(launches), {row["stack"] for row in launches}) == (2 + 13, {None})
    assert (accounts["cuda_launch"].incomplete, accounts["cuda_launch"].lost) == (2 + 13, {})
    for name in ("cuda_call", "cuda_launch"):
        assert accounts[name].emitted == recording.count(name)


def test_what_lasts_is_told_again(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leak that does not change is reported again, with a growing age."""
    monkeypatch.setattr(states_module, "TELL_ALL_EVERY_S", 0.0)
    with _running(program) as process, _tracer(process.pid) as tracer:
        tracer.start()
        _let_go(process)
        recording = _traced(process.pid, tracer, "done", process)
        deadline, ages = time.monotonic() + 60, [0]
        while ages[-1] - ages[0] <= 500_000_000 and time.monotonic() < deadline:
            for raw in tracer.poll(100):
                recording.add(raw)
            ages = [row["mean_age_ns"] for row in recording.rows("cuda_live") if row["live_count"] == 101] or [0]
    assert ages == sorted(ages)
    assert ages[-1] - ages[0] > 500_000_000


def test_a_fork_in_the_middle(record: Record, stand_in: StandIn, tmp_path: Path) -> None:
    """A child's memory is counted apart from its parent's; the child cannot free its parent's memory."""
    program = tmp_path / "forks"
    libraries = [stand_in.folder / name for name in ("libcudart.so.13", "libcuda.so.1")]
    run_path = f"-Wl,--no-as-needed,-rpath={stand_in.folder}"
    subprocess.run(["gcc", "-o", program, WORKLOADS / "cuda_fork.c", run_path, *libraries], check=True)
    recording = record("cuda", [str(program)])
    held = _last(recording.rows("cuda_memory"), "pid")
    parent = held.pop((recording.pid,))
    (child,) = held.values()
    assert (parent["live_bytes"], parent["live_count"], parent["unknown_frees"]) == (2 * 1009, 2, 0)
    assert (child["live_bytes"], child["live_count"], child["unknown_frees"]) == (5 * 307, 5, 1)


def test_programs_are_not_paid_for_twice(program: Path) -> None:
    """The cost of BPF programs on functions is kept when they are detached, and not added twice."""
    with _running(program) as process, _tracer(process.pid) as tracer, KernelStatistics():
        tracer.start()
        _let_go(process)
        _traced(process.pid, tracer, "done", process)
        before = tracer.cost()
        tracer.finish()
        after = tracer.cost()
    assert before.run_count > 600, "each call's entry and return"
    assert before.run_count <= after.run_count < before.run_count * 1.5, "and what detaching itself makes run"
    assert tracer.cost() == after


def test_the_last_row_has_all_that_a_process_did(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process's last row includes calls between the last read of its state and the detection of its end."""
    recording = Recording()
    with _running(program) as process, _tracer(process.pid) as tracer:
        among = states_module.EndedProcesses.among

        def end_it_first(*given: Any) -> Any:
            if process.poll() is None:
                _let_go(process)  # the program does all its work, then ends
                _let_go(process)
                process.wait()
            return among(*given)

        tracer.start()
        monkeypatch.setattr(states_module.EndedProcesses, "among", end_it_first)
        deadline = time.monotonic() + 20
        while not recording.count("cuda_memory") and time.monotonic() < deadline:
            for raw in tracer.poll(100):
                recording.add(raw)
    (device,) = [row for row in recording.rows("cuda_memory") if row["memory"] == "device"]
    assert (device["ended"], device["live_bytes"]) == (1, 101 * 307 + MIB)

"""`profile`: where threads spend their time, as the threads themselves know it."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.llm.runs import stopped
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

from scope_bpf.catalogue.target import Target

pytestmark = pytest.mark.alone  # compares times

MS = 1_000_000
RATE = 997

Run = Callable[..., Recording]


@pytest.fixture
def run(record: Record, workload: Callable[[str], str], tmp_path: Path) -> Run:
    """Runs the workload: `run(MS_ON_CPU, MS_ASLEEP, OPTION=VALUE)`. It is known before it begins."""

    def run(on_cpu_ms: int, asleep_ms: int, *, target: bool = True, **options: Any) -> Recording:
        with stopped([workload("profiled"), str(on_cpu_ms), str(asleep_ms)], tmp_path / "out") as pid:
            ended = f"kill -CONT {pid}; until grep -q '^State:.Z' /proc/{pid}/status; do sleep 0.05; done"
            recorded = record("profile", ["sh", "-c", ended], target=Target(pid=pid if target else 0), **options)
        recorded.pid = pid
        return recorded

    return run


def time_in(recording: Recording, stream: str, part: str, *functions: str) -> int:
    """The time of a part, in ns, in stacks with all of these functions."""
    weight = "duration_ns" if stream == "profile" else "total_ns"
    rows = (row for row in recording.rows(stream) if row["part"] == part)
    return sum(row[weight] for row in rows if {*functions} <= {*(row["stack"] or "").split(";")})


@pytest.fixture(params=["events", "summary"])
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Both modes tell the same."""
    return {"mode": request.param, "interval_ms": ONE_INTERVAL_MS}


def test_samples_on_a_cpu(run: Run, mode: dict[str, Any]) -> None:
    """A thread that works for a second of CPU time has as many samples, in the function that works."""
    recorded = run(1000, 0, rate=RATE, **mode)
    stream = next(iter(recorded.batches))
    worked = time_in(recorded, stream, "on_cpu", "main", "works")
    assert 500 * MS < worked < 1200 * MS
    assert {row["part"] for row in recorded.rows(stream)} == {"on_cpu"}
    assert recorded.accounts[stream].lost == {}


def test_times_off_a_cpu(run: Run, mode: dict[str, Any]) -> None:
    """Sleeping is blocked time at the stack that sleeps; main also waits for its thread."""
    recorded = run(0, 211, record=["off_cpu"], **mode)
    stream = next(iter(recorded.batches))
    assert time_in(recorded, stream, "blocked", "main", "sleeps", "do_nanosleep_[k]") > 200 * MS
    assert time_in(recorded, stream, "blocked", "thread", "sleeps", "do_nanosleep_[k]") > 200 * MS
    assert time_in(recorded, stream, "blocked", "main", "futex_wait_[k]") > 150 * MS
    assert "on_cpu" not in {row["part"] for row in recorded.rows(stream)}


def test_kernel_frames_end_where_the_kernel_switches(run: Run) -> None:
    """What the tracer does at a switch is no part of the program's stack."""
    recorded = run(0, 11, record=["off_cpu"])
    ends = {row["stack"].rpartition(";")[2] for row in recorded.rows("profile")}
    assert ends == {"__schedule_[k]"}


def test_times_off_a_cpu_are_ranked_by_the_program(run: Run) -> None:
    """By its innermost function, since every thread leaves the CPU in the same function of the kernel."""
    recorded = run(0, 211, record=["off_cpu"])
    slept = [row for row in recorded.rows("profile") if "sleeps" in (row["stack"] or "").split(";")]
    assert slept
    assert not any(row["function"].endswith("_[k]") for row in slept)
    assert all(row["stack"].endswith("_[k]") for row in slept)


def test_all_time_is_told(run: Run, tmp_path: Path) -> None:
    """Samples and times off a CPU of the main thread add up to the time that it took."""
    recorded = run(300, 97, record=["cpu", "off_cpu"], rate=RATE)
    took = int((tmp_path / "out").read_text())
    rows = [row for row in recorded.rows("profile") if row["tid"] == row["pid"] and row["comm"] == "profiled"]
    told = sum(row["duration_ns"] for row in rows)
    assert 0.6 * took < told < 1.3 * took + 50 * MS


def test_short_times_can_be_left_out(run: Run) -> None:
    """In the kernel, so that they cost nothing more."""
    recorded = run(0, 101, record=["off_cpu"], min_duration_ns=100 * MS)
    rows = recorded.rows("profile")
    assert {row["part"] for row in rows} >= {"blocked"}
    assert sum(row["duration_ns"] >= 100 * MS for row in rows) >= 3
    # A time off a CPU has one or two rows, which together last that long.
    assert len(rows) <= 2 * sum(row["duration_ns"] >= 50 * MS for row in rows)


@pytest.mark.parametrize("rate", [11, 499])
def test_each_sample_stands_for_the_time_between_samples(run: Run, rate: int) -> None:
    """As often a second as was asked for."""
    recorded = run(400, 0, rate=rate)
    (duration,) = {row["duration_ns"] for row in recorded.rows("profile")}
    assert abs(duration - 1e9 / rate) < 2


def test_children_and_threads_are_sampled(record: Record) -> None:
    """Of the target only."""
    command = "for i in 1 2 3; do (while :; do :; done) & done; sleep 1; kill %1 %2 %3"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        recorded = record("profile", ["bash", "-c", command], rate=RATE)
        other.kill()
    pids = Counter(row["pid"] for row in recorded.rows("profile"))
    assert len([pid for pid, count in pids.items() if count > 5]) >= 3
    assert other.pid not in pids


def test_the_whole_machine(run: Run) -> None:
    """Without a target, every process has stacks with names."""
    recorded = run(500, 0, target=False, rate=199)
    rows = [row for row in recorded.rows("profile") if row["pid"] == recorded.pid]
    assert sum("main;works" in row["stack"] for row in rows) > 0.8 * len(rows) > 0


SPINS = """
import sys, time

def inner(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def outer():
    inner(0.5)

outer()
"""


def test_python_lines(record: Record, tmp_path: Path) -> None:
    """The innermost Python frame is a column of its own; its table shows the lines that take the time."""
    script = tmp_path / "spins.py"
    script.write_text(SPINS)
    recorded = record("profile", [sys.executable, str(script)], rate=RATE)
    found = Counter(row["python"] for row in recorded.rows("profile") if row["python"] and str(script) in row["python"])
    assert {text for text, count in found.items() if count > 20} <= {f"inner ({script}:{line})" for line in (6, 7)}
    assert found.total() > 200
    (path,) = {
        row["stack"].partition("<module>")[2].split(";")[1]
        for row in recorded.rows("profile")
        if f"outer ({script}" in row["stack"]
    }
    assert path == f"outer ({script}:10)"


def test_how_a_stack_was_walked_is_told(run: Run) -> None:
    """Files have unwind tables here, so stacks are whole."""
    recorded = run(300, 0, rate=RATE)
    rows = [row for row in recorded.rows("profile") if row["stack"] and ";works" in row["stack"]]
    assert Counter(row["walked"] for row in rows).most_common(1)[0][0] == "eh_frame"
    assert all(row["stack"].startswith("_start;") for row in rows if row["walked"] == "eh_frame")


def test_an_interpreter_that_is_not_known_is_said(record: Record) -> None:
    """CPython 3.7: its functions are there, its Python frames are not."""
    python = Path.home() / ".pyenv/versions/3.7.16/bin/python3.7"
    if not python.exists():
        pytest.skip("there is no CPython 3.7")
    recorded = record("profile", [str(python), "-c", "for i in range(3000000): pass"], rate=RATE)
    assert any("no Python frames" in note and "3.7" in note for note in recorded.notes)
    assert {row["python"] for row in recorded.rows("profile")} == {None}


@pytest.mark.parametrize("is_running", [False, True])
def test_the_vdso(record: Record, workload: Callable[[str], str], tmp_path: Path, is_running: bool) -> None:
    """Its functions have names, and their callers are outside of them."""
    if is_running:
        with stopped([workload("clocks"), "1000", "stop"], tmp_path / "out") as pid:
            ended = f"kill -CONT {pid}; until grep -q '^State:.Z' /proc/{pid}/status; do sleep 0.05; done"
            recorded = record("profile", ["sh", "-c", ended], target=Target(pid=pid), rate=RATE)
    else:
        recorded = record("profile", [workload("clocks"), "1000"], rate=RATE)
    stacks = [(row["stack"] or "").split(";") for row in recorded.rows("profile")]
    inside = [stack[: stack.index("__vdso_clock_gettime") + 1] for stack in stacks if "__vdso_clock_gettime" in stack]
    assert len(inside) > 100
    whole = [stack for stack in inside if stack[0] == "_start"]
    assert {tuple(stack[-4:]) for stack in whole} == {("main", "asks", "clock_gettime", "__vdso_clock_gettime")}
    assert len(whole) == len(inside) or not is_running, "only what has just begun is not known yet"

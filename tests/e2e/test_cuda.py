"""CUDA from the program to the database: the whole way, with a stand-in for runtime and driver."""

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.e2e.conftest import SCOPE, Up, until
from tests.probes.cuda_programs import WORKLOADS, Nvcc, StandIn


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    stand_in = StandIn(tmp_path_factory.mktemp("stand_in"))
    return stand_in.build(Nvcc(tmp_path_factory.mktemp("cuda")), "memory", "cuda_memory.cu")


def test_leaks_are_told_while_the_program_runs(up: Up, program: Path) -> None:
    """A task sees a program that starts after it; `scope leaks` names who leaked, `psql` has the kernels by name."""
    task = up.scope("start", "local", "cuda").stdout.strip()
    with subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        time.sleep(1)  # it has been met by now
        process.stdin.write("x")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        until(lambda: len(_held(up, "cuda_live", process.pid)) == 3)
        said = up.scope("leaks", "--pid", str(process.pid))
        leaks = json.loads(up.scope("leaks", "--pid", str(process.pid), "--json").stdout)
        memory = up.scope("states", "cuda_memory", "--pid", str(process.pid)).stdout
        process.stdin.close()
        process.wait()
    until(lambda: all(leak["ended"] for leak in _held(up, "cuda_live", process.pid)))
    assert [(leak["memory"], leak["live_bytes"], leak["live_count"], leak["ended"]) for leak in leaks] == [
        ("device", 1 << 20, 1, False),
        ("device", 101 * 307, 101, False),
        ("managed", 8209, 1, False),
    ]
    assert leaks[1]["stack"].endswith(";main;leak(int)")
    assert f"memory ({process.pid}): 30.28 KiB device of device 2 in 101 allocations" in said.stdout
    assert "    leak(int)\n    main\n" in said.stdout
    device, managed = memory.splitlines()[1:]  # of the same process, the largest first
    assert ("1.03 MiB" in device, "102" in device.split(), "8.017 KiB" in managed) == (True, True, True)
    with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
        rows = connection.execute(
            "SELECT kernel, count(*) FROM scope.cuda_launch WHERE pid = %s AND nested = 0 GROUP BY 1 ORDER BY 1",
            [process.pid],
        ).fetchall()
    assert rows == [("touch(int*)", 2), ("triton_softmax_0d1d", 13)]
    assert up.scope("stop", task).returncode == 0


def test_what_was_allocated_before_is_told_of(up: Up, program: Path) -> None:
    """A process that was running before frees unknown memory: the report says that it may have more."""
    with subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        time.sleep(0.5)  # by now it has allocated
        task = up.scope("start", "local", "cuda", "--pid", str(process.pid)).stdout.strip()
        process.stdin.write("x")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        until(lambda: any(one["unknown_frees"] for one in _held(up, "cuda_memory", process.pid)))
        said = up.scope("leaks", "--pid", str(process.pid)).stdout
        told = [one for one in _held(up, "cuda_memory", process.pid) if one["unknown_frees"]]
        process.stdin.close()
        process.wait()
    assert [(one["pid"], one["comm"], one["unknown_frees"]) for one in told] == [(process.pid, "memory", 1)]
    assert (
        f"memory ({process.pid}): 1 free of memory allocated before the task began; the process may have more of it"
        in said
    )
    assert up.scope("stop", task).returncode == 0


def _held(up: Up, stream: str, pid: int) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = up.client.get("states", stream, pid=pid)["groups"]
    return groups


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["leaks", "--pid", "0"], "pid: '0' is not a whole number from 1 to 2147483647"),
        (["leaks", "--node", "nonsense"], "no machine has the hostname or id 'nonsense'"),
        (
            ["states", "cuda_call"],
            "there are: cuda_live, cuda_memory, gpu, gpu_process",
        ),
        (["states", "gpu", "--pid", "1"], "the states of stream 'gpu' belong to no process"),
    ],
)
def test_bad_input_is_told(up: Up, arguments: list[str], said: str) -> None:
    called = up.scope(*arguments)
    assert (called.returncode, len(called.stderr.splitlines())) == (1, 1)
    assert said in called.stderr


def test_a_process_without_cuda_has_none(up: Up) -> None:
    assert up.scope("leaks", "--pid", "1").stdout == "no unfreed CUDA memory recorded\n"


def test_a_process_without_cuda_is_told_of() -> None:
    """A trace of a program without CUDA ends normally, and says why it is empty."""
    command = [*SCOPE, "trace", "cuda", "--json", "--", "true"]
    traced = subprocess.run(command, capture_output=True, text=True)
    assert (traced.returncode, traced.stdout) == (0, "")
    assert "no watched process has run a file with functions that 'cuda' attaches to" in traced.stderr
    assert "0 rows" in traced.stderr


def test_how_late_a_library_was_attached_to_is_told(tmp_path: Path) -> None:
    """A library that a program opens itself is attached late; a note says how late."""
    program, library = _opens_a_library(tmp_path)
    command = [*SCOPE, "trace", "cuda", "--json", "--", program, library, "3"]
    traced = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(_late(library), traced.stderr)


def test_a_task_tells_what_it_may_not_have_seen(up: Up, tmp_path: Path) -> None:
    """While it runs, and when it has ended: first that there was nothing to attach to, then how late it was."""
    program, library = _opens_a_library(tmp_path)
    command = ["sh", "-c", 'read go; "$0" "$1" 3; read end', program, library]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin
        task = up.scope("start", "local", "cuda", "--pid", str(process.pid)).stdout.strip()
        nothing = "no watched process has run a file with functions that 'cuda' attaches to"
        until(lambda: nothing in _notes(up, task))
        print("go", file=process.stdin, flush=True)
        until(lambda: re.search(_late(library), str(_notes(up, task))))
        print("end", file=process.stdin, flush=True)
    assert up.scope("stop", task).returncode == 0
    assert re.search(_late(library), str(_notes(up, task)))
    assert "was attached" in up.scope("tasks", "--all").stdout


def _opens_a_library(folder: Path) -> tuple[Path, Path]:
    library, program = folder / "libsmall.so", folder / "program"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, WORKLOADS / "cuda_small.c"], check=True)
    subprocess.run(["gcc", "-o", program, WORKLOADS / "cuda_dlopen.c"], check=True)
    return program, library


def _late(library: Path) -> str:
    return rf"{library} was attached \d+ ms after it was mapped: earlier calls are missing"


def _notes(up: Up, task: str) -> list[str]:
    (shown,) = (one for one in up.client.get("tasks")["tasks"] if one["task_id"].startswith(task))
    notes: list[str] = shown["notes"]
    assert shown["runs"][0]["notes"] == notes
    return notes


def test_a_process_that_calls_no_cuda_is_told_of(tmp_path: Path) -> None:
    """A program that maps the runtime but never calls it gets a different note."""
    StandIn(tmp_path)
    (tmp_path / "idle.c").write_text("int main(void) { return 0; }\n")
    libraries = [tmp_path / name for name in ("libcudart.so.13", "libcuda.so.1")]
    flags = [f"-Wl,--no-as-needed,-rpath={tmp_path}", *libraries]
    subprocess.run(["gcc", "-o", tmp_path / "idle", tmp_path / "idle.c", *flags], check=True)
    command = [*SCOPE, "trace", "cuda", "--json", "--", tmp_path / "idle"]
    traced = subprocess.run(command, capture_output=True, text=True)
    assert (traced.returncode, traced.stdout) == (0, "")
    assert re.search(r"attached to \d+ functions; no watched process has called one", traced.stderr)
    assert "0 rows" in traced.stderr

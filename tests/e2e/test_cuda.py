"""CUDA events from a program to the database, with stand-ins for CUDA's runtime and driver."""

import json
import re
import subprocess
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
    """A task records a program that starts later. `scope leaks` shows the leaking stack, SQL the kernels' names."""
    task = up.scope("start", "local", "cuda").stdout.strip()
    until(lambda: bool(_notes(up, task)))
    before = _notes(up, task)
    with subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        until(lambda: _notes(up, task) != before)
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
    device, managed = memory.splitlines()[1:]  # two rows of the process, the largest first
    assert ("1.03 MiB" in device, "102" in device.split(), "8.017 KiB" in managed) == (True, True, True)
    with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
        rows = connection.execute(
            "SELECT kernel, count(*) FROM scope.cuda_launch WHERE pid = %s AND nested = 0 GROUP BY 1 ORDER BY 1",
            [process.pid],
        ).fetchall()
    assert rows == [("touch(int*)", 2), ("triton_softmax_0d1d", 13)]
    assert up.scope("stop", task).returncode == 0


def test_what_was_allocated_before_is_told_of(up: Up, program: Path) -> None:
    """If a process frees memory allocated before the task began, `scope leaks` says that it may have more of it."""
    with subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"  # it has allocated
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


def _notes(up: Up, task: str) -> list[str]:
    """The task's notes: to how many functions it is attached until it has seen a call, and files attached late."""
    notes: list[str] = up.client.get("tasks", task)["notes"]
    return notes


def _held(up: Up, stream: str, pid: int) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = up.client.get("states", stream, pid=pid)["groups"]
    return groups


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["leaks", "--pid", "0"], 2, "pid: must be greater than or equal to 1, not '0'"),
        (["leaks", "--node", "nonsense"], 1, "no machine has the hostname or id 'nonsense'"),
        (
            ["states", "cuda_call"],
            1,
            "there are: cuda_live, cuda_memory, ggml_live, ggml_memory, gpu, gpu_process",
        ),
        (["states", "gpu", "--pid", "1"], 2, "the states of stream 'gpu' belong to no process"),
    ],
)
def test_bad_input_is_told(up: Up, arguments: list[str], status: int, said: str) -> None:
    """Errors are one line. Status 2: an argument is wrong; status 1: the named machine or state does not exist."""
    called = up.scope(*arguments)
    assert (called.returncode, len(called.stderr.splitlines())) == (status, 1)
    assert said in called.stderr


def test_a_process_without_cuda_has_none(up: Up) -> None:
    assert up.scope("leaks", "--pid", "1").stdout == "no unfreed memory recorded\n"


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
    command: list[str | Path] = [*SCOPE, "trace", "cuda", "--json", "--", program, library, "3"]
    traced = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(_late(library), traced.stderr)


def test_a_task_tells_what_it_may_not_have_seen(up: Up, tmp_path: Path) -> None:
    """A task notes that it found nothing to attach to, then how late it attached. The notes stay after its end."""
    program, library = _opens_a_library(tmp_path)
    command: list[str | Path] = ["sh", "-c", 'read go; "$0" "$1" 3; read end', program, library]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin
        task = up.scope("start", "local", "cuda", "--pid", str(process.pid)).stdout.strip()
        nothing = "no watched process has run a file with functions that 'cuda' attaches to"
        until(lambda: nothing in _notes(up, task))
        print("go", file=process.stdin, flush=True)
        until(lambda: bool(re.search(_late(library), str(_notes(up, task)))))
        print("end", file=process.stdin, flush=True)
    assert up.scope("stop", task).returncode == 0
    stopped = up.client.get("tasks", task)
    assert re.search(_late(library), str(stopped["notes"]))
    assert stopped["runs"][0]["notes"] == stopped["notes"]
    assert "was attached" in up.scope("tasks", "--all").stdout


def _opens_a_library(folder: Path) -> tuple[Path, Path]:
    library, program = folder / "libsmall.so", folder / "program"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, WORKLOADS / "cuda_small.c"], check=True)
    subprocess.run(["gcc", "-o", program, WORKLOADS / "cuda_dlopen.c"], check=True)
    return program, library


def _late(library: Path) -> str:
    return rf"{library} was attached \d+ ms after it was mapped: earlier calls are missing"


def test_a_process_that_calls_no_cuda_is_told_of(tmp_path: Path) -> None:
    """A program that maps the runtime but never calls it gets a different note."""
    StandIn(tmp_path)
    (tmp_path / "idle.c").write_text("int main(void) { return 0; }\n")
    libraries = [tmp_path / name for name in ("libcudart.so.13", "libcuda.so.1")]
    flags: list[str | Path] = [f"-Wl,--no-as-needed,-rpath={tmp_path}", *libraries]
    subprocess.run(["gcc", "-o", tmp_path / "idle", tmp_path / "idle.c", *flags], check=True)
    command: list[str | Path] = [*SCOPE, "trace", "cuda", "--json", "--", tmp_path / "idle"]
    traced = subprocess.run(command, capture_output=True, text=True)
    assert (traced.returncode, traced.stdout) == (0, "")
    assert re.search(r"attached to \d+ functions; no watched process has called one", traced.stderr)
    assert "0 rows" in traced.stderr

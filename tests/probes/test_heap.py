"""The `heap` probe: heaps of known leaks, in every allocator, beside the accounts of the allocators themselves."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.llm.runs import recorded_run
from tests.probes.conftest import WORKLOADS
from tests.probes.heaps import chunk, live, memory, printed
from tests.probes.recording import Record

from scope_bpf.capture.functions import Functions

MIB = 1 << 20
LEAKS = {
    "by_malloc": (101, 101 * 307),
    "by_calloc": (53, 53 * 77),
    "by_posix_memalign": (17, 17 * 1000),
    "by_aligned_alloc": (13, 13 * 640),
    "by_memalign": (11, 11 * 333),
    "by_valloc": (3, 3 * 5003),
    "by_reallocarray": (19, 19 * 65),
    "freed": (0, 0),
    "first": (0, 0),
    "again": (1, MIB),
    "refused": (1, 509),
    "produce": (7, 7 * (48 + 1006) + 21),
    "inherited": (23, 23 * 205),
}
PRELOADED = {
    "glibc": "",
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2.0",
}


def preloading(allocator: str, *command: str) -> list[str]:
    """A command that runs with an allocator."""
    name = PRELOADED[allocator]
    return ["/usr/bin/env", f"LD_PRELOAD={name}", *command] if name else list(command)


@pytest.fixture(scope="module", autouse=True)
def _packages() -> None:
    missing = [name for name in PRELOADED.values() if name and not list(Path("/usr/lib").glob(f"*/{name}"))]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; `deploy/install-packages.sh test` installs them")


@pytest.mark.parametrize("allocator", PRELOADED)
def test_known_leaks(
    record: Record, workload: Callable[[str], str], capfd: pytest.CaptureFixture[str], allocator: str
) -> None:
    """What each function has leaked is exact, in each allocator: by malloc and the like, after a realloc that moved,
    one that stayed and one that failed, across threads, and before a fork. The child has its own account: it frees what
    only the parent is known to have allocated, which is counted, and the parent still has it. For glibc, the bytes of
    the blocks, as it lays them out, are what mallinfo2() says is in use."""
    recording = record("heap", preloading(allocator, workload("heap")))
    said = printed(capfd)
    assert {name: live(recording).get(name) for name in LEAKS} == LEAKS
    assert live(recording).get("emptied", (0, 0)) == (said["empty"], 0)
    assert said["stayed"] and said["moved"], "the allocator has done both"
    whole = memory(recording)
    assert (whole["live_count"], whole["live_bytes"]) == tuple(map(sum, zip(*live(recording).values(), strict=True)))
    assert whole["unknown_frees"] == 0
    if allocator == "glibc":  # else the command is env, whose memory its exec has freed
        assert whole["allocations"] - whole["frees"] == whole["live_count"]
        assert 101 * chunk(307) + 53 * chunk(77) == said["used"]
    child = memory(recording, said["child"])
    assert live(recording, said["child"])["by_child"] == (7, 7 * 501)
    assert child["unknown_frees"] == 23
    assert child["live_bytes"] == sum(size for _, size in live(recording, said["child"]).values())
    assert not any(account.lost for account in recording.accounts.values())


def test_errors_of_the_loader(record: Record, workload: Callable[[str], str]) -> None:
    """What dlsym() and dlerror() allocate for errors is recorded like all else, and freed but for the last one's text:
    per error a text, its longer form, and a name, beside a record of the thread's."""
    recording = record("heap", [workload("heap"), "errors"])
    whole = memory(recording)
    assert (whole["allocations"], whole["live_count"]) == (3 * 31 + 1, 2)
    assert (whole["frees"], whole["unknown_frees"]) == (3 * 31 - 1, 0)


def test_objects_of_python(record: Record, tmp_path: Path) -> None:
    """With PYTHONMALLOC=malloc, each object of Python that is not freed is live with its size, and its stack has the
    lines that made it."""
    script = (
        "import os, signal\nkept = []\ndef leak():\n    for n in range(91): kept.append(bytes(101))\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\nfor n in range(7): leak()\nos._exit(0)"
    )
    command = ["/usr/bin/env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-S", "-c", script]
    recording = recorded_run(record, command, tmp_path / "out", probe="heap")
    size = sys.getsizeof(bytes(101))
    last = {row["stack_id"]: row for row in recording.rows("heap_live")}
    rows = [row for row in last.values() if row["live_count"] and row["live_bytes"] == row["live_count"] * size]
    assert 7 * 91 <= sum(row["live_count"] for row in rows) < 7 * 91 + 50  # the interpreter may have others
    assert sum(row["live_count"] for row in rows if "leak (<string>:4)" in row["stack"]) == 7 * 91


def test_an_exec_frees_everything(record: Record, workload: Callable[[str], str]) -> None:
    """The memory of a program ends with its exec: nothing of it is live under the next one."""
    recording = record("heap", [workload("heap"), "exec"])
    left = live(recording)
    assert (left["before_exec"], left["after_exec"]) == ((0, 0), (5, 5 * 223))
    whole = memory(recording)
    assert whole["live_count"] == sum(count for count, _ in left.values())
    assert whole["allocations"] > whole["frees"] + whole["live_count"], "nobody has freed the rest"


def test_musl(record: Record, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A program of musl, linked statically, has the same leaks."""
    program = tmp_path / "heap"
    flags = ["-O1", "-fno-builtin", "-static", "-pthread", "-o", str(program)]
    subprocess.run(["musl-gcc", *flags, str(WORKLOADS / "heap.c")], check=True)
    recording = record("heap", [str(program)])
    assert printed(capfd)["moved"]
    assert {name: live(recording).get(name) for name in LEAKS} == LEAKS
    assert memory(recording)["unknown_frees"] == 0


NEWS = """
#include <cstdlib>
#include <new>
static void *volatile kept;
#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")
#define NAMED extern "C" __attribute__((noinline, noclone)) void
NAMED by_new() { for (int i = 0; i < 37; i++) kept = ::operator new(88); }
NAMED by_new_array() { for (int i = 0; i < 5; i++) kept = ::operator new[](1234); }
NAMED by_new_nothrow() { for (int i = 0; i < 3; i++) kept = ::operator new(77, std::nothrow); }
NAMED by_new_aligned() { for (int i = 0; i < 11; i++) kept = ::operator new(192, std::align_val_t(64)); }
NAMED deleted()
{
	for (int i = 0; i < 1009; i++) {
		kept = ::operator new(40);
		i % 2 ? ::operator delete(kept) : ::operator delete(kept, std::size_t(40));
		kept = ::operator new[](40, std::nothrow);
		::operator delete[](kept);
		kept = ::operator new(128, std::align_val_t(64));
		::operator delete(kept, std::align_val_t(64));
	}
}
int main() { by_new(); by_new_array(); by_new_nothrow(); by_new_aligned(); deleted(); }
"""
NEW = {
    "by_new": (37, 37 * 88),
    "by_new_array": (5, 5 * 1234),
    "by_new_nothrow": (3, 3 * 77),
    "by_new_aligned": (11, 11 * 192),
}


@pytest.mark.parametrize("allocator", PRELOADED)
def test_new_and_delete(record: Record, tmp_path: Path, allocator: str) -> None:
    """operator new and delete, by libstdc++'s over malloc or by the allocator's own: each block counts once."""
    (tmp_path / "news.cc").write_text(NEWS)
    program = tmp_path / "news"
    subprocess.run(["g++", "-O1", "-std=c++17", "-o", program, tmp_path / "news.cc"], check=True)
    recording = record("heap", preloading(allocator, str(program)), throwing=True)
    states = {row["stack_id"]: row for row in recording.rows("heap_live") if row["pid"] == recording.pid}
    found = Counter[tuple[str, str]]()
    for row in states.values():
        for name in {*NEW, "deleted"} & set((row["stack"] or "").split(";")):
            found[name, "count"] += row["live_count"]
            found[name, "bytes"] += row["live_bytes"]
    whole = memory(recording)
    if allocator == "glibc":  # libstdc++ has no frame pointers, and keeps a pool for exceptions
        pool = max(row["live_bytes"] for row in states.values())
        left = tuple(map(sum, zip(*NEW.values(), strict=True)))
        assert (whole["live_count"] - 1, whole["live_bytes"] - pool) == left
    else:
        wholly = {name: (found[name, "count"], found[name, "bytes"]) for name in (*NEW, "deleted")}
        assert wholly == NEW | {"deleted": (0, 0)}
    assert whole["unknown_frees"] == 0


def test_samples_are_unbiased(record: Record, workload: Callable[[str], str]) -> None:
    """Sampled, sums are estimates around the true ones, and say so; blocks above the size are all recorded."""
    every = 4096
    recording = record("heap", [workload("heap"), "many"], sample_bytes=every)
    rows = [row for row in recording.rows("heap_live") if (row["stack"] or "").endswith(";many")]
    states = {row["stack_id"]: row for row in rows}.values()
    assert {row["sample_bytes"] for row in states} == {every}
    sizes = sum(row["live_bytes"] for row in states) - 7 * 100_000
    chosen = 64 / every
    error = every * math.sqrt(20_000 * chosen * (1 - chosen))
    assert abs(sizes - 20_000 * 64) < 6 * error
    assert abs(sum(row["live_count"] for row in states) - 20_007) < 6 * error / 64
    assert sizes % every == 0, "each stands for so many bytes, and the large ones for themselves"


def test_what_finds_no_room_is_counted(
    record: Record, workload: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks beyond the map's room are counted as lost; the rest is exact."""
    prepare = Functions.prepare

    def smaller(self: Functions, object_: Any) -> None:
        prepare(self, object_)
        object_.map("heap_blocks").resize(4099)

    monkeypatch.setattr(Functions, "prepare", smaller)
    recording = record("heap", [workload("heap"), "many"])
    lost = recording.accounts["heap_live"].lost["map_full"]
    whole = memory(recording)
    assert whole["live_count"] <= 4099
    assert whole["allocations"] + lost >= 40_014, "each was recorded, or counted as lost"


def test_hostile_names(record: Record, workload: Callable[[str], str], tmp_path: Path) -> None:
    """A program's name is kept as it is, whatever it is."""
    name = "\x1b[31m\nheap"
    program = tmp_path / name
    program.write_bytes(Path(workload("heap")).read_bytes())
    program.chmod(0o755)
    recording = record("heap", [str(program), "after"])
    assert memory(recording)["comm"] == name
    assert live(recording)["after_exec"] == (5, 5 * 223)

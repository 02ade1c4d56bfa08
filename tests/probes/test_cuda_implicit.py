"""Implicit facts of CUDA programs: the direction of copies, memory freed with its context, calls that never return.

The program has a stand-in for the runtime and the driver linked in, see cuda_contexts.c.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import Record, Recording

from scope_bpf.probes import cuda as cuda_probe

Run = Callable[..., Recording]


@pytest.fixture
def run(record: Record, workload: Callable[[str], str]) -> Run:
    """Records the program with these words as its arguments."""
    return lambda *words, **options: record("cuda", [workload("cuda_contexts"), *words], **options)


def _held(recording: Recording, *names: str) -> dict[tuple[str, Any], tuple[int, ...]]:
    rows = recording.rows("cuda_memory")
    return {(row["memory"], row["device"]): tuple(row[name] for name in names) for row in rows}


def test_directions_by_address(run: Run) -> None:
    """A default copy's direction is found from the memory at its addresses; if that is unknown, it is `default`."""
    copies = [row for row in run("copies").rows("cuda_call") if row["function"] == "cudaMemcpy"]
    assert [(row["bytes"], row["kind"]) for row in copies] == [
        (2, "H2D"),
        (3, "D2H"),
        (5, "D2D"),
        (7, "H2H"),
        (11, "default"),
        (13, "default"),
        (17, "D2H"),
    ]
    assert {row["stream"] for row in copies} == {0}, "they work in the default stream"


def test_copies_that_a_struct_describes(run: Run) -> None:
    """Addresses, bytes and direction are those of the struct; memory of unified type is resolved by address."""
    rows = run("copies").rows("cuda_call")
    copies = [row for row in rows if row["function"] in ("cuMemcpy2D_v2", "cuMemcpy3DAsync_v2")]
    device = next(row["ptr"] for row in rows if row["function"] == "cudaMalloc")
    host = next(row["src"] for row in rows if row["bytes"] == 2)
    assert [(row["bytes"], row["kind"], row["src"], row["dst"], row["stream"]) for row in copies] == [
        (13 * 3, "H2D", host, device, 0),
        (17 * 5, "D2D", device, 0, 0),
        (19 * 7, "D2H", device, host, 0),
        (23 * 3 * 5, "D2H", device, host, 0x77),
    ]
    assert [row["is_async"] for row in copies] == [False, True, False, True], "nobody waits for one within a device"
    assert [row["bandwidth"] is not None for row in copies] == [True, False, True, False]
    (to_array,) = [row for row in rows if row["function"] == "cuMemcpyHtoA_v2"]
    assert (to_array["bytes"], to_array["kind"], to_array["src"], to_array["dst"]) == (29, "H2D", host, None)
    assert {row["is_async"] for row in rows if not row["kind"]} == {None}


def test_kernels_of_libraries(run: Run) -> None:
    """A driver function has its kernel's name; one that the driver did not return is a handle, of no category."""
    *named, unknown = run("kernels").rows("cuda_launch")
    columns = ("kernel", "name_source", "category")
    assert Counter(tuple(row[name] for name in columns) for row in named) == {
        ("kernel_of_a_library", "driver", "other"): 8
    }
    assert [unknown[name] for name in columns] == [f"handle:{unknown['handle']:#x}", "handle", None]


def test_what_is_live_is_told_with_each_call(run: Run) -> None:
    """Each allocation and each free has the live bytes after it, for its kind of memory."""
    rows = [row for row in run("device", "allocate", "pitch").rows("cuda_call") if row["live_bytes"] is not None]
    assert [(row["memory"], row["device"], row["bytes"], row["live_bytes"]) for row in rows] == [
        *(("device", 3, 307, 307 * (number + 1)) for number in range(5)),
        ("device", 3, 512 * 7, 5 * 307 + 512 * 7),
        ("device", 3, 512 * 7, 5 * 307),
    ]


def test_memory_that_is_pinned_later(run: Run) -> None:
    """Memory that the program registers with the runtime is pinned until it is unregistered."""
    names = ("live_count", "live_bytes", "peak_bytes", "frees", "unknown_frees")
    assert _held(run("register"), *names) == {("pinned", None): (1, 2003, 3012, 1, 0)}


def test_the_only_device(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one GPU, an unselected device is this GPU; with two, it is unknown."""
    monkeypatch.setattr(cuda_probe, "_GPUS", tmp_path)
    names = ("live_count", "allocations")
    (tmp_path / "0000:01:00.0").mkdir()
    assert _held(run("allocate", "contexts"), *names) == {("device", 0): (5 + 2, 5 + 5)}
    (tmp_path / "0000:02:00.0").mkdir()
    assert _held(run("allocate"), *names) == {("device", None): (5, 5)}


def test_a_reset_frees_what_the_device_had(run: Run) -> None:
    """A reset implicitly frees all memory of its device, but not of others; a failed reset frees nothing."""
    names = ("live_count", "live_bytes", "implicit_frees", "frees")
    recording = run("allocate", "device", "allocate", "refused", "reset", "allocate")
    assert _held(recording, *names) == {
        ("device", None): (5, 5 * 307, 0, 0),
        ("device", 3): (5, 5 * 307, 5, 0),
    }
    live = {row["device"]: row["live_count"] for row in recording.rows("cuda_live")}
    assert live == {None: 5, 3: 5}


def test_a_context_takes_its_memory_along(run: Run) -> None:
    """Destroying a context frees only memory allocated in it and not a pool's; a new context sets the device."""
    names = ("live_count", "live_bytes", "implicit_frees", "frees")
    assert _held(run("contexts"), *names) == {
        ("device", 0): (1, 1009, 2, 0),
        ("device", None): (1, 109, 1, 0),
    }


def test_what_cannot_be_freed_is_held(run: Run) -> None:
    """A free that fails changes nothing, whether its pointer is known or not."""
    names = ("live_count", "live_bytes", "allocations", "frees", "unknown_frees", "implicit_frees")
    recording = run("kept")
    assert _held(recording, *names) == {("device", None): (1, 211, 1, 0, 0, 0)}
    (live,) = [row for row in recording.rows("cuda_live") if row["live_count"]]
    assert (live["live_bytes"], live["allocations"]) == (211, 1)


def test_an_exec_frees_everything(run: Run) -> None:
    """An exec implicitly frees the old program's memory, though the process stays the same."""
    names = ("live_count", "live_bytes", "implicit_frees", "allocations")
    assert _held(run("allocate", "exec", "allocate"), *names) == {("device", None): (5, 5 * 307, 5, 10)}


def test_an_address_that_is_given_out_again_was_free(run: Run) -> None:
    """An address that is allocated again counts once; the earlier allocation is an implicit free."""
    names = ("live_count", "live_bytes", "implicit_frees", "unknown_frees")
    assert _held(run("again"), *names) == {("device", None): (1, 307, 2, 0)}


def test_calls_that_never_return_are_there(run: Run) -> None:
    """A call in which a thread or the process ends is a row without a result; nothing is lost."""
    recording = run("end")
    rows = recording.rows("cuda_call")
    assert [(row["function"], row["result"], row["result_name"], row["stream"]) for row in rows] == [
        ("cudaDeviceSynchronize", None, None, None),
        ("cudaStreamSynchronize", None, None, 0x55),
    ]
    assert rows[0]["tid"] != rows[0]["pid"] == rows[1]["tid"]
    assert all(row["duration_ns"] > 0 for row in rows)
    assert not any(account.lost for account in recording.accounts.values())
    assert not run("end", mode="summary").rows("cuda_call_summary"), "a summary counts calls that returned"

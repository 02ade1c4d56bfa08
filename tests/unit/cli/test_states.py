"""`scope states` prints current states as a table; `scope leaks` prints unfreed memory as a block per stack."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.cli.answers import MACHINE, in_seconds
from tests.unit.cli.conftest import Api

Run = Callable[..., tuple[int, str, str]]
WHOSE = {"machine_id": MACHINE, "hostname": "here"}
UUID = "GPU-00000000-0000-4000-8000-000000000000"


def a_gpu(**fields: Any) -> dict[str, Any]:
    """A GPU's state; values that it does not report are absent."""
    plain = {**WHOSE, "device": 0, "uuid": UUID, "name": "NVIDIA [red]H100", "slowed_by": ""}
    plain |= {"memory_used_bytes": 7 << 30, "memory_total_bytes": 80 << 30, "gpu_percent": 97, "memory_percent": None}
    plain |= {"temperature_celsius": 61, "power_watts": 412.345, "time": "2026-01-31T12:00:00.123456+00:00"}
    return {**plain, **fields}


def some_memory(**fields: Any) -> dict[str, Any]:
    """Unfreed CUDA memory of a process."""
    plain = {**WHOSE, "pid": 4711, "start_ns": 5, "comm": "[red]", "memory": "device", "device": 2, "ended": False}
    plain |= {"live_bytes": 31007, "live_count": 101, "allocations": 103, "time": in_seconds(-5)}
    return {**plain, **fields}


def a_leak(**fields: Any) -> dict[str, Any]:
    """Unfreed CUDA memory of a stack."""
    return some_memory(**{"stack": "main;leak(int)", "mean_age_ns": 1_500_000_000, **fields})


def test_groups_are_a_table_with_units(api: Api, scope: Run) -> None:
    """Each state is a row with units; no cell is cut, and `[red]` in a text is not markup."""
    api.answer("GET states/gpu", {"groups": [a_gpu(), a_gpu(device=1, gpu_percent=1234)]})
    status, said, complaints = scope("states", "gpu", "--node", "here", "--hours", "7", "--limit", "3")
    head, first, second = (line.split() for line in said.splitlines())
    assert (status, complaints.partition(";")[0]) == (0, "not shown: slowed_by")
    assert head[:4] == ["time", "device", "uuid", "name"]
    assert first[:2] == ["2026-01-31T12:00:00.123456", "0"] and UUID in first
    assert "NVIDIA [red]H100" in said
    for shown in ("7 GiB", "80 GiB", "97 %", "412 W"):
        assert shown in " ".join(first)
    assert "1,234 %" in " ".join(second)
    assert api.asked == [("GET", "states/gpu?node=here&hours=7&limit=3", None)]


@pytest.mark.parametrize("width", [70, 120])
def test_a_gpu_has_its_name_before_the_last_figures(
    api: Api, scope: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """A narrow terminal shows a GPU's name and used memory before other figures."""
    monkeypatch.setenv("COLUMNS", str(width))
    api.answer("GET states/gpu", {"groups": [a_gpu()]})
    said = scope("states", "gpu")[1]
    assert "NVIDIA [red]H100" in said and "7 GiB" in said
    assert max(map(len, said.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80, 100])
def test_numbers_come_before_long_texts(api: Api, scope: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """A narrow terminal shows the memory and its processes in full; columns that are left out are named."""
    monkeypatch.setenv("COLUMNS", str(width))
    api.answer("GET states/cuda_live", {"groups": [a_leak()]})
    _, said, complaints = scope("states", "cuda_live")
    head, row = said.splitlines()
    assert len(row.rstrip()) <= width
    assert {"comm", "pid", "live_bytes", "live_count"} < set(head.split())
    assert ("30.28 KiB" in row, "101" in row.split(), "[red]" in row) == (True, True, True)
    for name in {"stack", "memory", "time"} - set(head.split()):
        assert name in complaints


def test_machines_are_told_apart(api: Api, scope: Run) -> None:
    """With several machines, the table has a hostname column."""
    api.answer("GET states/cuda_memory", {"groups": [some_memory(), some_memory(hostname="there")]})
    assert [line.split()[1] for line in scope("states", "cuda_memory")[1].splitlines()] == ["hostname", "here", "there"]


def test_chosen_columns_and_json(api: Api, scope: Run) -> None:
    """--columns chooses the columns and their order; --json prints the server's whole answer."""
    api.answer("GET states/gpu", {"groups": [a_gpu()]})
    assert scope("states", "gpu", "--columns", "memory_percent,hostname")[1].split() == [
        *("memory_percent", "hostname"),
        *("-", "here"),
    ]
    assert json.loads(scope("states", "gpu", "--json")[1]) == [a_gpu()]


def test_nothing_held_is_said(api: Api, scope: Run) -> None:
    """Without states, a message names the stream; an error of the server ends with status 1."""
    api.answer("GET states/gpu", {"groups": []})
    assert scope("states", "gpu") == (0, "no current states of stream 'gpu' recorded\n", "")
    assert scope("states", "exec")[0] == 1


def test_leaks_are_blocks_with_their_stacks(api: Api, scope: Run) -> None:
    """Blocks have the innermost frame first; processes that freed unknown memory follow, even without a block."""
    api.answer("GET states/cuda_live", {"groups": [a_leak(), a_leak(ended=True, stack=None, device=None)]})
    of_heap = {name: value for name, value in a_leak().items() if name not in ("memory", "device")}
    api.answer("GET states/heap_live", {"groups": [of_heap | {"sample_bytes": 0}, of_heap | {"sample_bytes": 512}]})
    frees = [{"unknown_frees": 0}, {"unknown_frees": 2}, {"unknown_frees": 3, "device": 0, "live_bytes": 0}]
    once = {"pid": 4712, "unknown_frees": 1}
    api.answer("GET states/cuda_memory", {"groups": [some_memory(**each) for each in (once, *frees)]})
    api.answer("GET states/heap_memory", {"groups": []})
    assert scope("leaks", "--limit", "2")[1].splitlines() == [
        "[red] (4711): 30.28 KiB device of device 2 in 101 allocations, 1.5 s old on average",
        "    leak(int)",
        "    main",
        "[red] (4711): 30.28 KiB device in 101 allocations, 1.5 s old on average, freed by the end of the process",
        "    (stack unknown)",
        "[red] (4711): 30.28 KiB heap in 101 allocations, 1.5 s old on average",
        "    leak(int)",
        "    main",
        "[red] (4711): about 30.28 KiB heap in about 101 allocations, 1.5 s old on average",
        "    leak(int)",
        "    main",
        "[red] (4711): 5 frees of memory allocated before the task began; the process may have more of it",
        "[red] (4712): 1 free of memory allocated before the task began; the process may have more of it",
    ]
    assert [path for _, path, _ in api.asked] == [
        *("states/cuda_live?limit=2", "states/heap_live?limit=2"),
        *("states/cuda_memory?limit=1000", "states/heap_memory?limit=1000"),
    ]

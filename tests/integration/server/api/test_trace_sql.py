"""Traces in Perfetto's own trace processor, by SQL: scheduling, samples, flows and annotations are in its tables."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.integration.server.api.recorded import BEGIN, WINDOW, store
from tests.integration.server.records import FIRST_KTIME_NS, Line
from tests.integration.server.running import Server
from tests.trace_processor import sql

StartServer = Callable[..., Any]
MS = 1_000_000
_FLOWS = (
    "SELECT a.name, b.name, (b.ts - a.ts) / 1000000 FROM flow f JOIN slice a ON a.id = f.slice_out"
    " JOIN slice b ON b.id = f.slice_in ORDER BY a.ts, b.ts"
)
_ERRORS = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"


async def _filled(line: Line) -> None:
    def at(ms: int) -> int:
        return FIRST_KTIME_NS + ms * MS

    # 7 runs 3 ms and sleeps, and 8, which it has woken, runs 2 ms.
    one = {"ktime_ns": at(3), "pid": 7, "tid": 7, "comm": "one", "on_cpu_ns": 3 * MS, "next_tid": 8, "prev_state": 1}
    other = {"ktime_ns": at(5), "pid": 8, "tid": 8, "comm": "other", "on_cpu_ns": 2 * MS, "run_queue_ns": MS}
    woken = {"waker_tid": 7, "waker_pid": 7, "waker_comm": "one", "prev_state": 0}
    await store(line, "switch", [one, other | woken])
    stacks = ["main;a", "main;a", "main;b"]
    samples = [{"ktime_ns": at(n), "pid": 7, "tid": 7, "comm": "one", "stack": stack} for n, stack in enumerate(stacks)]
    await store(line, "python_sample", samples)
    of_request = {"pid": 9, "tid": 9, "comm": "llama", "context": 0xABC, "sequence": 1, "request": 4}
    await store(line, "llama_request", [of_request | {"ktime_ns": at(10), "duration_ns": 40 * MS}])
    tokens = [of_request | {"ktime_ns": at(20 + 10 * n), "number": n, "duration_ns": 10 * MS} for n in range(4)]
    await store(line, "llama_token", tokens)
    launches = [
        {"ktime_ns": at(60 + n), "duration_ns": 100_000, "pid": 10, "tid": 10 + n % 2, "comm": "cuda"}
        | {"function": "cudaLaunchKernel", "kernel": f"kernel{n}", "device": 0, "stream": 7}
        for n in range(3)
    ]
    await store(line, "cuda_launch", launches)


async def _drawn(server: Server, path: Path, form: str) -> Path:
    async with (
        aiohttp.ClientSession(connector=server.local()) as session,
        session.get(f"http://{server.http}/api/v1/trace", params={**WINDOW, "format": form}) as answer,
    ):
        assert answer.status == 200, await answer.text()
        path.write_bytes(await answer.read())
    return path


async def _say(server: Server, text: str, ms: int, until_ms: int | None = None, **more: Any) -> None:
    times = {"time": _moment(ms)} | ({"until": _moment(until_ms)} if until_ms is not None else {})
    status, answer = await server.ask("POST", "annotations", json={"text": text, **times, **more})
    assert status == 201, answer


def _moment(ms: int) -> str:
    return (BEGIN + timedelta(milliseconds=ms)).isoformat()


@pytest.fixture
async def server(line: Line, start_server: StartServer) -> AsyncIterator[Server]:
    await _filled(line)
    async with start_server() as started:
        yield started


@pytest.mark.parametrize("forgets", [False, True])
async def test_perfettos_tables(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, forgets: bool
) -> None:
    """Each of them has what was recorded, also if texts and stacks are forgotten meanwhile; its importer complains of
    nothing."""
    if forgets:
        monkeypatch.setattr("scope_server.api.resources.trace._ROWS", 1)
        monkeypatch.setattr("scope_views.perfetto.machines.MOST_BYTES", 0)
    await _say(server, "step 1200", 15, labels={"epoch": "3"})
    await _say(server, "warm-up", 0, 30)
    await _say(server, "overlaps", 20, 50)
    trace = await _drawn(server, tmp_path / "trace.perfetto", "perfetto")
    errors, flows, sched, states, samples, marks = sql(
        trace,
        _ERRORS,
        _FLOWS,
        "SELECT thread.tid, dur / 1000000 FROM sched JOIN thread USING (utid) WHERE tid > 0 ORDER BY ts",
        "SELECT t.tid, s.state, w.tid FROM thread_state s JOIN thread t USING (utid)"
        " LEFT JOIN thread w ON w.utid = s.waker_utid WHERE s.waker_utid IS NOT NULL",
        "SELECT frame.name, count(*) FROM perf_sample JOIN stack_profile_callsite c ON c.id = callsite_id"
        " JOIN stack_profile_frame frame ON frame.id = c.frame_id GROUP BY 1 ORDER BY 1",
        "SELECT slice.name, dur / 1000000, track.name FROM slice JOIN track ON track.id = track_id"
        " WHERE track.name = 'annotations' ORDER BY slice.name",
    )
    assert errors == []
    assert flows == [
        ["request", "token", 10],
        ["token", "token", 10],
        ["token", "token", 10],
        *(["cudaLaunchKernel", f"kernel{n}", 0] for n in range(3)),
    ]
    assert sched == [[7, 3], [8, 2]]
    assert [8, 7] in [[tid, waker] for tid, _, waker in states], states
    assert samples == [["a", 2], ["b", 1]]
    assert marks == [
        ["overlaps", 30, "annotations"],
        ["step 1200 epoch=3", 0, "annotations"],
        ["warm-up", 30, "annotations"],
    ]


async def test_chromes_json(server: Server, tmp_path: Path) -> None:
    """The processor reads it too, with the same flows and annotations."""
    await _say(server, "step 1200", 15, labels={"epoch": "3"})
    await _say(server, "warm-up", 0, 30)
    await _say(server, "overlaps", 20, 50)
    trace = await _drawn(server, tmp_path / "trace.json", "chrome")
    errors, flows, marks = sql(
        trace,
        _ERRORS,
        _FLOWS,
        "SELECT name, dur / 1000000 FROM slice WHERE category = 'annotation' ORDER BY name",
    )
    assert errors == []
    assert flows == [
        ["request", "token", 10],
        ["token", "token", 10],
        ["token", "token", 10],
        *(["cudaLaunchKernel", f"kernel{n}", 0] for n in range(3)),
    ]
    assert marks == [["overlaps", 30], ["step 1200 epoch=3", 0], ["warm-up", 30]]


@pytest.mark.parametrize("at_once", [1, 1000])
@pytest.mark.parametrize("form", ["perfetto", "chrome"])
async def test_what_overlaps_has_its_own_length(
    line: Line, start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, form: str, at_once: int
) -> None:
    """A thread's queries may be under way at once: each is a slice with its own begin and length, within no other.

    That is so however many rows are read at a time.
    """
    monkeypatch.setattr("scope_server.api.resources.trace._ROWS", at_once)
    queries = [("a", 0, 10), ("b", 2, 3), ("c", 5, 10), ("d", 15, 2), ("e", 16, 3)]
    of_thread = {"pid": 9, "tid": 9, "comm": "client", "qtype": "aaaa"}
    rows = [
        of_thread | {"name": name, "ktime_ns": FIRST_KTIME_NS + begin * MS, "duration_ns": length * MS}
        for name, begin, length in queries
    ]
    await store(line, "dns", rows)
    async with start_server() as server:
        trace = await _drawn(server, tmp_path / "trace", form)
    errors, slices, tracks = sql(
        trace,
        _ERRORS,
        "SELECT name, (ts - (SELECT MIN(ts) FROM slice)) / 1000000, dur / 1000000, depth FROM slice ORDER BY ts",
        "SELECT DISTINCT track_id FROM slice",
    )
    assert errors == []
    assert slices == [[f"{name} aaaa", begin, length, 0] for name, begin, length in queries]
    assert len(tracks) == 2, "as few rows as needed"


async def test_annotations_alone(start_server: StartServer, tmp_path: Path) -> None:
    """Without a row, they are a trace; one outside of the window is not in it."""
    async with start_server() as server:
        await _say(server, "alone", 15)
        await _say(server, "long before", -10_000_000, -9_000_000)
        trace = await _drawn(server, tmp_path / "trace.perfetto", "perfetto")
    errors, slices = sql(trace, _ERRORS, "SELECT name FROM slice")
    assert (errors, slices) == ([], [["alone"]])

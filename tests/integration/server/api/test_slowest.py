"""The slowest stored rows, each with what differs from most rows; streams without durations have none."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.integration.server.api.recorded import BEGIN, WINDOW, store
from tests.integration.server.records import FIRST_KTIME_NS, Line
from tests.integration.server.running import Server

from scope_server.store.answers import slowest

StartServer = Callable[..., Any]
CALL = {"comm": "worker", "name": "read", "duration_ns": 100, "ret": 7}


async def slow(server: Server, stream: str = "syscall", **query: str) -> Any:
    status, answer = await server.ask("GET", f"slowest/{stream}", params={**WINDOW, **query})
    assert status == 200, answer
    return answer


async def test_the_slowest_rows_and_what_differs(line: Line, start_server: StartServer) -> None:
    """In order of the duration; a rare value and a number far above the median are said, usual ones are not."""
    rows = [CALL] * 211
    rows += [CALL | {"name": "fsync", "path": "/data/log", "duration_ns": 9000}, CALL | {"duration_ns": 5000}]
    await store(line, "syscall", rows)
    async with start_server() as server:
        found = await slow(server, limit="3")
        assert (found["duration"], found["median_ns"] in range(95, 106), found["read"], found["complete"]) == (
            "duration_ns",
            True,
            213,
            True,
        )
        first, second, third = found["slowest"]
        assert [each["row"]["duration_ns"] for each in (first, second, third)] == [9000, 5000, 100]
        assert (first["row"]["comm"], first["row"]["hostname"]) == ("worker", "stand-in")
        assert 8890 < first["longer_ns"] < 8910
        told = {each["column"]: (each["value"], each["usual"]) for each in first["differs"]}
        assert told == {"name": ("fsync", "read"), "path": ("/data/log", None)}
        assert "name is fsync; 100% of rows have read" in [each["sentence"] for each in first["differs"]]
        assert second["differs"] == []
        only = await slow(server, where="name = read")
        assert only["slowest"][0]["row"]["duration_ns"] == 5000
        await store(line, "syscall", [CALL | {"duration_ns": (1 << 64) - 1, "ktime_ns": FIRST_KTIME_NS + 10**8}])
        assert (await slow(server))["slowest"][0]["row"]["duration_ns"] == (1 << 64) - 1
        late = await slow(server, since=(BEGIN + timedelta(seconds=9)).isoformat())
        assert (late["slowest"], late["median_ns"]) == ([], 0)


async def test_parts_and_causes_that_a_stream_declares(line: Line, start_server: StartServer) -> None:
    """As in the terminal: the cause first, then the parts that took longer; first tokens do not count."""
    parts = {"on_cpu_ns": 700, "run_queue_ns": 100, "outside_on_cpu_ns": 200}
    token = {"comm": "server", "number": 5, "duration_ns": 1000, "matmul_ns": 600, **parts}
    rows = [
        *([token] * 101),
        token | {"duration_ns": 91_000, "run_queue_ns": 90_100},
        token | {"duration_ns": 51_000, "matmul_ns": 50_600, "others_prompt_tokens": 512},
        token | {"duration_ns": 999_000, "number": 0},
    ]
    await store(line, "llama_token", rows)
    request = {"comm": "server", "path": "/api/chat", "status": 200, "duration_ns": 900}
    request |= {"first_body_ns": 300, "streaming_ns": 600}
    late = {"duration_ns": 70_600, "first_body_ns": 70_000, "status": 503}
    await store(line, "ollama_request", [*([request] * 101), request | late])
    async with start_server() as server:
        first, second, *_ = (await slow(server, "llama_token"))["slowest"]
        (served, *_) = (await slow(server, "ollama_request"))["slowest"]
    assert (first["row"]["duration_ns"], second["row"]["duration_ns"]) == (91_000, 51_000)
    assert [each["column"] for each in first["differs"][:1]] == ["run_queue_ns"]
    assert first["differs"][0]["sentence"] == "run_queue_ns is 90.1 µs, 90 µs more than usual"
    assert second["differs"][0]["sentence"] == "another request's prompt"
    assert second["differs"][1]["column"] == "matmul_ns"
    assert served["differs"][0]["sentence"] == "an error of the server"
    assert served["differs"][1]["sentence"] == "first_body_ns is 70 µs, 69.7 µs more than usual"


async def test_bounds_and_refusals(line: Line, start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many rows, some blocks are read, which is said; summaries and streams without a duration are refused."""
    for number in range(5):
        rows = [CALL | {"ktime_ns": FIRST_KTIME_NS + number * 10**9 + place} for place in range(11)]
        await store(line, "syscall", rows)
    monkeypatch.setattr(slowest, "MOST_ROWS", 30)
    async with start_server() as server:
        found = await slow(server)
        assert (found["read"], found["complete"]) == (22, False)
        for stream in ("syscall_summary", "exec"):
            assert (await server.ask("GET", f"slowest/{stream}", params=WINDOW))[0] == 400
        assert (await server.ask("GET", "slowest/syscall", params={**WINDOW, "limit": "101"}))[0] == 400

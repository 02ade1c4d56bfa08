"""What differs between stored rows: found with its shares, in the right order, bounded, never what was chosen."""

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.integration.server.api.recorded import BEGIN, WINDOW, store
from tests.integration.server.records import FIRST_KTIME_NS, Line, make_machine
from tests.integration.server.running import Server

from scope_bpf.probes import probe_named
from scope_catalogue.tables import SlowestRows
from scope_server.store.answers import comparison, sample

StartServer = Callable[..., Any]
(LLAMA_SLOWEST,) = (
    each
    for stream in probe_named("llama").streams
    if stream.name == "llama_token"
    for each in stream.shown.tables
    if isinstance(each, SlowestRows)
)
LATE = {"against_since": (BEGIN + timedelta(minutes=10)).isoformat(), "against_until": WINDOW["until"]}


def calls(count: int, seed: int, **changed: Any) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "comm": chance.choice(["worker", "helper"]),
            "name": chance.choice(["read", "write", "futex"]),
            "duration_ns": chance.randint(1, 1000),
            "cpu": chance.randint(0, 3),
            "tid": chance.randint(1, 1 << 20),
            "arg0": chance.randint(0, 1 << 50),
            **changed,
        }
        for _ in range(count)
    ]


def slow(count: int, seed: int) -> list[dict[str, Any]]:
    return calls(count, seed, name="fsync", path="/data/log", duration_ns=1_000_000)


async def difference(server: Server, stream: str = "syscall", **query: str) -> Any:
    status, answer = await server.ask("GET", f"compare/{stream}", params={**WINDOW, **query})
    assert status == 200, answer
    return answer


async def test_a_made_difference_is_first(line: Line, start_server: StartServer) -> None:
    """Slow calls have another name and file: both are said first, with shares, and what was chosen is not said."""
    await store(line, "syscall", [*calls(997, 1), *slow(101, 2)])
    async with start_server() as server:
        found = await difference(server, where="duration_ns > 10us")
        again = await difference(server, where="duration_ns > 10us")
    assert found == again
    assert (found["inside"], found["outside"]) == (
        {"rows": 101, "read": 101, "complete": True},
        {"rows": 997, "read": 997, "complete": True},
    )
    first, second = found["columns"][:2]
    assert {first["column"], second["column"]} == {"name", "path"}
    assert min(first["sure"], second["sure"], first["difference"], second["difference"]) > 0.95
    by_name = {each["column"]: each for each in found["columns"]}
    assert by_name["name"]["values"][0] == {"value": "fsync", "inside": 1, "outside": 0}
    assert by_name["path"]["values"][0] == {"value": "/data/log", "inside": 1, "outside": 0}
    assert not by_name.keys() & {"duration_ns", "tid", "pid", "ktime_ns", "start_ns", "arg0"}
    assert all(each["sure"] < 0.99 for each in found["columns"][2:])


async def test_numbers_have_quantiles(line: Line, start_server: StartServer) -> None:
    """The calls of a file are slower: the duration is said, with its quantiles on both sides."""
    await store(line, "syscall", [*calls(997, 1), *slow(101, 2)])
    async with start_server() as server:
        found = await difference(server, where="name = fsync")
    by_name = {each["column"]: each for each in found["columns"]}
    assert by_name["duration_ns"]["numbers"]["inside"] == {"p50": 1e6, "p90": 1e6, "p99": 1e6}
    assert by_name["duration_ns"]["numbers"]["outside"]["p99"] <= 1000
    assert (by_name["duration_ns"]["unit"], by_name["duration_ns"]["values"]) == ("ns", [])
    assert "name" not in by_name


async def test_what_rows_took_longer_for(line: Line, start_server: StartServer) -> None:
    """Of tokens, whose duration has parts: the part that took longer, and the cause, with the shares that it slowed."""
    usual = dict.fromkeys(LLAMA_SLOWEST.parts, 0) | {
        "number": 3,
        "duration_ns": 1000,
        "matmul_ns": 1000,
        "others_prompt_tokens": 0,
    }
    slowed = {**usual, "duration_ns": 91_000, "run_queue_ns": 90_000}
    await store(line, "llama_token", [usual] * 101 + [slowed] * 9 + [{**slowed, "others_prompt_tokens": 71}] * 3)
    async with start_server() as server:
        longer = (await difference(server, "llama_token", where="duration_ns > 50us"))["longer"]
    assert (longer["duration"]["inside_ns"], longer["duration"]["outside_ns"]) == (91_000, 1000)
    assert [(part["column"], part["inside_ns"], part["outside_ns"]) for part in longer["parts"]] == [
        ("run_queue_ns", 90_000, 0)
    ]
    assert longer["causes"] == [{"text": "another request's prompt", "inside": 0.25, "outside": 0}]


async def test_equal_windows_have_nothing_sure(line: Line, start_server: StartServer) -> None:
    """Two windows of rows of the same kind; the time that tells them apart is not said."""
    late = FIRST_KTIME_NS + 20 * 60 * 10**9
    await store(line, "syscall", calls(1009, 1))
    rows = [row | {"ktime_ns": late + number} for number, row in enumerate(calls(1013, 2))]
    await store(line, "syscall", rows)
    until = {"until": (BEGIN + timedelta(minutes=5)).isoformat()}
    async with start_server() as server:
        found = await difference(server, **until, **LATE)
    assert (found["inside"]["read"], found["outside"]["read"]) == (1009, 1013)
    assert [each for each in found["columns"] if each["sure"] > 0.99] == []


async def test_annotations_name_windows(line: Line, start_server: StartServer) -> None:
    """Of a label, the latest time in which it had a value; of an id, the annotation's own; neither besides times."""
    late = FIRST_KTIME_NS + 20 * 60 * 10**9
    await store(line, "syscall", calls(101, 1))
    await store(line, "syscall", [row | {"ktime_ns": late + number} for number, row in enumerate(slow(53, 2))])
    said = [(-30, "3"), (-25, "2"), (-20, "4"), (-1, "2"), (5, "2"), (10, "3"), (15, "3")]  # minutes, and an epoch

    async with start_server() as server:

        async def sides(**query: str) -> tuple[int, int]:
            status, answer = await server.ask("GET", "compare/syscall", params=query)
            assert status == 200, answer
            return answer["inside"]["rows"], answer["outside"]["rows"]

        ids = []
        for minutes, epoch in said:
            time = (BEGIN + timedelta(minutes=minutes)).isoformat()
            status, made = await server.ask(
                "POST", "annotations", json={"text": "step", "time": time, "labels": {"epoch": epoch}}
            )
            assert status == 201, made
            ids.append(made["id"])
        assert await sides(during="epoch=3", against_during="epoch=2") == (53, 101)
        assert await sides(during="epoch=2", against_during=ids[6]) == (101, 53)
        assert await sides(during=ids[3], against_during=ids[5]) == (101, 0)
        assert await sides(during="epoch=4", against_during="epoch=3") == (0, 53)
        for query, refused, fault in (
            ({"during": "epoch=5", "where": "cpu = 1"}, 404, "there is no annotation"),
            ({"during": "epoch", "where": "cpu = 1"}, 400, "write it as NAME=VALUE"),
            ({"during": "epoch=3", "until": WINDOW["until"], "where": "cpu = 1"}, 400, "leave out since and until"),
        ):
            status, answer = await server.ask("GET", "compare/syscall", params=query)
            assert (status, answer["errors"][0]["parameter"]) == (refused, "during"), answer
            assert fault in answer["errors"][0]["detail"]


async def test_dimensions_are_columns(line: Line, start_server: StartServer) -> None:
    """The machine's name, and the file and container of the process, which are no columns of the stream."""
    other = make_machine(line.conninfo, "f" * 32)
    await store(line, "syscall", calls(503, 1))
    await store(line, "syscall", calls(499, 2, pid=815, duration_ns=5_000_000), machine=other)
    line.query("UPDATE store.machines SET hostname = 'other' WHERE machine_id = %s", "f" * 32)
    line.query("UPDATE store.processes SET exe = '/bin/slow' WHERE pid = 815")
    async with start_server() as server:
        found = await difference(server, where="duration_ns > 1ms")
        assert {each["column"] for each in found["columns"] if each["sure"] > 0.99} == {"node", "exe"}
        by_name = {each["column"]: each for each in found["columns"]}
        assert {"value": "other", "inside": 1, "outside": 0} in by_name["node"]["values"]
        assert {"value": "/bin/slow", "inside": 1, "outside": 0} in by_name["exe"]["values"]
        found = await difference(server, where="duration_ns > 1ms", machine="other")
        assert (found["inside"]["rows"], found["outside"]["rows"], found["columns"]) == (499, 0, [])


async def test_reading_is_bounded(line: Line, start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows, evenly chosen ones are compared, always the same, and the answer says how many."""
    for number in range(7):
        rows = [row | {"ktime_ns": FIRST_KTIME_NS + number * 10**9 + place} for place, row in enumerate(slow(11, 1))]
        fast = [
            row | {"ktime_ns": FIRST_KTIME_NS + number * 10**9 + place} for place, row in enumerate(calls(53, number))
        ]
        await store(line, "syscall", [*rows, *fast])
    async with start_server() as server:
        monkeypatch.setattr(comparison, "MOST_ROWS", 20)
        found = await difference(server, where="name = fsync")
        assert found["inside"] == {"rows": 77, "read": 20, "complete": True}
        assert (found["outside"]["rows"], found["outside"]["read"]) == (371, 20)
        assert found == await difference(server, where="name = fsync")
        monkeypatch.setattr(sample, "MOST_ROWS", 200)
        found = await difference(server, where="name = fsync")
        assert (found["inside"]["complete"], found["inside"]["rows"]) == (False, 77)


async def test_stacks_and_summaries(line: Line, start_server: StartServer) -> None:
    """Stacks are compared where rows have them, frame by frame; rows of summaries count for their events."""
    profile = [
        {"comm": "worker", "part": part, "stack": stack}
        for part, stacks in (("on_cpu", ["main;a", "main;b"]), ("blocked", ["main;a;wait", None]))
        for stack in stacks * 50
    ]
    await store(line, "profile", profile)
    summed = [{"comm": comm, "name": "read", "count": count} for comm, count in (("a", 99), ("b", 1))] * 50
    summed += [{"comm": comm, "name": "write", "count": count} for comm, count in (("a", 1), ("b", 99))] * 50
    await store(line, "syscall_summary", summed)
    async with start_server() as server:
        found = await difference(server, "profile", where="part = on_cpu")
        assert found["stacks"] == ["stack"]
        assert [(one["column"], one["frame"], one["inside"], one["outside"]) for one in found["frames"]] == [
            ("stack", "wait", 0, 1),
            ("stack", "a", 0.5, 1),
            ("stack", "b", 0.5, 0),
        ]
        assert min(one["sure"] for one in found["frames"]) > 0.99
        (first, *_) = (await difference(server, "syscall_summary", where="name = read"))["columns"]
        assert first["column"] == "comm"
        assert {"value": "a", "inside": 0.99, "outside": 0.01} in first["values"]


async def test_what_is_not_possible(line: Line, start_server: StartServer) -> None:
    """Without a filter or a window there is nothing to compare with; wrong parameters are named."""
    await store(line, "syscall", calls(3, 1))
    async with start_server() as server:
        for query, parameter in (
            ({}, "where"),
            ({"where": "nothing = 1"}, "where"),
            ({"against_where": "nothing = 1"}, "against_where"),
            ({"where": "ret < 0", "against_since": WINDOW["until"]}, "against_since"),
        ):
            status, problem = await server.ask("GET", "compare/syscall", params={**WINDOW, **query})
            assert (status, problem["errors"][0]["parameter"]) == (400, parameter), problem
        assert (await server.ask("GET", "compare/nonsense", params={**WINDOW, "where": "ret < 0"}))[0] == 404

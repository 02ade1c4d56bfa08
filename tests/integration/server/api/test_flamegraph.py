"""Flame graphs of stored rows: all formats tell the same weights, a filter chooses rows, and reading is bounded."""

import gzip
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from tests.integration.server.api.recorded import BEGIN, WINDOW, bytes_of, store
from tests.integration.server.records import FIRST_KTIME_NS, Line, make_machine
from tests.integration.server.running import Server

from scope_proto.scope.v1.pprof_pb2 import Profile
from scope_server.store.answers import during, stacks

StartServer = Callable[..., Any]

# Stack, ns: prime numbers of samples.
SAMPLES = [
    *([("main;work (f.py:3)", 10)] * 7),
    *([("main;read_[k]", 100)] * 5),
    *([("main", 1000)] * 3),
    (None, 77),
]
BY_STACK = {"worker;on_cpu;main;work (f.py:3)": 70, "worker;on_cpu;main;read_[k]": 500, "worker;on_cpu;main": 3000}
HOSTILE = ["<script>alert(1)</script>]]>", "a\x1b[2J\u202eb", "semi;colon", "x" * 4096]


def samples(*given: tuple[str | None, int], **columns: Any) -> list[dict[str, Any]]:
    return [{"comm": "worker", "part": "on_cpu", "stack": stack, "duration_ns": ns, **columns} for stack, ns in given]


async def graph(server: Server, stream: str = "profile", **query: str) -> tuple[pa.Table, Mapping[str, str]]:
    """The columns, and the metadata of their schema."""
    status, _, body = await bytes_of(server, f"flamegraph/{stream}", **{**WINDOW, **query})
    assert status == 200, body
    with pa.ipc.open_stream(body) as found:
        table = found.read_all()
    return table, {key.decode(): value.decode() for key, value in table.schema.metadata.items()}


def own(table: pa.Table, column: str = "self") -> dict[str, int]:
    """What each stack weighs alone."""
    found: dict[str, int] = {}
    path: list[str] = []
    for row in table.to_pylist():
        path = [*path[: max(row["level"] - 1, 0)], row["label"]] if row["level"] else []
        if row[column]:
            found[";".join(path)] = row[column]
    return found


async def test_all_formats_tell_the_same(line: Line, start_server: StartServer) -> None:
    """Columns, text, picture, pprof and speedscope have the stacks and weights of the stored rows."""
    await store(line, "profile", samples(*SAMPLES))
    async with start_server() as server:
        table, told = await graph(server)
        assert own(table) == BY_STACK
        assert (table["label"][0].as_py(), table["value"][0].as_py(), table["kind"][1].as_py()) == ("all", 3570, "comm")
        assert {row["label"]: row["kind"] for row in table.to_pylist()}["read_[k]"] == "kernel"
        expected = {"unit": "ns", "samples": "15", "complete": "true", "stream": "profile", "by": "duration_ns"}
        assert {name: told[name] for name in expected} == expected
        bodies = {}
        for form in ("folded", "svg", "pprof", "speedscope"):
            status, headers, bodies[form] = await bytes_of(server, "flamegraph/profile", **WINDOW, format=form)
            assert (status, headers["X-Scope-Complete"], headers["X-Scope-Samples"]) == (200, "true", "15")
    lines = dict(line.rsplit(" ", 1) for line in bodies["folded"].decode().splitlines())
    assert {stack: int(weight) for stack, weight in lines.items()} == BY_STACK
    assert ET.fromstring(bodies["svg"]) is not None
    profile = Profile.FromString(gzip.decompress(bodies["pprof"]))
    assert sum(sample.value[0] for sample in profile.sample) == 3570
    (shown,) = json.loads(bodies["speedscope"])["profiles"]
    assert (shown["endValue"], shown["unit"]) == (3570, "nanoseconds")


async def test_filter_window_machine_and_task(line: Line, start_server: StartServer) -> None:
    """Each chooses rows; what nothing has is 404, and a column or window that is not possible 400."""
    other = make_machine(line.conninfo, "f" * 32)
    run = await store(line, "profile", samples(("main;a", 3)))
    await store(line, "profile", samples(("main;b", 5), pid=815), machine=other)
    late = FIRST_KTIME_NS + 60 * 10**9
    await store(line, "profile", [row | {"ktime_ns": late} for row in samples(("main;c", 7))])
    after = (BEGIN + timedelta(seconds=30)).isoformat()
    async with start_server() as server:
        for query, weight in (
            ({}, 15),
            ({"where": "pid = 815"}, 5),
            ({"where": "stack ~ '*;a'"}, 3),
            ({"machine": "f" * 32}, 5),
            ({"task": str(run.task_id)}, 3),
            ({"since": after}, 7),
            ({"until": after}, 8),
            ({"by": "count"}, 3),
        ):
            table, _ = await graph(server, **query)
            assert table["value"][0].as_py() == weight, query
        for query, status in (
            ({"machine": "nobody"}, 404),
            ({"task": "00000000-0000-4000-8000-000000000000"}, 404),
            ({"task": "x"}, 400),
            ({"column": "comm"}, 400),
            ({"by": "comm"}, 400),
            ({"format": "png"}, 400),
            ({"where": "nothing = 1"}, 400),
            ({"since": WINDOW["until"]}, 400),
            ({"against_where": "nothing = 1"}, 400),
        ):
            assert (await bytes_of(server, "flamegraph/profile", **{**WINDOW, **query}))[0] == status, query
        assert (await bytes_of(server, "flamegraph/syscall", **WINDOW))[0] == 400
        assert (await bytes_of(server, "flamegraph/nonsense", **WINDOW))[0] == 404


async def test_a_second_side_makes_a_difference(line: Line, start_server: StartServer) -> None:
    """Another filter or window has weights of its own; no row is on both sides."""
    await store(line, "profile", samples(("main;a", 3), ("main;b", 5)))
    late = FIRST_KTIME_NS + 60 * 10**9
    await store(line, "profile", [row | {"ktime_ns": late} for row in samples(("main;a", 7))])
    after = (BEGIN + timedelta(seconds=30)).isoformat()
    async with start_server() as server:
        table, told = await graph(server, until=after, against_since=after, against_until=WINDOW["until"])
        assert (own(table), own(table, "other_self")) == (
            {"worker;on_cpu;main;a": 3, "worker;on_cpu;main;b": 5},
            {"worker;on_cpu;main;a": 7},
        )
        assert (told["samples"], told["other_samples"]) == ("2", "1")
        table, _ = await graph(server, where="stack ~ '*a'", against_where="")
        assert (table["value"][0].as_py(), table["other_value"][0].as_py()) == (10, 5)
        _, _, lines = await bytes_of(
            server, "flamegraph/profile", **WINDOW, where="stack ~ '*a'", against_where="", format="folded"
        )
        assert lines.decode() == "worker;on_cpu;main;a 0 10\nworker;on_cpu;main;b 5 0\n"


async def test_states_and_summaries(line: Line, start_server: StartServer) -> None:
    """The latest row of a state weighs; a summary's samples are what its rows count; the stream's filter holds."""
    held = [
        {"comm": "worker", "memory": "device", "stack": "main;a", "stack_id": 1, "live_bytes": size} for size in (5, 9)
    ]
    await store(line, "cuda_live", held)
    summed = [
        {"comm": "worker", "part": "on_cpu", "stack": stack, "total_ns": 10, "count": 3}
        for stack in ("main;a", "main;b")
    ]
    await store(line, "profile_summary", summed)
    launches = [{"comm": "worker", "stack": "main", "kernel": "gemm", "nested": nested} for nested in (0, 0, 1)]
    await store(line, "cuda_launch", launches)
    async with start_server() as server:
        assert own((await graph(server, "cuda_live"))[0]) == {"worker;main;a;device": 9}
        table, told = await graph(server, "profile_summary")
        assert (table["value"][0].as_py(), told["samples"]) == (20, "6")
        assert (await graph(server, "profile_summary", by="count"))[0]["value"][0].as_py() == 6
        assert own((await graph(server, "cuda_launch"))[0]) == {"worker;main;gemm": 2}


async def test_too_many_rows_and_stacks(line: Line, start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many blocks, evenly chosen ones are read, and the answer says how many; the lightest stacks are one frame."""
    for number in range(7):
        later = FIRST_KTIME_NS + number * 10**9
        rows = [row | {"ktime_ns": later + place} for place, row in enumerate(samples(*[(f"main;f{number}", 1)] * 11))]
        await store(line, "profile", rows)
    async with start_server() as server:
        monkeypatch.setattr(stacks, "MOST_STACKS", 3)
        table, told = await graph(server)
        assert (table["value"][0].as_py(), told["complete"]) == (77, "true")
        assert own(table)["(other)"] == 44
        monkeypatch.setattr(stacks, "MOST_ROWS", 40)
        table, told = await graph(server)
        assert (told["complete"], told["samples"], table["value"][0].as_py()) == ("33 of 77 rows", "33", 33)
        assert (await graph(server))[0] == table
        _, headers, drawn = await bytes_of(server, "flamegraph/profile", **WINDOW, format="svg")
        assert (headers["X-Scope-Complete"], "33 of 77 rows" in drawn.decode()) == ("33 of 77 rows", True)


async def test_hostile_names(line: Line, start_server: StartServer) -> None:
    """Names of frames and of programs become no markup, no control characters, no other frames, in any format."""
    await store(
        line, "profile", [row | {"comm": name[:15]} for name in HOSTILE for row in samples((f"main;{name}", 1))]
    )
    async with start_server() as server:
        for form in ("arrow", "folded", "svg", "pprof", "speedscope"):
            status, _, body = await bytes_of(server, "flamegraph/profile", **WINDOW, format=form)
            assert status == 200
            text = gzip.decompress(body).decode("latin-1") if form == "pprof" else body.decode("latin-1")
            assert "\x1b[2J" not in text, form
            assert "\u202e".encode().decode("latin-1") not in text, form
        _, _, drawn = await bytes_of(server, "flamegraph/profile", **WINDOW, format="svg")
        scripts = [each for each in ET.fromstring(drawn).iter() if each.tag.endswith("script")]
        assert len(scripts) == 1
        _, _, lines = await bytes_of(server, "flamegraph/profile", **WINDOW, format="folded")
        assert (
            Counter(len(re.findall(";", line)) for line in lines.decode().splitlines())[3] == 3
        )  # one has a `;` in its stack


def moments(*given: tuple[int, int, str], **columns: Any) -> list[dict[str, Any]]:
    """Samples, each as thread, microseconds after the first, and stack."""
    return [
        {"comm": "w", "part": "on_cpu", "tid": tid, "ktime_ns": FIRST_KTIME_NS + us * 1000, "stack": stack, **columns}
        for tid, us, stack in given
    ]


async def test_rows_of_another_stream_choose_samples(line: Line, start_server: StartServer) -> None:
    """A sample counts where its thread was in a chosen row; a row of a process has samples of all its threads."""

    def call(tid: int, us: int, length_us: int, **columns: Any) -> dict[str, Any]:
        at, duration_ns = FIRST_KTIME_NS + us * 1000, length_us * 1000
        return {"comm": "w", "tid": tid, "ktime_ns": at, "duration_ns": duration_ns, **columns}

    slow = [call(1, 1000, 100), call(1, 1050, 200), call(2, 2000, 100)]  # the first two are one time of thread 1
    await store(line, "syscall", [*slow, call(1, 3000, 10), call(2, 1010, 50, pid=815)])
    taken = [
        *[(1, us, "in") for us in (1000, 1060, 1250)],  # at the begin, in both, at the end
        (1, 999, "before"),
        (1, 1251, "after"),
        (2, 1100, "of another thread"),
        *[(2, us, "in") for us in (2000, 2099)],
        *[(1, us, "fast") for us in (3000, 3003, 3010)],
        (3, 2050, "third"),
    ]
    await store(line, "profile", moments(*taken, duration_ns=7))
    await store(line, "profile", moments((2, 1020, "of another process"), pid=815, duration_ns=7))
    # Both are timed at their end: a token is about its thread, a connection about all threads of its process.
    token = {"context": 1, "sequence": 1}
    await store(line, "llama_token", [call(2, 2100, 150, **token), call(2, 3010, 10, **token)])
    await store(line, "connection", [call(9, 2100, 0, lifetime_ns=150_000)])
    by_count = {"by": "count", "format": "folded"}
    async with start_server() as server:

        async def drawn(**query: str) -> tuple[dict[str, str], str]:
            _, headers, lines = await bytes_of(server, "flamegraph/profile", **WINDOW, **by_count, **query)
            return dict(line.rsplit(" ", 1) for line in lines.decode().splitlines()), headers["X-Scope-Complete"]

        slowest = {"of": "syscall", "where": "duration_ns >= 100us"}
        assert await drawn(**slowest) == ({"w;on_cpu;in": "5"}, "true")
        found, _ = await drawn(**slowest, against_where="")
        # Each side counts apart: outside, before inside.
        assert found == {"w;on_cpu;in 0": "5", "w;on_cpu;fast 3": "0", "w;on_cpu;of another process 1": "0"}
        assert await drawn(of="llama_token", where="duration_ns = 150us") == ({"w;on_cpu;in": "2"}, "true")
        assert await drawn(of="connection") == ({"w;on_cpu;in": "2", "w;on_cpu;third": "1"}, "true")
        answer = (await server.ask("GET", "compare/syscall", params={**WINDOW, "where": "duration_ns >= 100us"}))[1]
        assert (answer["stacks"], answer["samples"]) == ([], ["profile"])
        answer = (await server.ask("GET", "compare/syscall", params={**WINDOW, "where": "duration_ns > 200us"}))[1]
        assert answer["samples"] == []
        for query in ({"of": "nothing"}, {"of": "exec"}, {"of": "syscall", "where": "stack = x"}):
            assert (await bytes_of(server, "flamegraph/profile", **WINDOW, **query))[0] == 400, query
        assert (await bytes_of(server, "flamegraph/cuda_live", **WINDOW, of="syscall"))[0] == 400


async def test_of_many_rows_some_choose_samples(
    line: Line, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says of how many rows the times were read."""
    rows = [{"tid": 1, "ktime_ns": FIRST_KTIME_NS + n * 1000, "duration_ns": 1} for n in range(20)]
    await store(line, "syscall", rows)
    await store(line, "profile", moments(*((1, us, "f") for us in range(20))))
    async with start_server() as server:
        monkeypatch.setattr(during, "MOST_ROWS", 5)
        _, told = await graph(server, of="syscall", by="count")
    assert (told["samples"], told["complete"]) == ("5", "5 of 20 rows, 20 of 20 rows")

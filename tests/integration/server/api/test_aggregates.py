"""GET /aggregates: the same totals from rollups and from rows, and as the rows themselves give them."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from tests.integration.server.records import BOOT_TO_UTC_NS, FIRST_KTIME_NS, Run, lined, make_machine, rows
from tests.integration.server.running import Server
from tests.integration.server.test_rollups import merge, spread

from scope_bpf.probes import probe_named
from scope_server.store.totals import reader
from scope_server.store.totals.question import EVERY

StartServer = Callable[..., Any]
SINCE = datetime.fromtimestamp(BOOT_TO_UTC_NS / 1e9, UTC)
WINDOW = {"since": (SINCE - timedelta(minutes=1)).isoformat(), "until": (SINCE + timedelta(hours=4)).isoformat()}
EVERY_ROW = "nr >= 0"  # a filter that rollups cannot answer, and that all rows meet
CELLS = "count,failed,sum(duration_ns),mean(duration_ns),rate"


async def _filled(server: Server) -> Any:
    """Stores rows of 90 minutes, from two machines."""
    async with lined(server.conninfo) as line:
        run = Run()
        await line.send(*[run.batch(n + 1, spread(601, 50, first=20 * n)) for n in range(3)])
        other = make_machine(line.conninfo, "f" * 32)
        await line.send(Run().batch(1, spread(307, 50)), machine=other)
    return line


async def test_rollups_and_rows_have_the_same_totals(start_server: StartServer) -> None:
    """Totals equal those that SQL gives of the rows, from rollups (merged or not) and from rows, for any key."""
    async with start_server() as server:
        line = await _filled(server)
        for _ in range(2):
            for where in (None, EVERY_ROW):
                for order, by in (("count", "comm,name"), ("sum(duration_ns)", "name"), ("count", "machine,comm")):
                    asked = {**WINDOW, "where": where, "by": by, "cells": CELLS, "order": order, "top": 3}
                    answer = await server.get("aggregates", "syscall", **asked)
                    assert (answer["source"], answer["complete"]) == ("rows" if where else "rollups", True)
                    keys = by.replace("machine", "machine_id")
                    rank = "2" if order == "count" else "3"
                    wanted = server.query(
                        f"SELECT ({keys})::text, count(*), sum(duration_ns)::bigint, count(*) FILTER (WHERE ret < 0)"
                        f" FROM scope.syscall GROUP BY {keys} ORDER BY {rank} DESC LIMIT 3"
                    )
                    values = [group["values"] for group in answer["groups"]]
                    of_values = [(one["count"], one["sum(duration_ns)"], one["failed"]) for one in values]
                    assert sorted(of_values) == sorted(row[1:] for row in wanted), (where, by)
                    for one in values:
                        assert one["mean(duration_ns)"] == pytest.approx(one["sum(duration_ns)"] / one["count"])
                        assert one["rate"] == pytest.approx(one["count"] / (4 * 3600 + 60))
            merge(line)


async def test_a_series_has_a_point_for_each_step(start_server: StartServer) -> None:
    """Points equal the rows of their steps, from rollups and from rows, in order of time."""
    async with start_server() as server:
        await _filled(server)
        until = SINCE + timedelta(hours=1.9)
        window = {"since": SINCE.isoformat(), "until": until.isoformat()}
        for where in (None, EVERY_ROW):
            for every, seconds in EVERY.items():
                answer = await server.get("aggregates", "syscall", **window, every=every, where=where)
                step = f"to_timestamp(floor(extract(epoch FROM time) / {seconds}) * {seconds})"
                counted = server.query(f"SELECT {step} AS t, count(*) FROM scope.syscall GROUP BY t ORDER BY t")
                points = [
                    (datetime.fromisoformat(p["time"]), p["values"]["count"]) for p in answer["groups"][0]["points"]
                ]
                assert points == counted, (where, every)
            answer = await server.get("aggregates", "syscall", **window, every="5m", by="name,machine", where=where)
            assert {group["key"]["machine_id"] for group in answer["groups"]} == {"f" * 32, "0123456789abcdef" * 2}
            for group in answer["groups"]:
                assert sum(point["values"]["count"] for point in group["points"]) == group["values"]["count"]
            one = {**window, "every": "1s", "by": "machine", "machine": "f" * 32, "where": where}
            answer = await server.get("aggregates", "syscall", **one)
            assert [group["values"]["count"] for group in answer["groups"]] == [307]


async def test_rows_can_be_grouped_by_any_column(start_server: StartServer) -> None:
    """Rows are grouped by numbers, names, processes or not at all; least, largest and percentiles are exact."""
    async with start_server() as server:
        await _filled(server)
        cells = "count,min(ret),max(ret),p50(duration_ns),p99.9(duration_ns),sum(waited),rate(arg0,duration_ns)"
        for by in ("cpu", "tid,name", "pid,start_ns", "uid", ""):
            answer = await server.get("aggregates", "syscall", **WINDOW, by=by, cells=cells, top=50)
            assert answer["source"] == "rows"
            of = f"GROUP BY {by} ORDER BY count(*) DESC" if by else ""
            wanted = server.query(
                f"SELECT {by or 1}, count(*), min(ret), max(ret),"
                " percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_ns),"
                " percentile_disc(0.999) WITHIN GROUP (ORDER BY duration_ns), sum(waited),"
                f" sum(arg0)::float8 * 1e9 / sum(duration_ns) FROM scope.syscall {of}"
            )
            found = [[*group["key"].values(), *group["values"].values()] for group in answer["groups"]]
            found = found if by else [[1, *one] for one in found]
            as_text = [sorted(map(str, rows_)) for rows_ in (found, [list(map(_plain, row)) for row in wanted])]
            assert len(found) == len(wanted)
            assert [text[:40] for text in as_text[0]] == [text[:40] for text in as_text[1]], by


def _plain(value: Any) -> Any:
    return int(value) if type(value).__name__ == "Decimal" else value


async def test_a_summary_counts_what_it_summarizes(start_server: StartServer) -> None:
    """Of a summary, counts, failures, means and percentiles are those of its events, from rollups and from rows. So
    are the counts of its heatmap."""
    schema = probe_named("syscalls").schema(probe_named("syscalls").streams[1])
    buckets = [[0] * 40 for _ in range(3)]
    buckets[0][7], buckets[1][7], buckets[2][8] = 490, 490, 20
    columns: dict[str, Any] = {field.name: [0] * 3 for field in schema}
    columns |= {"ktime_ns": [FIRST_KTIME_NS] * 3, "pid": [7] * 3, "start_ns": [1] * 3, "comm": ["a"] * 3}
    columns |= {"name": ["read"] * 3, "count": [490, 490, 20], "errors": [1, 0, 2], "total_ns": [450, 450, 4000]}
    columns |= {"latency": buckets}
    async with start_server() as server, lined(server.conninfo) as line:
        batch = pa.RecordBatch.from_pydict(columns, schema=schema)
        await line.send(Run().batch(1, batch, stream="syscall_summary"))
        cells = "count,failed,mean(total_ns),p50(total_ns),p50(latency),p99(latency)"
        for where, source in ((None, "rollups"), ("count > 0", "rows")):
            answer = await server.get("aggregates", "syscall_summary", **WINDOW, cells=cells, where=where, by="name")
            assert (answer["source"], answer["counted"]) == (source, "calls that ended in the interval")
            (group,) = answer["groups"]
            values = group["values"]
            assert (group["key"], values["count"], values["failed"]) == ({"name": "read"}, 1000, 3)
            assert values["mean(total_ns)"] == pytest.approx(4.9)
            assert 128 <= values["p50(total_ns)"] == values["p50(latency)"] < 256 <= values["p99(latency)"] < 512
            answer = await server.get("heatmap", "syscall_summary", **WINDOW, column="total_ns", where=where)
            assert (answer["source"], answer["edges"]) == (source, [128, 256])
            assert [sum(sizes) for sizes in zip(*answer["counts"], strict=True)] == [980, 20]


async def test_the_number_of_rows_that_are_read_is_bounded(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more rows than the bound, the newest are read; the answer says since when, and is exact since then."""
    monkeypatch.setattr(reader, "MOST_ROWS", 700)
    async with start_server() as server:
        await _filled(server)
        for every in (None, "5m"):
            answer = await server.get("aggregates", "syscall", **WINDOW, where=EVERY_ROW, every=every)
            since = datetime.fromisoformat(answer["read_since"])
            assert (answer["complete"], since > SINCE) == (False, True)
            ((count,),) = server.query("SELECT count(*) FROM scope.syscall WHERE time >= %s", since)
            assert answer["groups"][0]["values"]["count"] == count <= 700
        whole = await server.get("aggregates", "syscall", **WINDOW)
        assert (whole["complete"], whole["groups"][0]["values"]["count"]) == (True, 3 * 601 + 307)


async def test_losses_are_told_beside_totals(start_server: StartServer) -> None:
    """An answer says what was lost in its time."""
    run = Run()
    async with start_server() as server, lined(server.conninfo) as line:
        await line.send(run.batch(1, rows(101), 108, {("ring", "ring_full"): 7}))
        answer = await server.get("aggregates", "syscall", **WINDOW)
        assert [(one["reason"], one["count"]) for one in answer["losses"]] == [("ring_full", 7)]


@pytest.mark.parametrize(
    ("asked", "parameter", "said"),
    [
        ("every=2m", "every", "not one of"),
        ("by=nonsense", "by", "nonsense"),
        ("by=name,name", "by", "twice"),
        ("by=a%00b", "by", "NUL"),
        ("top=0", "top", "1"),
        ("top=101", "top", "100"),
        ("cells=worst", "cells", "worst"),
        ("cells=p99", "cells", "p99(COLUMN)"),
        ("cells=p99(comm)", "cells", "no numbers"),
        ("cells=p101(ret)", "cells", "p101"),
        ("cells=sum(rett)", "cells", "did you mean 'ret'"),
        ("cells=count;drop", "cells", "character"),
        ("cells=", "cells", "character 1"),
        ("cells=count&order=failed", "order", "failed"),
        ("since=now", "since", "not a time"),
        ("since=0001-01-01T00:00:00", "since", "1970"),
        ("until=0001-01-01T00:00:00", "since", "1970"),
        ("until=9999-12-31T23:59:59", "since", "until"),
        ("since=2026-01-02T00:00:00&until=2026-01-01T00:00:00", "since", "before"),
        ("since=2026-01-01T00:00:00&until=2026-01-03T00:00:00&every=1s", "every", "points"),
        ("since=2026-01-01T00:00:00&until=2026-01-03T00:00:00&every=1m", "every", "points"),
        ("nonsense=1", "nonsense", "nonsense"),
        ("where=nonsense=1", "where", "nonsense"),
    ],
)
async def test_what_cannot_be_asked(server: Server, asked: str, parameter: str, said: str) -> None:
    """An invalid parameter is a 400, with a problem document that names it and what is wrong."""
    status, problem = await server.ask("GET", f"aggregates/syscall?{asked}")
    assert (status, problem["errors"][0]["parameter"]) == (400, parameter), problem
    assert said in problem["detail"]


async def test_streams_that_there_are_not(server: Server) -> None:
    """An unknown stream or machine is a 404; a stream without rows has no groups, and without failures no `failed`."""
    assert (await server.ask("GET", f"aggregates/{uuid.uuid4()}"))[0] == 404
    assert (await server.ask("GET", "aggregates/syscall?machine=nowhere"))[0] == 404
    for where in ("", "&where=pid > 0"):
        status, answer = await server.ask("GET", f"aggregates/fork?every=1m&by=comm{where}")
        assert (status, answer["groups"]) == (200, [])
        status, answer = await server.ask("GET", f"aggregates/fork?every=1m{where}")
        assert (status, answer["groups"]) == (200, [])
    assert (await server.ask("GET", "aggregates/fork?cells=failed"))[0] == 400

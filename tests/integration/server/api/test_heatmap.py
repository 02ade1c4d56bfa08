"""GET /heatmap: counts by step and size equal the rows', from rollups and from rows."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.integration.server.records import BOOT_TO_UTC_NS, Run, lined, make_machine, rows
from tests.integration.server.running import Server
from tests.integration.server.test_rollups import merge, spread

from scope_server.store.totals import heatmap, of_rows
from scope_server.store.totals.heatmap import STEPS, step_of

StartServer = Callable[..., Any]
SINCE = datetime.fromtimestamp(BOOT_TO_UTC_NS / 1e9, UTC)
WINDOW = {"since": SINCE.isoformat(), "until": (SINCE + timedelta(hours=1.9)).isoformat()}


def _cells(answer: Any) -> Counter[tuple[datetime, int]]:
    since, step = datetime.fromisoformat(answer["since"]), timedelta(seconds=answer["step_s"])
    return Counter(
        {
            (since + number * step, edge): count
            for number, counts in enumerate(answer["counts"])
            for edge, count in zip(answer["edges"], counts, strict=True)
            if count
        }
    )


def _of_rows(server: Server, step_s: float, column: str = "duration_ns", where: str = "true") -> Counter[Any]:
    found: Counter[tuple[datetime, int]] = Counter()
    for time, value in server.query(f"SELECT time, {column} FROM scope.syscall WHERE {column} IS NOT NULL AND {where}"):
        steps = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=step_s)
        size = (1 << 63) - 1 if column == "duration_ns" and value < 0 else max(value, 0)
        edge = 1 << size.bit_length() - 1 if size > 1 else 0
        found[datetime(1970, 1, 1, tzinfo=UTC) + steps * timedelta(seconds=step_s), edge] += 1
    return found


async def test_counts_are_those_of_the_rows(start_server: StartServer) -> None:
    """Each value counts once, in its step and its power of two: from rollups by the minute, else from rows."""
    async with start_server() as server, lined(server.conninfo) as line:
        run = Run()
        await line.send(*[run.batch(n + 1, spread(601, 50, first=20 * n)) for n in range(3)], run.batch(4, rows(97)))
        other = make_machine(line.conninfo, "f" * 32)
        await line.send(Run().batch(1, spread(307, 50)), machine=other)
        for _ in range(2):
            for asked, source, column, where in (
                ({}, "rollups", "duration_ns", "true"),
                ({"columns": 2}, "rollups", "duration_ns", "true"),
                ({"machine": "f" * 32}, "rollups", "duration_ns", f"machine_id = '{'f' * 32}'"),
                ({"task": str(run.task_id)}, "rows", "duration_ns", f"task_id = '{run.task_id}'"),
                ({"where": "name = read"}, "rows", "duration_ns", "name = 'read'"),
                ({"column": "ret", "columns": 400}, "rows", "ret", "true"),
            ):
                answer = await server.get("heatmap", "syscall", **WINDOW, **asked)
                assert (answer["source"], answer["complete"]) == (source, True), asked
                assert len(answer["counts"]) <= int(str(asked.get("columns", 200)))
                assert _cells(answer) == _of_rows(server, answer["step_s"], column, where), asked
            merge(line)
        short = {"since": SINCE.isoformat(), "until": (SINCE + timedelta(seconds=7)).isoformat()}
        answer = await server.get("heatmap", "syscall", **short, columns=40)
        assert (answer["source"], answer["step_s"], answer["unit"]) == ("rows", 0.2, "ns")
        assert _cells(answer) == _of_rows(server, 0.2, where=f"time < '{short['until']}'")


async def test_rows_are_bounded_and_losses_are_told(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more rows than the bound, the newest are counted, and the answer says since when; losses are told."""
    monkeypatch.setattr(heatmap, "MOST_ROWS", 700)
    async with start_server() as server, lined(server.conninfo) as line:
        run = Run()
        await line.send(*[run.batch(n + 1, spread(601, 50, first=20 * n)) for n in range(3)])
        await line.send(run.batch(4, rows(7), 1828, {("ring", "ring_full"): 18}))
        answer = await server.get("heatmap", "syscall", **WINDOW, where="nr = 0")
        since = datetime.fromisoformat(answer["read_since"])
        assert (answer["complete"], since > SINCE) == (False, True)
        assert _cells(answer) == _of_rows(server, answer["step_s"], where=f"time >= '{since}'")
        assert [one["count"] for one in answer["losses"]] == [18]


async def test_a_query_that_takes_too_long(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no wrong request, and no database that is away: the answer is 504, with the remedy."""
    monkeypatch.setattr(of_rows, "SETTINGS", "SET LOCAL statement_timeout = 50; SELECT pg_sleep(60)")
    status, problem = await server.ask("GET", "heatmap/syscall?where=nr=0")
    assert (status, problem["title"]) == (504, "The query takes too long")
    assert "narrow it with since, until or where" in problem["detail"]


async def test_what_cannot_be_asked(server: Server) -> None:
    """A column without numbers, a stream without a measured column, too many steps: the parameter is named."""
    for asked, parameter in (
        ("syscall?column=comm", "column"),
        ("syscall?column=a,b", "column"),
        ("fork?", "column"),
        ("syscall?columns=401", "columns"),
        ("syscall?where=nonsense", "where"),
    ):
        status, problem = await server.ask("GET", f"heatmap/{asked}")
        assert (status, problem["errors"][0]["parameter"]) == (400, parameter), problem
    status, answer = await server.ask("GET", "heatmap/syscall")
    assert (status, answer["edges"]) == (200, [])


def test_steps_are_round_and_few_enough() -> None:
    """Steps cover the time in at most so many columns; steps of minutes are whole minutes, of hours divide a day."""
    for step in STEPS:
        assert step < timedelta(minutes=1) or step % timedelta(minutes=1) == timedelta()
        assert step < timedelta(hours=1) or timedelta(days=1) % step == timedelta()
    for seconds in (0.0001, 1, 59, 3600, 86400, 86400 * 365 * 40):
        for columns in (2, 7, 400):
            begin = SINCE + timedelta(milliseconds=1)
            step = step_of(begin, begin + timedelta(seconds=seconds), columns)
            covered = (timedelta(seconds=seconds) + 2 * step) // step
            assert covered <= columns + 2

"""Daily partitions: made when the first rows of a day arrive, without blocking readers or writers."""

import asyncio

import psycopg
from tests.integration.server.records import BOOT_TO_UTC_NS, STORED, Line, Run, lined, rows

DAY_NS = 24 * 3600 * 10**9


async def test_writers_make_a_day_together(database: str) -> None:
    """Writers that store the first rows of a day at the same time create its partitions once; no batch fails."""
    runs = [Run() for _ in range(12)]
    async with lined(database, lanes=4) as line:
        for day in range(3):
            offset = BOOT_TO_UTC_NS - day * DAY_NS
            answers = await asyncio.gather(
                *(line.send(run.batch(day + 1, rows(101), boot_to_utc_ns=offset)) for run in runs)
            )
            assert {answer.verdict for (answer,) in answers} == {STORED}
        assert line.query("SELECT count(*) FROM scope.syscall") == [(3 * 12 * 101,)]


async def test_a_new_day_waits_for_no_reader(line: Line) -> None:
    """An open transaction that has read the table does not delay the first rows of another day."""
    run = Run()
    await line.send(run.batch(1, rows(101)))
    with psycopg.connect(line.conninfo) as reader:
        reader.execute("SELECT count(*) FROM scope.syscall").fetchall()
        later = run.batch(2, rows(103, 101), boot_to_utc_ns=BOOT_TO_UTC_NS - DAY_NS)
        async with asyncio.timeout(30):
            assert [answer.verdict for answer in await line.send(later)] == [STORED]

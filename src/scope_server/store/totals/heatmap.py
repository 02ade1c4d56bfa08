"""The distribution of a column over time: how many values of each size there are in each step."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from scope_server.store.reading.database import Database
from scope_server.store.reading.filters import conditions
from scope_server.store.reading.reach import newest
from scope_server.store.reading.selection import Selection
from scope_server.store.totals import of_rollups, of_rows
from scope_server.store.totals.cells import Cell, histogram_of
from scope_server.store.totals.question import Question, aligned
from scope_server.store.totals.reader import MOST_HISTOGRAMS, MOST_ROWS

# Lengths of a step; those of an hour or more divide a day, so that whole hours are read.
_STEPS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000)
_STEPS_S = (60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 4 * 3600, 6 * 3600, 12 * 3600, 86_400)
STEPS = (*(timedelta(milliseconds=ms) for ms in _STEPS_MS), *(timedelta(seconds=s) for s in _STEPS_S))
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Heatmap:
    """Counts by step and size.

    Attributes:
        since: of the first step.
        edges: the least value of each size; the first is 0, the others are powers of two.
        counts: of each step, of each size.
        read_since: the counts are of all rows since then.
        complete: this is `since`, or before it.
    """

    since: datetime
    until: datetime
    step: timedelta
    edges: list[int]
    counts: list[list[int]]
    source: Literal["rollups", "rows"]
    read_since: datetime
    complete: bool


async def heatmap(database: Database, wanted: Selection, column: str, columns: int) -> Heatmap:
    """The heatmap of a column, in at most so many steps. Times are extended to whole steps.

    Args:
        wanted: with a begin and an end.

    Raises:
        QueryTooSlow: the query takes too long.
        StoreUnavailable: the database cannot be reached.
    """
    assert wanted.since
    assert wanted.until
    step = step_of(wanted.since, wanted.until, columns)
    since, until = aligned(wanted.since, wanted.until, step)
    wanted = replace(wanted, since=since, until=until)
    question = _question(wanted, column, step)
    source: Literal["rollups", "rows"] = "rollups" if step >= _MINUTE and question.of_rollups else "rows"
    async with database.snapshot() as connection:
        if source == "rollups":
            await connection.execute(f"{of_rollups.SETTINGS}; {of_rollups.HASHED}")
            query, read_since, complete = of_rollups.distribution(question), since, True
        else:
            found = await conditions(connection, wanted)
            most = MOST_HISTOGRAMS if histogram_of(wanted.table, column) else MOST_ROWS
            reach = await newest(connection, wanted, found, most)
            read_since, complete = reach.since, reach.complete
            await connection.execute(of_rows.SETTINGS)
            query = of_rows.distribution(replace(wanted, since=max(read_since, since)), found, column, step)
        rows = await (await connection.execute(query)).fetchall()
    low, high = min((row["bucket"] for row in rows), default=0), max((row["bucket"] for row in rows), default=-1)
    counts = [[0] * (high - low + 1) for _ in range((until - since) // step)]
    for row in rows:
        counts[(row["time"] - since) // step][row["bucket"] - low] += row["count"]
    edges = [1 << bucket if bucket else 0 for bucket in range(low, high + 1)]
    return Heatmap(since, until, step, edges, counts, source, read_since, complete)


def step_of(since: datetime, until: datetime, columns: int) -> timedelta:
    """The shortest round step of which so many cover the time, when it is extended to whole steps."""
    for step in STEPS:
        begin, end = aligned(since, until, step)
        if (end - begin) // step <= columns:
            return step
    days = -(-(until - since) // (_DAY * max(1, columns - 1)))
    return _DAY * days


def _question(wanted: Selection, column: str, step: timedelta) -> Question:
    """The question whose histograms are the answer, if rollups have it."""
    cell = Cell("", "p", histogram_of(wanted.table, column) or column, share=0.5)
    return Question(wanted, (cell,), (), max(1, round(step.total_seconds())), cell, 1)

"""What people ask, through what answers them in the server, and how long that may take."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from scope_catalogue.where import read_filter
from scope_cli.bench_store import answers
from scope_cli.bench_store.fill import GROUP, Filler
from scope_cli.bench_store.load import COMMON, HELD, RARE, Load
from scope_server.store.latest.reader import States
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import MOST_ROWS, EventQuery, Reader
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable
from scope_server.store.totals.cells import read_cells
from scope_server.store.totals.question import Every, asked
from scope_server.store.totals.reader import Totals

REPEATS = 20
_AFTER_COMMITS = 10
_PAGE, _PAGES = 100, 1000

Ask = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Answered:
    """How long a question's answers took, in ms, and what was wanted of the 95th percentile."""

    question: str
    p50_ms: float
    p95_ms: float
    goal_ms: float

    @property
    def met(self) -> bool:
        """Whether it was as fast as wanted."""
        return self.p95_ms <= self.goal_ms


async def ask_all(filler: Filler, load: Load, told: Callable[[str], None], repeats: int = REPEATS) -> list[Answered]:
    """Asks everything so many times, warm; `told` hears each question."""
    async with Database(filler.conninfo, 2, 600.0) as database:
        await database.prepare(filler.tables)
        asked = _Asked(database, filler.tables, load)
        found = []
        for question, (ask, goal_ms) in asked.questions().items():
            told(question)
            found.append(await _measured(question, ask, goal_ms, repeats))
        told("the newest page after a commit")
        found.append(await asked.after_commits(filler))
        return found


class _Asked:
    def __init__(self, database: Database, tables: Mapping[str, StreamTable], load: Load) -> None:
        self._database, self._tables, self._load = database, tables, load
        self._table = tables["syscall"]
        self._held_table, self._states = tables[HELD[0]], States(database)
        self._reader, self._totals = Reader(database), Totals(database)
        self._end = datetime.fromtimestamp(load.end_ns / 1e9, UTC) + timedelta(seconds=1)
        self._cursor = ""

    def questions(self) -> Mapping[str, tuple[Ask, float]]:
        return {
            "newest page": (self._page(), 100),
            "page by pid": (self._page("pid = 1001"), 100),
            "page by comm": (self._page(f"comm = '{COMMON}'"), 100),
            "page by name": (self._page("name = call_20"), 100),
            "page by machine": (self._page_of_machine, 100),
            "page by a rare comm": (self._page(f"comm = '{RARE}'"), 100),
            "page by an absent comm": (self._page("comm = nobody"), 100),
            "page by a pattern": (self._page("name ~ 'call_2*'"), 100),
            "page by a rare pid": (self._page("pid = 1030"), 100),
            f"page {_PAGES} by cursor": (self._deep, 100),
            "count a second over 1 h": (self._totals_of(hours=1, every="1s"), 100),
            "top 10 by name over 24 h, every 5 min": (self._totals_of(hours=24, every="5m", by=("name",)), 300),
            "top 10 by name over 24 h, with p99": (
                self._totals_of(hours=24, by=("name",), cells="count,p99(duration_ns)"),
                300,
            ),
            "top 10 by p99 over 24 h": (self._totals_of(hours=24, by=("name",), cells="p99(duration_ns)"), 300),
            "top 10 by comm of a machine over 24 h": (self._totals_of(hours=24, by=("comm",), machines=[1]), 300),
            "failed calls by name over 1 h, of rows": (self._totals_of(hours=1, by=("name",), where="ret < 0"), 300),
            "failed calls by name over 24 h, of rows": (self._totals_of(hours=24, by=("name",), where="ret < 0"), 300),
            "tasks": (lambda: self._fetch("tasks", task_id=None, state=None, group=None, most=100), 100),
            "books of 100 tasks": (self._books, 100),
            "states held": (self._held, 100),
            **answers.questions(self._database, self._tables, self._end),
        }

    async def after_commits(self, filler: Filler) -> Answered:
        """The newest page, while nobody has vacuumed what has just come."""
        took = []
        for _ in range(_AFTER_COMMITS):
            deliveries = filler.deliveries(self._load.fresh(GROUP))
            await asyncio.to_thread(filler.write, deliveries)
            took.append(await _timed(self._page()))
        return _judged("newest page after a commit", took, 100)

    def _page(self, where: str = "") -> Ask:
        condition = read_filter(where, self._table.types) if where else None
        return lambda: self._reader.page(EventQuery(self._table, condition, limit=_PAGE))

    async def _page_of_machine(self) -> object:
        return await self._reader.page(EventQuery(self._table, machines=[2], limit=_PAGE))

    async def _deep(self) -> object:
        if not self._cursor:
            for _ in range(_PAGES * _PAGE // MOST_ROWS):
                page = await self._reader.page(EventQuery(self._table, limit=MOST_ROWS, cursor=self._cursor))
                self._cursor = page.next or self._cursor
        return await self._reader.page(EventQuery(self._table, limit=_PAGE, cursor=self._cursor))

    def _totals_of(
        self,
        hours: int,
        *,
        every: Every | None = None,
        by: tuple[str, ...] = (),
        machines: list[int] | None = None,
        cells: str = "count",
        where: str = "",
    ) -> Ask:
        condition = read_filter(where, self._table.types) if where else None
        window = self._end - timedelta(hours=hours), self._end
        rows = Selection(self._table, condition, *window, machines=machines)
        question = asked(rows, cells=read_cells(cells, self._table), by=by, every=every, order="", top=10)
        return lambda: self._totals.groups(question)

    async def _held(self) -> object:
        return await self._states.largest(self._held_table, since=self._end - timedelta(days=1), limit=_PAGE)

    async def _fetch(self, name: str, **given: object) -> object:
        return await self._database.fetch(name, given)

    async def _books(self) -> object:
        tasks = await self._database.fetch("tasks", {"task_id": None, "state": None, "group": None, "most": 100})
        return await self._database.fetch("task_books", {"task_ids": [row["task_id"] for row in tasks]})


async def _measured(question: str, ask: Ask, goal_ms: float, repeats: int) -> Answered:
    await ask()
    await ask()
    return _judged(question, [await _timed(ask) for _ in range(repeats)], goal_ms)


async def _timed(ask: Ask) -> float:
    began = time.perf_counter()
    await ask()
    return (time.perf_counter() - began) * 1000


def _judged(question: str, took: list[float], goal_ms: float) -> Answered:
    p95 = statistics.quantiles(took, n=20, method="inclusive")[-1] if len(took) > 1 else took[0]
    return Answered(question, statistics.median(took), p95, goal_ms)

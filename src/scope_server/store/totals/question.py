"""A question for totals, checked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from scope_catalogue.nearest import unknown
from scope_server.errors import InvalidQuery
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import IN_PROCESS, OF_PROCESS, StreamTable
from scope_server.store.totals.cells import Cell, histogram_of

Every = Literal["1s", "5s", "15s", "1m", "5m", "15m", "1h", "6h", "1d"]
EVERY: dict[Every, int] = {
    "1s": 1,
    "5s": 5,
    "15s": 15,
    "1m": 60,
    "5m": 300,
    "15m": 900,
    "1h": 3600,
    "6h": 6 * 3600,
    "1d": 24 * 3600,
}  # seconds
MOST_GROUPS = 100
_MINUTE_S = 60
MACHINE = "machine"
_MOST_KEYS = 6
_MOST_POINTS = 2000
_MOST_BY_SECOND = 7200  # points
_MOST_IN_ALL = 200_000  # points of all groups
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Question:
    """Which rows, which groups, which steps, and what of each.

    Attributes:
        rows: with a begin and an end.
        every_s: the step of a series; None: only totals.
        by: columns whose values make a group, and `machine`.
        order: the cell that ranks the groups, the largest first.
    """

    rows: Selection
    cells: tuple[Cell, ...]
    by: tuple[str, ...]
    every_s: int | None
    order: Cell
    top: int

    @property
    def table(self) -> StreamTable:
        """Of the stream."""
        return self.rows.table

    @property
    def since(self) -> datetime:
        """The begin."""
        assert self.rows.since
        return self.rows.since

    @property
    def until(self) -> datetime:
        """The end."""
        assert self.rows.until
        return self.rows.until

    @property
    def seconds(self) -> float:
        """From begin to end."""
        return (self.until - self.since).total_seconds()

    @property
    def of_rollups(self) -> bool:
        """Whether rollups have the answer."""
        if self.rows.where or self.rows.task is not None or {*self.by} - {*self.table.rollup.by, MACHINE}:
            return False
        if self.within_minutes and ({*self.by} - {MACHINE} or any(not _by_second(cell) for cell in self.cells)):
            return False
        return all(_in_rollups(self.table, cell) for cell in self.cells)

    @property
    def within_minutes(self) -> bool:
        """Whether steps are shorter than the minutes of rollups, which have counts by second only."""
        return self.every_s is not None and self.every_s < _MINUTE_S

    @property
    def of_histograms(self) -> bool:
        """Whether a cell is a percentile of what the rows' histograms count."""
        return any(cell.word == "p" and cell.column == self.table.rollup.histogram for cell in self.cells)


def asked(
    rows: Selection, *, cells: Sequence[Cell], by: Sequence[str], every: Every | None, order: str, top: int
) -> Question:
    """The checked question. Its times are extended to whole steps or, without steps and if rollups have it, minutes.

    Args:
        order: the text of a cell; empty: the first.

    Raises:
        InvalidQuery: the question is not possible.
    """
    table = rows.table
    possible = [
        *([MACHINE] if MACHINE not in table.schema.names else []),
        *filter(table.is_of_process, (*IN_PROCESS, *OF_PROCESS)),
        *(column.name for column in table.columns if not column.sql.endswith("[]") and column.sql != "bytea"),
    ]
    if strange := [name for name in by if name not in possible]:
        raise InvalidQuery(unknown("column that makes groups", strange[0], possible), parameter="by")
    if len({*by}) < len(by) or len(by) > _MOST_KEYS:
        detail = f"more than {_MOST_KEYS} columns" if len(by) > _MOST_KEYS else "a column is given twice"
        raise InvalidQuery(detail, parameter="by")
    ranked = {cell.text: cell for cell in cells}
    first = order.replace(" ", "") or cells[0].text
    if first not in ranked:
        raise InvalidQuery(unknown("cell among those that are asked for", first, ranked), parameter="order")
    every_s = EVERY[every] if every else None
    question = Question(rows, tuple(cells), tuple(by), every_s, ranked[first], top)
    step_s = every_s or (_MINUTE_S if question.of_rollups else None)
    if step_s:
        begin, end = aligned(question.since, question.until, timedelta(seconds=step_s))
        question = replace(question, rows=replace(rows, since=begin, until=end))
    points = round(question.seconds / every_s) if every_s else 1
    most = min(_MOST_BY_SECOND if every_s == 1 else _MOST_POINTS, _MOST_IN_ALL // (top if by else 1))
    if points > most:
        longer = "use longer steps" if every_s != 24 * 3600 else "narrow it with since and until"
        raise InvalidQuery(f"{points} points are too many; the maximum is {most}, {longer}", parameter="every")
    return question


def aligned(since: datetime, until: datetime, step: timedelta) -> tuple[datetime, datetime]:
    """The times extended to whole steps, counted from 1970."""
    return _EPOCH + (since - _EPOCH) // step * step, _EPOCH + -(-(until - _EPOCH) // step) * step


def _by_second(cell: Cell) -> bool:
    return cell.word in ("count", "rate") and not cell.column


def _in_rollups(table: StreamTable, cell: Cell) -> bool:
    if not cell.column:
        return True
    measured = table.rollup.measured
    if cell.word == "p":
        return cell.column == (histogram_of(table, measured) or measured)
    return cell.word in ("sum", "mean") and cell.column == measured

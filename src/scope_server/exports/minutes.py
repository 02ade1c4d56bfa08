"""Totals of streams per minute, from rollups: each minute when it is over, and again if rows of it come later."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scope_server.errors import InvalidQuery
from scope_server.exports.contract import Kind, Measurement, Point, Portion, Skipped, Value
from scope_server.exports.series import Series
from scope_server.store.exports.minutes import MINUTE_S, Touched, totals, touched
from scope_server.store.reading.database import Database
from scope_server.store.schema.columns import StreamTable

_SETTLED_S = 30  # after its end, a minute has the rows of agents that are not late
_AT_A_TIME = 5  # minutes of a stream
_LARGEST = (1 << 63) - 1

Pending = dict[str, list[int]]


class Minutes:
    """The source of totals per minute.

    Args:
        most: different labels of a stream; see `Series`.
    """

    name, every_s = "minutes", 10.0

    def __init__(self, database: Database, tables: Mapping[str, StreamTable], most: int) -> None:
        self._database, self._tables, self._most, self._series = database, tables, most, Series(most)

    async def read(self, position: str) -> Portion:
        """See `Source`."""
        seen, pending = _read(position)
        async with self._database.snapshot() as connection:
            new = await touched(connection, sorted(self._tables), seen)
            due, wait = _divided(_joined(pending, new), new.now_s)
            for stream in [stream for stream in due if stream not in self._tables]:
                del due[stream]
            points: Sequence[Point] = ()
            if due:
                stream, minutes = next(iter(due.items()))
                taken = [minute for minute in minutes if minute < minutes[0] + _AT_A_TIME]
                table = self._tables[stream]
                rows = await totals(connection, table, taken[0], taken[-1], self._most)
                points = self._series.bounded(_points(table, [row for row in rows if row["minute"] in taken]))
                due[stream] = minutes[len(taken) :]
        left = _merged(due, wait)
        return Portion(points, _written(new.snapshot, left), any(due.values()))

    async def skip(self, position: str) -> Skipped:
        """See `Source`."""
        seen, pending = _read(position)
        async with self._database.snapshot() as connection:
            new = await touched(connection, sorted(self._tables), seen)
        due, wait = _divided(_joined(pending, new), new.now_s)
        return Skipped(_written(new.snapshot, wait), sum(map(len, due.values())))


def _points(table: StreamTable, rows: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    measured = table.rollup.measured
    column = table.described.by_name.get(measured) if measured else None
    of = Measurement(table.name, table.meaning, Kind.MINUTE, {"sum": column.unit} if column else {})
    for row in rows:
        labels = tuple((key, row[key]) for key in ("machine_id", "hostname", *table.rollup.by) if row[key] is not None)
        values: dict[str, Value] = {"count": _whole(row["count"])}
        values |= {"sum": _whole(row["sum"])} if measured else {}
        values |= {"failed": _whole(row["failed"])} if table.failures else {}
        begin_ns = row["minute"] * MINUTE_S * 10**9
        yield Point(of, labels, values, begin_ns + MINUTE_S * 10**9, begin_ns)


def _whole(value: Any) -> int:
    return min(int(value or 0), _LARGEST)


def _joined(pending: Pending, new: Touched) -> Pending:
    return _merged(pending, {stream: list(minutes) for stream, minutes in new.minutes.items()})


def _merged(one: Pending, other: Pending) -> Pending:
    both = {stream: sorted({*one.get(stream, ()), *other.get(stream, ())}) for stream in sorted({*one, *other})}
    return {stream: minutes for stream, minutes in both.items() if minutes}


def _divided(minutes: Pending, now_s: float) -> tuple[Pending, Pending]:
    """Those that are over, and those that are not. A minute that lies ahead is of a wrong clock, and waits for none."""
    last = int(now_s - _SETTLED_S) // MINUTE_S - 1
    waits = range(last + 1, int(now_s) // MINUTE_S + 1)
    due = {stream: [each for each in those if each not in waits] for stream, those in minutes.items()}
    wait = {stream: [each for each in those if each in waits] for stream, those in minutes.items()}
    return {stream: those for stream, those in due.items() if those}, wait


def _written(seen: str, pending: Pending) -> str:
    return json.dumps([seen, {stream: minutes for stream, minutes in pending.items() if minutes}])


def _read(position: str) -> tuple[str, Pending]:
    if not position:
        return "", {}
    try:
        seen, pending = json.loads(position)
        return str(seen), {str(stream): [int(each) for each in minutes] for stream, minutes in pending.items()}
    except (ValueError, TypeError, AttributeError):
        raise InvalidQuery("the position of an export cannot be read") from None

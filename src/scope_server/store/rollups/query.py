"""Queries of a rollup, checked, and their SQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from psycopg import sql

from scope_catalogue.nearest import unknown
from scope_server.errors import InvalidQuery
from scope_server.store.rollups.packed import EVERY_MACHINE, FRESH, HOURS, MINUTES
from scope_server.store.schema.columns import StreamTable

Every = Literal["1s", "1m", "5m", "15m", "1h", "6h", "1d"]
Ranked = Literal["count", "sum", "p99"]
ORDERS: tuple[Ranked, ...] = get_args(Ranked)
EVERY: dict[Every, int] = {
    "1s": 1,
    "1m": 60,
    "5m": 300,
    "15m": 900,
    "1h": 3600,
    "6h": 6 * 3600,
    "1d": 24 * 3600,
}  # seconds
MOST_GROUPS = 100
MACHINE = "machine"
_MOST_POINTS = 2000
_LONGEST_BY_SECOND = timedelta(hours=2)
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
_HOUR = 3600

# For the transaction of these queries. Compiling takes longer than they do. Without statistics, as at the begin of a
# day, PostgreSQL expects one group, and would add up all percentiles anew for each of many.
SETTINGS = "SET LOCAL jit = off; SET LOCAL enable_nestloop = off"


@dataclass(frozen=True)
class RollupQuery:
    """A query: the groups, the time range and the steps.

    Attributes:
        since, until: the time range, extended to whole steps or minutes.
        every_s: the step of a series; None: only totals.
        by: keys of the rollup, and `machine`.
        machines: keys of machines; None: all.
    """

    table: StreamTable
    since: datetime
    until: datetime
    every_s: int | None
    by: tuple[str, ...]
    machines: Sequence[int] | None
    order: str
    top: int

    @property
    def keys(self) -> tuple[str, ...]:
        """`by` without the machine."""
        return tuple(name for name in self.by if name != MACHINE)

    @property
    def of_machines(self) -> bool:
        """Whether the query distinguishes or selects machines."""
        return self.machines is not None or MACHINE in self.by


def checked(
    table: StreamTable,
    *,
    since: datetime | None,
    until: datetime | None,
    every: Every | None,
    by: Sequence[str],
    machines: Sequence[int] | None,
    order: Ranked,
    top: int,
) -> RollupQuery:
    """The checked query. Default of `until`: now; of `since`: an hour before `until`.

    Raises:
        InvalidQuery: the query is not possible.
    """
    keys = (*table.rollup.by, MACHINE)
    others = [name for name in by if name not in keys]
    if others:
        raise InvalidQuery(unknown(f"key of the rollup of {table.name}", others[0], keys), parameter="by")
    if len(set(by)) < len(by):
        raise InvalidQuery("a key is given twice", parameter="by")
    if order != "count" and not table.rollup.measured:
        raise InvalidQuery(f"{table.name} has no measured column; only order=count is possible", parameter="order")
    every_s = EVERY[every] if every else None
    end = until or datetime.now(UTC)
    begin = since or max(end - timedelta(hours=1), _EARLIEST) if end >= _EARLIEST else end
    if not _EARLIEST <= begin < end <= _LATEST:
        raise InvalidQuery("it must be before until, both from 1970 to 2200", parameter="since")
    if every_s == 1 and (end - begin > _LONGEST_BY_SECOND or set(by) - {MACHINE} or order != "count"):
        raise InvalidQuery(
            "per second there are only counts, grouped by machine or not at all, for at most 2 hours", parameter="every"
        )
    step = min(every_s or 60, 24 * _HOUR)
    first, last = int((begin - _EARLIEST).total_seconds()) // step, -(-(end - _EARLIEST) // timedelta(seconds=step))
    if every_s and every_s > 1 and last - first > _MOST_POINTS:
        raise InvalidQuery(
            f"{last - first} points are too many; the maximum is {_MOST_POINTS}, use longer steps", parameter="every"
        )
    begin, end = (_EARLIEST + timedelta(seconds=step * number) for number in (first, last))
    return RollupQuery(table, begin, end, every_s, tuple(by), machines, order, top)


def ranking(query: RollupQuery) -> sql.Composed:
    """SQL of the top groups with their totals: keys k0, k1, ..., count, sum, failed, p50, p99."""
    every, names = sql.SQL("true"), _names(query)
    top = sql.SQL("ORDER BY {} DESC NULLS LAST, {} LIMIT {}").format(
        sql.Identifier(query.order), _comma(["count", *names]), sql.Literal(query.top)
    )
    if query.order == "p99" or not query.table.rollup.measured:
        return sql.SQL("{} {}").format(_totals(query, [], every), top)
    # Percentiles are ten times as much work as the rest: they are made of the top groups only.
    first = sql.SQL("({}) IN (SELECT {} FROM g)").format(_comma(names), _comma(names)) if names else every
    return sql.SQL("WITH g AS MATERIALIZED ({} {}) SELECT * FROM g LEFT JOIN ({}) AS q {} {}").format(
        _groups(query, [], every), top, _quantiles(query, [], first), _joined(names), top
    )


def series(query: RollupQuery, groups: Sequence[Sequence[int]]) -> sql.Composed:
    """SQL of the points of groups, given by the values of their keys in the order of `by`: `time`, then as in
    `ranking`.

    Percentiles are only included if the order uses them: they take ten times as long as the rest.
    """
    wanted: sql.Composable = sql.SQL("true")
    if query.by:
        tuples = sql.SQL(", ").join(
            sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, group))) for group in groups
        )
        names = _comma(_names(query))
        wanted = sql.SQL("({}) IN ({})").format(names, tuples) if groups else sql.SQL("false")
    return sql.SQL("{} ORDER BY time").format(_totals(query, ["time"], wanted))


def by_second(query: RollupQuery) -> sql.Composed:
    """SQL of the counts of all seconds with rows: `time`, k0 if grouped by machine, `count`."""
    second = sql.SQL("extract(epoch FROM r.hour)::bigint + r.first_second + u.place - 1")
    inner = sql.SQL(
        "SELECT r.machine, {second} AS second, u.counts FROM rollups.{table} AS r"
        " CROSS JOIN LATERAL unnest(r.per_second) WITH ORDINALITY AS u (counts, place) WHERE u.counts > 0 AND {rows}"
    ).format(second=second, table=sql.Identifier(query.table.name), rows=_hours(query, MINUTES, by_hours=False))
    key = sql.SQL("machine AS k0, " if query.by else "")
    return sql.SQL(
        "SELECT to_timestamp(second) AS time, {key}sum(counts)::bigint AS count FROM ({inner}) AS s"
        " WHERE second >= {since} AND second < {until} GROUP BY {groups}second ORDER BY second"
    ).format(
        key=key,
        inner=inner,
        since=sql.Literal(int(query.since.timestamp())),
        until=sql.Literal(int(query.until.timestamp())),
        groups=sql.SQL("machine, " if query.by else ""),
    )


def _totals(query: RollupQuery, time: list[str], wanted: sql.Composable) -> sql.Composed:
    groups = _groups(query, time, wanted)
    if not query.table.rollup.measured or (time and query.order != "p99"):
        return sql.SQL("SELECT *, NULL::float8 AS p50, NULL::float8 AS p99 FROM ({}) AS g").format(groups)
    quantiles = _quantiles(query, time, wanted)
    return sql.SQL("SELECT * FROM ({}) AS g LEFT JOIN ({}) AS q {}").format(
        groups, quantiles, _joined([*time, *_names(query)])
    )


def _joined(by: Sequence[str]) -> sql.Composable:
    return sql.SQL("USING ({})").format(_comma(by)) if by else sql.SQL("ON true")


def _groups(query: RollupQuery, time: list[str], wanted: sql.Composable) -> sql.Composed:
    by = [*time, *_names(query)]
    return sql.SQL(
        "SELECT {by}sum(counts)::bigint AS count, sum(sums) AS sum, sum(failed)::bigint AS failed"
        " FROM ({rows}) AS u WHERE {wanted} {grouped}"
    ).format(
        by=_led(by),
        rows=_unnested(query, time, ("counts", "sums", "failed"), ""),
        wanted=wanted,
        grouped=_grouped(by),
    )


def _grouped(by: Sequence[str]) -> sql.Composable:
    return sql.SQL("GROUP BY {}").format(_comma(by)) if by else sql.SQL("")


def _quantiles(query: RollupQuery, time: list[str], wanted: sql.Composable) -> sql.Composed:
    by = [*time, *_names(query)]
    return sql.SQL(
        "SELECT {by}{p50} AS p50, {p99} AS p99 FROM ("
        " SELECT {by}bucket, count, sum(count) OVER ({part}) AS total,"
        " coalesce(sum(count) OVER ({part} ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)"
        " AS below FROM (SELECT {by}bucket, sum(counts) AS count FROM ({rows}) AS u WHERE {wanted}"
        " GROUP BY {by}bucket) AS b) AS w {grouped}"
    ).format(
        by=_led(by),
        p50=_quantile(0.5),
        p99=_quantile(0.99),
        part=sql.SQL("PARTITION BY {}").format(_comma(by)) if by else sql.SQL(""),
        rows=_unnested(query, time, ("bucket", "counts"), "bucket_"),
        wanted=wanted,
        grouped=_grouped(by),
    )


def _quantile(share: float) -> sql.Composed:
    # The bucket of the quantile, and the position in it, assuming evenly spread values.
    wanted = sql.SQL("{} * total").format(sql.Literal(share))
    return sql.SQL(
        "max(CASE WHEN below < {w} AND below + count >= {w}"
        " THEN power(2, bucket) * (1 + (({w}) - below) / count)::float8 END)"
    ).format(w=wanted)


def _unnested(query: RollupQuery, time: list[str], values: Sequence[str], prefix: str) -> sql.Composed:
    # Groups or, with the prefix, their buckets; whole hours come from rows per hour, if the steps allow it.
    by_hours = not time or (query.every_s or 0) >= _HOUR
    keys = [sql.Identifier(f"{prefix}{name}") for name in query.keys]
    own = {"bucket": "buckets", "counts": f"{prefix}counts"}
    arrays = [sql.SQL("r.{}").format(one) for one in (*keys, *(sql.Identifier(own.get(name, name)) for name in values))]
    minutes = sql.SQL("r.{}").format(sql.Identifier(f"{prefix}minutes"))
    named = [*(f"a{number}" for number in range(len(keys))), *values]
    shown = [
        sql.SQL("r.machine AS {}").format(sql.Identifier(name))
        if of == MACHINE
        else sql.SQL("coalesce(u.{}, 0) AS {}").format(sql.Identifier(f"a{query.keys.index(of)}"), sql.Identifier(name))
        for name, of in zip(_names(query), query.by, strict=True)
    ]
    shown += [sql.SQL("u.{}").format(sql.Identifier(name)) for name in values]

    def part(whole: bool) -> sql.Composed:
        at = sql.SQL("extract(epoch FROM r.hour)::bigint" + ("" if whole else " + u.minute * 60"))
        step = sql.Literal(query.every_s or 60)
        binned = [sql.SQL("to_timestamp({at} - ({at}) % {step}) AS time").format(at=at, step=step)] if time else []
        first, last = int(query.since.timestamp()), int(query.until.timestamp())
        within = sql.SQL("" if whole else " AND {at} >= {first} AND {at} < {last}").format(
            at=at, first=sql.Literal(first), last=sql.Literal(last)
        )
        return sql.SQL(
            "SELECT {shown} FROM rollups.{table} AS r CROSS JOIN LATERAL unnest({arrays}) AS u ({names})"
            " WHERE {rows}{within}"
        ).format(
            shown=sql.SQL(", ").join([*binned, *shown]),
            table=sql.Identifier(query.table.name),
            arrays=sql.SQL(", ").join(arrays if whole else [minutes, *arrays]),
            names=_comma(named if whole else ["minute", *named]),
            rows=_hours(query, HOURS if whole else MINUTES, by_hours),
            within=within,
        )

    if not by_hours:
        return part(whole=False)
    return sql.SQL("{} UNION ALL {}").format(part(whole=True), part(whole=False))


def _hours(query: RollupQuery, level: int, by_hours: bool) -> sql.Composed:
    # Conditions on rows: of level HOURS, those fully in the time range; of the others, those cut by it, or all.
    first, last = int(query.since.timestamp()), int(query.until.timestamp())
    begin, end = -(-first // _HOUR), last // _HOUR
    touched = sql.SQL("r.hour >= {} AND r.hour < {}").format(*map(_moment, (first // _HOUR, -(-last // _HOUR))))
    if level == HOURS:
        hours = sql.SQL("r.hour >= {} AND r.hour < {}").format(_moment(begin), _moment(max(begin, end)))
    elif by_hours and begin < end:
        hours = sql.SQL("{} AND (r.hour < {} OR r.hour >= {})").format(touched, _moment(begin), _moment(end))
    else:
        hours = touched
    whose = sql.SQL("(r.level = {} OR r.level = {} AND r.machine {} {})").format(
        FRESH, level, sql.SQL("<>" if query.of_machines else "="), EVERY_MACHINE
    )
    if query.machines is not None:
        whose = sql.SQL("{} AND r.machine = ANY({})").format(whose, sql.Literal(list(query.machines)))
    return sql.SQL("{} AND {}").format(hours, whose)


def _moment(hour: int) -> sql.Literal:
    return sql.Literal(_EARLIEST + timedelta(hours=hour))


def _names(query: RollupQuery) -> list[str]:
    return [f"k{number}" for number in range(len(query.by))]


def _comma(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _led(names: Sequence[str]) -> sql.Composed:
    return sql.Composed([sql.SQL("{}, ").format(sql.Identifier(name)) for name in names])

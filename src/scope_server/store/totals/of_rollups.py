"""SQL that answers questions from rollups."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from psycopg import sql

from scope_server.store.rollups.packed import BARE, EVERY_MACHINE, FRESH, HOURS, MINUTES
from scope_server.store.totals.cells import Cell
from scope_server.store.totals.question import MACHINE, Question

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = 3600

# For the transaction of these queries. Compiling takes longer than they do. Without statistics, as at the begin of a
# day, PostgreSQL expects one group, and would add up all percentiles anew for each of many.
SETTINGS = "SET LOCAL jit = off; SET LOCAL enable_nestloop = off"
# For `distribution`, besides. PostgreSQL does not know how long arrays are, and would sort a million values on the disk
# that a hash table adds up to some thousand.
HASHED = "SET LOCAL enable_sort = off"


def ranking(question: Question) -> sql.Composed:
    """SQL of the top groups: keys k0, k1, ..., and the cells c0, c1, ..."""
    every, names = sql.SQL("true"), _names(question)
    order = question.order
    if _of_buckets(question, order) or not _buckets_needed(question):
        totals = _totals(question, [], every)
        return sql.SQL("SELECT {} FROM ({}) AS t {}").format(_shown(question, question.seconds), totals, _top(question))
    # Percentiles are ten times as much work as the rest: they are made of the top groups only.
    first = sql.SQL("({}) IN (SELECT {} FROM g)").format(_comma(names), _comma(names)) if names else every
    return sql.SQL("WITH g AS MATERIALIZED ({} {}) SELECT {} FROM g LEFT JOIN ({}) AS q {} {}").format(
        _groups(question, [], every),
        _top(question),
        _shown(question, question.seconds),
        _buckets(question, [], first),
        _joined(names),
        _top(question),
    )


def series(question: Question, groups: Sequence[Sequence[int]]) -> sql.Composed:
    """SQL of the points of groups, given by the values of their keys in the order of `by`: `time`, then as in
    `ranking`.
    """
    wanted: sql.Composable = sql.SQL("true")
    if question.by:
        tuples = sql.SQL(", ").join(
            sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, group))) for group in groups
        )
        names = _comma(_names(question))
        wanted = sql.SQL("({}) IN ({})").format(names, tuples) if groups else sql.SQL("false")
    return sql.SQL("SELECT {}, {} FROM ({}) AS t ORDER BY time").format(
        _time(question), _shown(question, question.every_s or 1), _totals(question, ["step"], wanted)
    )


def by_second(question: Question) -> sql.Composed:
    """SQL of the counts of all steps of seconds with rows: `time`, k0 if grouped by machine, `count`."""
    second = sql.SQL("extract(epoch FROM r.hour)::bigint + r.first_second + u.place - 1")
    inner = sql.SQL(
        "SELECT r.machine, {second} AS second, u.counts FROM rollups.{table} AS r"
        " CROSS JOIN LATERAL unnest(r.per_second) WITH ORDINALITY AS u (counts, place) WHERE u.counts > 0 AND {rows}"
    ).format(second=second, table=sql.Identifier(question.table.name), rows=_hours(question, MINUTES, by_hours=False))
    key = sql.SQL("machine AS k0, " if question.by else "")
    return sql.SQL(
        "SELECT to_timestamp(second / {step} * {step}) AS time, {key}sum(counts)::bigint AS count FROM ({inner}) AS s"
        " WHERE second >= {since} AND second < {until} GROUP BY {groups}1 ORDER BY 1"
    ).format(
        step=sql.Literal(question.every_s or 1),
        key=key,
        inner=inner,
        since=sql.Literal(int(question.since.timestamp())),
        until=sql.Literal(int(question.until.timestamp())),
        groups=sql.SQL("machine, " if question.by else ""),
    )


def distribution(question: Question) -> sql.Composed:
    """SQL of the measured column's histogram in each step: `time`, `bucket`, `count`."""
    return sql.SQL("SELECT {}, bucket, sum(counts)::bigint AS count FROM ({}) AS u GROUP BY step, bucket").format(
        _time(question), _unnested(question, ["step"], ("bucket", "counts"), "bucket_")
    )


def _time(question: Question) -> sql.Composed:
    """The begin of a step, whose number `_unnested` gives: once a group, since it takes long for each row."""
    return sql.SQL("to_timestamp(step * {}) AS time").format(sql.Literal(question.every_s or 60))


def _buckets_needed(question: Question) -> bool:
    return any(_of_buckets(question, cell) for cell in question.cells)


def _of_buckets(question: Question, cell: Cell) -> bool:
    """Whether a cell needs the histograms: the mean of events is of those that have a value."""
    return cell.word == "p" or (cell.word == "mean" and not question.table.rollup.count)


def _shown(question: Question, seconds: float) -> sql.Composed:
    """The keys and cells, from the columns of `_totals`."""
    cells = [
        sql.SQL("{} AS {}").format(_cell(question, number, seconds), sql.Identifier(f"c{number}"))
        for number in range(len(question.cells))
    ]
    return sql.SQL("{}{}").format(_led(_names(question)), sql.SQL(", ").join(cells))


def _cell(question: Question, number: int, seconds: float) -> sql.Composable:
    cell = question.cells[number]
    if cell.word == "p":
        return sql.Identifier(f"q{number}")
    if cell.word == "rate":
        return sql.SQL("count / {}::float8").format(sql.Literal(seconds))
    if cell.word == "mean":
        of = sql.SQL("valued" if _of_buckets(question, cell) else "count")
        return sql.SQL("(sum / NULLIF({}, 0))::float8").format(of)
    return sql.Identifier(cell.word)


def _top(question: Question) -> sql.Composed:
    order = _cell(question, question.cells.index(question.order), 1.0)
    return sql.SQL("ORDER BY {} DESC NULLS LAST, {} LIMIT {}").format(
        order, _comma(["count", *_names(question)]), sql.Literal(question.top)
    )


def _totals(question: Question, time: list[str], wanted: sql.Composable) -> sql.Composed:
    groups = _groups(question, time, wanted)
    if not _buckets_needed(question):
        return groups
    return sql.SQL("SELECT * FROM ({}) AS g LEFT JOIN ({}) AS q {}").format(
        groups, _buckets(question, time, wanted), _joined([*time, *_names(question)])
    )


def _joined(by: Sequence[str]) -> sql.Composable:
    return sql.SQL("USING ({})").format(_comma(by)) if by else sql.SQL("ON true")


def _groups(question: Question, time: list[str], wanted: sql.Composable) -> sql.Composed:
    by = [*time, *_names(question)]
    return sql.SQL(
        "SELECT {by}sum(counts)::bigint AS count, sum(sums) AS sum, sum(failed)::bigint AS failed"
        " FROM ({rows}) AS u WHERE {wanted} {grouped}"
    ).format(
        by=_led(by),
        rows=_unnested(question, time, ("counts", "sums", "failed"), ""),
        wanted=wanted,
        grouped=_grouped(by),
    )


def _grouped(by: Sequence[str]) -> sql.Composable:
    # Without groups, no row if nothing was counted.
    return sql.SQL("GROUP BY {}").format(_comma(by)) if by else sql.SQL("HAVING count(*) > 0")


def _buckets(question: Question, time: list[str], wanted: sql.Composable) -> sql.Composed:
    """Of each group, how many values there are, as `valued`, and the percentiles of cells, as q0, q1, ..."""
    by = [*time, *_names(question)]
    quantiles = [
        sql.SQL(", {} AS {}").format(_quantile(cell.share), sql.Identifier(f"q{number}"))
        for number, cell in enumerate(question.cells)
        if cell.word == "p"
    ]
    return sql.SQL(
        "SELECT {by}max(total) AS valued{quantiles} FROM ("
        " SELECT {by}bucket, count, sum(count) OVER ({part}) AS total,"
        " coalesce(sum(count) OVER ({part} ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)"
        " AS below FROM (SELECT {by}bucket, sum(counts) AS count FROM ({rows}) AS u WHERE {wanted}"
        " GROUP BY {by}bucket) AS b) AS w {grouped}"
    ).format(
        by=_led(by),
        quantiles=sql.Composed(quantiles),
        part=sql.SQL("PARTITION BY {}").format(_comma(by)) if by else sql.SQL(""),
        rows=_unnested(question, time, ("bucket", "counts"), "bucket_"),
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


def _unnested(question: Question, time: list[str], values: Sequence[str], prefix: str) -> sql.Composed:
    # Groups or, with the prefix, their buckets; whole hours come from rows per hour, if the steps allow it. OFFSET 0
    # has `begun` computed for each row, not for each of its thousands of groups, which takes as long as all the rest;
    # and unnest() after SELECT gives values one by one, while after FROM it would write those of a row to memory first.
    by_hours = not time or (question.every_s or 0) >= _HOUR
    named_keys = [name for name in question.by if name != MACHINE]
    keys = [sql.Identifier(f"{prefix}{name}") for name in named_keys]
    own = {"bucket": "buckets", "counts": f"{prefix}counts"}
    arrays = [sql.SQL("r.{}").format(one) for one in (*keys, *(sql.Identifier(own.get(name, name)) for name in values))]
    minutes = sql.SQL("r.{}").format(sql.Identifier(f"{prefix}minutes"))
    named = [*(f"a{number}" for number in range(len(named_keys))), *values]
    shown = [
        sql.SQL("u.machine AS {}").format(sql.Identifier(name))
        if of == MACHINE
        else sql.SQL("coalesce(u.{}, 0) AS {}").format(sql.Identifier(f"a{named_keys.index(of)}"), sql.Identifier(name))
        for name, of in zip(_names(question), question.by, strict=True)
    ]
    shown += [sql.SQL("u.{}").format(sql.Identifier(name)) for name in values]

    def part(whole: bool) -> sql.Composed:
        at = sql.SQL("u.begun" if whole else "(u.begun + u.minute * 60)")
        step = sql.Literal(question.every_s or 60)
        binned = [sql.SQL("{at} / {step} AS step").format(at=at, step=step)] if time else []
        first, last = int(question.since.timestamp()), int(question.until.timestamp())
        within = sql.SQL("" if whole else " WHERE {at} >= {first} AND {at} < {last}").format(
            at=at, first=sql.Literal(first), last=sql.Literal(last)
        )
        columns = zip(named, arrays, strict=True) if whole else zip(["minute", *named], [minutes, *arrays], strict=True)
        unnested = [sql.SQL("unnest({}) AS {}").format(array, sql.Identifier(name)) for name, array in columns]
        return sql.SQL(
            "SELECT {shown} FROM (SELECT r.machine, r.begun, {unnested}"
            " FROM (SELECT *, extract(epoch FROM hour)::bigint AS begun FROM rollups.{table} AS r"
            " WHERE {rows} OFFSET 0) AS r) AS u{within}"
        ).format(
            shown=sql.SQL(", ").join([*binned, *shown]),
            unnested=sql.SQL(", ").join(unnested),
            table=sql.Identifier(question.table.name),
            rows=_hours(question, HOURS if whole else MINUTES if named_keys else BARE, by_hours),
            within=within,
        )

    if not by_hours:
        return part(whole=False)
    return sql.SQL("{} UNION ALL {}").format(part(whole=True), part(whole=False))


def _hours(question: Question, level: int, by_hours: bool) -> sql.Composed:
    # Conditions on rows: of level HOURS, those fully in the time range; of the others, those cut by it, or all.
    first, last = int(question.since.timestamp()), int(question.until.timestamp())
    begin, end = -(-first // _HOUR), last // _HOUR
    touched = sql.SQL("r.hour >= {} AND r.hour < {}").format(*map(_moment, (first // _HOUR, -(-last // _HOUR))))
    if level == HOURS:
        hours = sql.SQL("r.hour >= {} AND r.hour < {}").format(_moment(begin), _moment(max(begin, end)))
    elif by_hours and begin < end:
        hours = sql.SQL("{} AND (r.hour < {} OR r.hour >= {})").format(touched, _moment(begin), _moment(end))
    else:
        hours = touched
    machines = question.rows.machines
    of_machines = machines is not None or MACHINE in question.by
    whose = sql.SQL("(r.level = {} OR r.level = {} AND r.machine {} {})").format(
        FRESH, level, sql.SQL("<>" if of_machines else "="), EVERY_MACHINE
    )
    if machines is not None:
        whose = sql.SQL("{} AND r.machine = ANY({})").format(whose, sql.Literal(list(machines)))
    return sql.SQL("{} AND {}").format(hours, whose)


def _moment(hour: int) -> sql.Literal:
    return sql.Literal(_EPOCH + timedelta(hours=hour))


def _names(question: Question) -> list[str]:
    return [f"k{number}" for number in range(len(question.by))]


def _comma(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _led(names: Sequence[str]) -> sql.Composed:
    return sql.Composed([sql.SQL("{}, ").format(sql.Identifier(name)) for name in names])

"""SQL that answers questions from rows, each of which is read once."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
from psycopg import sql

from scope_catalogue.condition import columns_read
from scope_server.store.reading.filters import Conditions, of_numbers
from scope_server.store.reading.keys import SHOWN
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import Kind, StreamTable
from scope_server.store.totals.cells import Cell, histogram_of, is_whole
from scope_server.store.totals.question import MACHINE, Question

# For the transaction of these queries: compiling takes longer than the rest.
SETTINGS = "SET LOCAL jit = off; SET LOCAL work_mem = '64MB'"
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")
_LARGEST = (1 << 63) - 1  # larger values of 64 bits count as this, as in rollups
_BUCKETS = 63


def groups(question: Question, found: Conditions) -> sql.Composed:
    """SQL of the top groups and, with steps, their points: keys k0, k1, ..., cells c0, c1, ..., `time` (null: the
    group's total), and the group's `place`, in order of the places and times.
    """
    names = [f"k{number}" for number in range(len(question.by))]
    keys, time = _comma(names), sql.SQL("time, " if question.every_s else "")
    sets = f"(({{k}}), ({{k}}{', ' if names else ''}time))" if question.every_s else "(({k}))"
    cells = [_cell(question, cell, number) for number, cell in enumerate(question.cells)]
    shown = [_told(question, number) for number in range(len(question.cells))]
    led = _led(names)
    # Places by windows: a join of groups with the top ones is done by comparing each with each, because PostgreSQL
    # expects one row of blocks.
    return sql.SQL(
        "WITH a AS (SELECT {led}{time}{whole} AS whole, count(*) AS n, {cells} FROM ({rows}) AS e"
        " GROUP BY GROUPING SETS {sets}),"
        " s AS (SELECT {led}{time}whole, n, {shown} FROM a WHERE n > 0),"
        " t AS (SELECT *, first_value({order}) OVER its AS rank, first_value(n) OVER its AS all_n FROM s"
        " WINDOW its AS ({each}ORDER BY whole DESC)),"
        " p AS (SELECT *, dense_rank() OVER (ORDER BY rank DESC NULLS LAST, all_n DESC{then}) AS place FROM t)"
        " SELECT {led}{of_time} AS time, {values}, place FROM p WHERE place <= {top} ORDER BY place, whole DESC, time"
    ).format(
        led=led,
        time=time,
        whole=sql.SQL("GROUPING(time)" if question.every_s else "1"),
        cells=sql.SQL(", ").join(cells),
        rows=_read(question, found),
        sets=sql.SQL(sets).format(k=keys),
        shown=sql.SQL(", ").join(shown),
        order=_c(question.cells.index(question.order)),
        each=sql.SQL("PARTITION BY {} ").format(keys) if names else sql.SQL(""),
        then=sql.SQL(", {}").format(keys) if names else sql.SQL(""),
        top=sql.Literal(question.top),
        of_time=sql.SQL("time" if question.every_s else "NULL::timestamptz"),
        values=sql.SQL(", ").join(_c(number) for number in range(len(question.cells))),
    )


def distribution(wanted: Selection, found: Conditions, column: str, step: timedelta) -> sql.Composed:
    """SQL of a column's histogram by powers of two in each step, counted from 1970: `time`, `bucket`, `count`."""
    table = wanted.table
    binned = sql.SQL("date_bin({}, r.time, {}) AS time").format(sql.Literal(step), sql.Literal(_EPOCH))
    if histogram := histogram_of(table, column):
        sums = [sql.SQL("sum(h[{}] * n)").format(place) for place in _places(table)]
        # Rows of a step have often the same counts: only different histograms are opened (OFFSET 0: each once). And
        # their buckets are added up where they lie: most are 0, and each would be a row.
        return sql.SQL(
            "SELECT time, (u.place - 1)::int AS bucket, u.count::bigint AS count FROM ("
            "SELECT time, ARRAY[{sums}] AS counts FROM (SELECT time, n, h::bigint[] AS h FROM ("
            "SELECT {binned}, r.{histogram} AS h, count(*) AS n FROM ({rows}) AS r GROUP BY 1, 2) AS d OFFSET 0) AS e"
            " GROUP BY time) AS s CROSS JOIN LATERAL unnest(counts) WITH ORDINALITY AS u (count, place)"
            " WHERE u.count > 0"
        ).format(
            sums=sql.SQL(", ").join(sums),
            binned=binned,
            histogram=sql.Identifier(histogram),
            rows=_stored(wanted, found, ("time", histogram), as_stored=(histogram,)),
        )
    value = _value(table, column)
    powers = sql.SQL("{}::bigint[]").format(sql.Literal([1 << bucket for bucket in range(_BUCKETS)]))
    whole = value if is_whole(table, column) else sql.SQL("least(greatest({}, 0), 9e18)").format(value)
    return sql.SQL(
        "SELECT time, bucket, count(*) AS count FROM (SELECT {},"
        " width_bucket(greatest({}, 1)::bigint, {}) - 1 AS bucket FROM ({}) AS r WHERE {} IS NOT NULL) AS e"
        " GROUP BY time, bucket"
    ).format(binned, whole, powers, _stored(wanted, found, ("time", column)), value)


def _places(table: StreamTable) -> Sequence[sql.Literal]:
    """The places of buckets in a histogram of the stream's rows."""
    lists = table.schema.field(table.rollup.histogram).type
    length = min(lists.list_size, _BUCKETS) if pa.types.is_fixed_size_list(lists) else _BUCKETS
    return [sql.Literal(place) for place in range(1, length + 1)]


def _stored(
    wanted: Selection, found: Conditions, read: Collection[str], as_stored: Collection[str] = ()
) -> sql.Composed:
    """These columns of a selection's rows as they are stored, of those rows that the stream's totals are of."""
    table = wanted.table
    of_rows, of_blocks = table.layout.within(
        *(sql.Literal(time) if time else None for time in (wanted.since, wanted.until))
    )
    where = [*found.rows, *of_rows, *([of_numbers(table, table.added_up)] if table.added_up else [])]
    blocks = [*found.blocks, *of_blocks]
    return table.layout.rows(table.name, table.records, where, blocks, as_stored=as_stored, only=read)


def _read(question: Question, found: Conditions) -> sql.Composed:
    """The rows with what is read of them: keys k0, k1, ..., `time` of their step, and columns."""
    table = question.table
    shown = [
        sql.SQL("{} AS {}").format(_key(table, name), sql.Identifier(f"k{number}"))
        for number, name in enumerate(question.by)
    ]
    if question.every_s:
        step = sql.Literal(timedelta(seconds=question.every_s))
        shown.append(sql.SQL("date_bin({}, r.time, {}) AS time").format(step, sql.Literal(_EPOCH)))
    values = _columns(question)
    shown += [sql.SQL("{} AS {}").format(_value(table, name), sql.Identifier(f"v {name}")) for name in values]
    read = {"time", "machine", "process", *values, *(name for name in question.by if not table.is_of_process(name))}
    if table.failed and _has_failed(question):
        shown.append(sql.SQL('{} AS "has failed"').format(of_numbers(table, table.failed)))
        read |= columns_read(table.failed)
    of_process = any(map(table.is_of_process, question.by))
    process = sql.SQL(" LEFT JOIN store.processes AS p ON p.id = r.process" if of_process else "")
    return sql.SQL("SELECT {} FROM ({}) AS r{}").format(
        sql.SQL(", ").join(shown) if shown else sql.SQL("1"), _stored(question.rows, found, read), process
    )


def _columns(question: Question) -> Sequence[str]:
    """The columns that the cells read."""
    rollup = question.table.rollup
    read = {name for cell in question.cells for name in (cell.column, cell.over)}
    counted = any(cell.word in ("count", "rate", "mean") for cell in question.cells)
    read |= {rollup.count if counted else "", question.table.described.failures if _has_failed(question) else ""}
    return sorted(read - {""})


def _has_failed(question: Question) -> bool:
    return any(cell.word == "failed" for cell in question.cells)


def _key(table: StreamTable, name: str) -> sql.Composable:
    if table.is_of_process(name):
        return SHOWN[name].text
    if name == MACHINE and table.column(name) is None:
        return sql.SQL("r.machine")
    return sql.Identifier("r", name)


def _value(table: StreamTable, name: str) -> sql.Composable:
    column, value = table.column(name), sql.Identifier("r", name)
    assert column
    if column.kind is Kind.UNSIGNED:
        return sql.SQL("CASE WHEN {v} < 0 THEN {most} ELSE {v} END").format(v=value, most=sql.Literal(_LARGEST))
    return sql.SQL("{}::int").format(value) if column.sql == "boolean" else value


def _cell(question: Question, cell: Cell, number: int) -> sql.Composed:  # noqa: PLR0911  # one return for each word
    table, name = question.table, _c(number)
    value, over = sql.Identifier("e", f"v {cell.column}"), sql.Identifier("e", f"v {cell.over}")
    count = _counted(table.rollup.count)
    match cell.word:
        case "count":
            return sql.SQL("{} AS {}").format(count, name)
        case "failed":
            failed = (
                _counted(table.described.failures)
                if table.described.failures
                else sql.SQL('count(*) FILTER (WHERE e."has failed")')
            )
            return sql.SQL("{} AS {}").format(failed, name)
        case "rate" if cell.over:
            return sql.SQL("(sum({})::float8 * 1e9 / NULLIF(sum({}), 0)::float8) AS {}").format(value, over, name)
        case "rate":
            length = sql.SQL("{}::float8").format(sql.Literal(question.seconds))
            if question.every_s:
                step = sql.Literal(float(question.every_s))
                length = sql.SQL("CASE WHEN GROUPING(time) = 1 THEN {} ELSE {}::float8 END").format(length, step)
            return sql.SQL("({} / {}) AS {}").format(count, length, name)
        case "mean" if table.rollup.count and cell.column == table.rollup.measured:
            return sql.SQL("(sum({}) / NULLIF({}, 0))::float8 AS {}").format(value, count, name)
        case "mean":
            return sql.SQL("avg({})::float8 AS {}").format(value, name)
        case "p" if cell.column == table.rollup.histogram:
            sums = [sql.SQL("coalesce(sum(({})[{}]), 0)::bigint").format(value, place) for place in _places(table)]
            return sql.SQL("ARRAY[{}] AS {}").format(sql.SQL(", ").join(sums), name)
        case "p":
            share = sql.Literal(cell.share)
            return sql.SQL("percentile_disc({}) WITHIN GROUP (ORDER BY {}) AS {}").format(share, value, name)
        case _:
            return sql.SQL("{}({}) AS {}").format(sql.SQL(cell.word), value, name)


def _counted(column: str) -> sql.Composable:
    if not column:
        return sql.SQL("count(*)")
    return sql.SQL("coalesce(sum(greatest({}, 0)), 0)::bigint").format(sql.Identifier("e", f"v {column}"))


def _told(question: Question, number: int) -> sql.Composed:
    """A cell's value: of a histogram's sums, the percentile."""
    cell = question.cells[number]
    if cell.word != "p" or cell.column != question.table.rollup.histogram:
        return sql.SQL("{c} AS {c}").format(c=_c(number))
    return sql.SQL(
        "(SELECT scope.percentile({}, 1::bigint << (u.place - 1)::int, u.count)"
        " FROM unnest({c}) WITH ORDINALITY AS u (count, place)) AS {c}"
    ).format(sql.Literal(cell.share), c=_c(number))


def _c(number: int) -> sql.Identifier:
    return sql.Identifier(f"c{number}")


def _comma(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _led(names: Sequence[str]) -> sql.Composed:
    return sql.Composed([sql.SQL("{}, ").format(sql.Identifier(name)) for name in names])

"""The stacks of a selection's rows, added up in the database by their keys; texts are found for the distinct ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg import sql

from scope_catalogue.condition import And
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.shown import Flame
from scope_catalogue.where import read_filter
from scope_server.errors import InvalidQuery
from scope_server.store.answers.part import Part, part_of
from scope_server.store.answers.side import conditions_of
from scope_server.store.answers.texts import frames, names
from scope_server.store.reading.database import Connection
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import IN_PROCESS, WHOLE, Kind, StreamTable
from scope_views.flames.tree import OTHER, Stacks

MOST_ROWS = 2_000_000  # that are read of a side
MOST_STACKS = 50_000  # distinct ones, the heaviest; the rest is one frame
COUNT = "count"
SETTINGS = "SET LOCAL jit = off; SET LOCAL work_mem = '64MB'"  # compiling takes longer than these queries

# The planner expects a handful of rows from a block's arrays, and would sort them all to group them.
_HASHED = "SET LOCAL enable_sort = off"


@dataclass(frozen=True)
class Drawn:
    """How a flame graph is made of a stream's rows.

    Attributes:
        column: of stacks.
        weight: the column that is added up; empty: rows are counted.
        flame: which columns are the frames around a stack and below it.
    """

    column: str
    weight: str
    flame: Flame
    unit: str


@dataclass(frozen=True)
class Added:
    """The weights of a selection's distinct stacks, the heaviest ones first.

    Attributes:
        samples: the rows that have a stack, or of summaries, what they count.
        part: what was read.
    """

    samples: int
    part: Part
    _left: int  # weight of the stacks that are too many
    _rows: Sequence[Any]
    _outer: Sequence[tuple[str, bool]]
    _inner: Sequence[tuple[str, bool]]
    _column: str
    _names: Mapping[int, str]
    _stacks: Mapping[int, Sequence[int]]
    _frames: Mapping[int, str]

    def add_to(self, stacks: Stacks, side: int = 0) -> None:
        """Adds them to the stacks of a flame graph."""
        functions = {key: stacks.frame(text) for key, text in self._frames.items()}
        within = {key: tuple(functions[frame] for frame in its) for key, its in self._stacks.items()}

        def around(row: Any, columns: Sequence[tuple[str, bool]]) -> tuple[int, ...]:
            each = ((name, self._names.get(row[name], "") if of_names else row[name]) for name, of_names in columns)
            return tuple(stacks.frame(str(text), name) for name, text in each if text not in (None, ""))

        for row in self._rows:
            frames = (*around(row, self._outer), *within.get(row[self._column], ()), *around(row, self._inner))
            stacks.add(frames, row["its weight"], side)
        if self._left:
            stacks.add((stacks.frame(OTHER),), self._left, side)


def drawn(table: StreamTable, column: str | None, by: str | None) -> Drawn:
    """How the flame graph of a stream is made.

    Args:
        column: of stacks; None: the only one, or the first.
        by: `count`, or a column with a unit; None: as the stream says.

    Raises:
        InvalidQuery: the stream has no stacks, or no such column.
    """
    described = table.described
    stacked = [one.name for one in described.columns if one.stack]
    if not stacked:
        raise InvalidQuery(f"{table.name} has no stacks; streams of profile and span have", parameter="stream")
    if column is not None and column not in stacked:
        raise InvalidQuery(f"{table.name} has stacks in {', '.join(stacked)}", parameter="column")
    flame = described.shown.flame or Flame(by=("comm",) if table.column("comm") else ())
    measured = [name for name in measured_columns(table) if name != table.rollup.count]
    if by not in (None, COUNT, *measured):
        raise InvalidQuery(f"it is not one of {', '.join((COUNT, *measured))}", parameter="by")
    weight = table.rollup.count if by == COUNT else flame.weight if by is None else by
    _check(table, weight, flame.where)
    unit = described.by_name[weight].unit if weight else ""
    return Drawn(column or stacked[0], weight, flame, unit)


def _check(table: StreamTable, weight: str, where: str) -> None:
    """What an agent described may be wrong."""
    whole = {one.name for one in table.columns if one.kind in (Kind.PLAIN, Kind.UNSIGNED) and one.sql in WHOLE}
    try:
        if where:
            read_filter(where, table.types)
    except InvalidFilter as error:
        raise InvalidQuery(f"how {table.name} is drawn is not valid: {error}", parameter="stream") from None
    if weight and weight not in whole:
        raise InvalidQuery(f"how {table.name} is drawn is not valid: {weight} is no number", parameter="stream")


def measured_columns(table: StreamTable) -> list[str]:
    """The columns of whole numbers with a unit, which can be added up."""
    named = {one.name: one.unit for one in table.described.columns}
    return [
        one.name
        for one in table.columns
        if named.get(one.name) and one.sql in WHOLE and not one.name.endswith("start_ns") and one.name != "interval_ns"
    ]


async def add_up(connection: Connection, wanted: Selection, how: Drawn) -> Added:
    """Adds up the weights of a selection's stacks.

    Of a stream of states, the latest row of each state counts. Call it in a transaction with one snapshot.

    Raises:
        psycopg.Error: the database refused a query.
    """
    await connection.execute(f"{SETTINGS}; {_HASHED}")
    if how.flame.where:
        shown = read_filter(how.flame.where, wanted.table.types)
        wanted = replace(wanted, where=And((wanted.where, shown)) if wanted.where else shown)
    part = await part_of(connection, wanted.table, await conditions_of(connection, wanted), MOST_ROWS)
    outer, inner = (_keys(wanted.table, columns) for columns in (how.flame.by, how.flame.below))
    found = await (await connection.execute(_added_up(wanted, part, how, [*outer, *inner]))).fetchall()
    keyed = [name for name, of_names in (*outer, *inner) if of_names]
    texts = await names(connection, (row[name] for row in found for name in keyed if row[name] is not None))
    of_stacks, of_frames = await frames(connection, (row[how.column] for row in found))
    first = found[0] if found else {"all weight": 0, "all samples": 0}
    left = first["all weight"] - sum(row["its weight"] for row in found)
    return Added(first["all samples"], part, left, found, outer, inner, how.column, texts, of_stacks, of_frames)


def _keys(table: StreamTable, names: Sequence[str]) -> list[tuple[str, bool]]:
    """Columns, and whether their values are keys of names."""
    found = ((name, table.column(name)) for name in names)
    return [(name, one.kind is Kind.NAME) for name, one in found if one is not None]


def _added_up(wanted: Selection, part: Part, how: Drawn, around: Sequence[tuple[str, bool]]) -> sql.Composed:
    table = wanted.table
    own = dict.fromkeys([*(name for name, _ in around), how.column])
    every = table.layout.rows(table.name, table.records, part.conditions.rows, part.conditions.blocks)
    if table.latest:
        key = ["process", *(name for name in table.latest.key if name not in IN_PROCESS)]
        every = sql.SQL("SELECT DISTINCT ON ({k}) * FROM ({}) AS e ORDER BY {k}, ktime_ns DESC, batch, ordinal").format(
            every, k=_comma(key)
        )
    one: sql.Composable = sql.SQL("1")
    weight = sql.SQL("greatest({}, 0)").format(sql.Identifier(how.weight)) if how.weight else one
    samples = sql.SQL("greatest({}, 0)").format(sql.Identifier(table.rollup.count)) if table.rollup.count else one
    groups = sql.SQL(
        "SELECT {own}, coalesce(sum({weight}), 0)::bigint AS {w}, coalesce(sum({samples}), 0)::bigint AS {s}"
        " FROM ({every}) AS r WHERE {column} IS NOT NULL GROUP BY {own}"
    ).format(
        own=_comma(own),
        weight=weight,
        samples=samples,
        every=every,
        column=sql.Identifier(how.column),
        w=sql.Identifier("its weight"),
        s=sql.Identifier("its samples"),
    )
    return sql.SQL(
        'SELECT *, (sum("its weight") OVER ())::bigint AS "all weight",'
        ' (sum("its samples") OVER ())::bigint AS "all samples"'
        ' FROM ({}) AS g WHERE "its weight" <> 0 ORDER BY "its weight" DESC, {} LIMIT {}'
    ).format(groups, _comma(own), sql.Literal(MOST_STACKS))


def _comma(columns: Sequence[str] | dict[str, None]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))

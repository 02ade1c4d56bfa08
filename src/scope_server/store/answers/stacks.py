"""The stacks of a selection's rows, added up in the database by their keys; texts are found for the distinct ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from psycopg import sql
from psycopg.rows import tuple_row

from scope_catalogue.condition import And
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.shown import Flame
from scope_catalogue.where import read_filter
from scope_server.errors import InvalidQuery
from scope_server.store.answers.part import Part, part_of
from scope_server.store.answers.side import conditions_of
from scope_server.store.answers.texts import frames, texts_of
from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.reading.database import Connection
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import IN_PROCESS, WHOLE, Kind, StreamTable
from scope_views.flames.ragged import Ragged
from scope_views.flames.stacks import OTHER, Stacks

MOST_ROWS = 2_000_000  # that are read of a side
MOST_STACKS = 50_000  # distinct ones, the heaviest; the rest is one frame
COUNT = "count"
Around = tuple[str, Dimension | None]  # a column, and what its values are keys of
SETTINGS = "SET LOCAL jit = off; SET LOCAL work_mem = '64MB'"  # compiling takes longer than these queries

# No stream has columns of these names.
_WEIGHT, _SAMPLES, _ALL_WEIGHT, _ALL_SAMPLES = "its weight", "its samples", "all weight", "all samples"

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
    _columns: Mapping[str, Sequence[Any]]
    _outer: Sequence[Around]
    _inner: Sequence[Around]
    _column: str
    _texts: Mapping[int, str]
    _stacks: Mapping[int, Sequence[int]]
    _frames: Mapping[int, str]

    def add_to(self, stacks: Stacks, side: int = 0) -> None:
        """Adds them to the stacks of a flame graph."""
        functions = {key: stacks.frame(text) for key, text in self._frames.items()}
        within = Ragged.of([*([functions[frame] for frame in its] for its in self._stacks.values()), ()])
        place = {key: place for place, key in enumerate(self._stacks)}
        unknown = len(place)
        of_rows = within.take(np.array([place.get(key, unknown) for key in self._columns[self._column]], np.int64))
        outer, inner = ([self._around(stacks, *each) for each in columns] for columns in (self._outer, self._inner))
        stacks.add(Ragged.side_by_side([*outer, of_rows, *inner]), self._columns[_WEIGHT], side)
        if self._left:
            stacks.add([[stacks.frame(OTHER)]], [self._left], side)

    def _around(self, stacks: Stacks, name: str, dimension: Dimension | None) -> Ragged:
        """The frames that a column makes; what has no text makes none."""
        values = self._columns[name] if dimension else ["" if one is None else str(one) for one in self._columns[name]]
        texts = {one: self._texts.get(one, "") if dimension else one for one in {*values}}
        numbers = {one: stacks.frame(text, name) if text else -1 for one, text in texts.items()}
        return Ragged.of_one(np.array([numbers[one] for one in values], np.int64))


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
    query, named = _added_up(wanted, part, how, [*outer, *inner])
    rows = await (await connection.cursor(row_factory=tuple_row).execute(query)).fetchall()
    found = dict(zip(named, zip(*rows, strict=True) if rows else ((),) * len(named), strict=True))
    known: dict[int, str] = {}
    for name, dimension in (*outer, *inner):
        if dimension:
            known |= await texts_of(connection, dimension, (key for key in found[name] if key is not None))
    of_stacks, of_frames = await frames(connection, found[how.column])
    (all_weight, all_samples), weights = rows[0][-2:] if rows else (0, 0), found[_WEIGHT]
    left = all_weight - sum(weights)
    return Added(all_samples, part, left, found, outer, inner, how.column, known, of_stacks, of_frames)


def _keys(table: StreamTable, names: Sequence[str]) -> list[Around]:
    found = ((name, table.column(name)) for name in names)
    return [(name, one.dimension if one.is_text else None) for name, one in found if one is not None]


def _added_up(
    wanted: Selection, part: Part, how: Drawn, around: Sequence[Around]
) -> tuple[sql.Composed, Sequence[str]]:
    """The query, and the names of its columns; the last two are the sums of all groups' weights and samples."""
    table = wanted.table
    own = dict.fromkeys([*(name for name, _ in around), how.column])
    read = None if table.latest else {*own, *filter(None, (how.weight, table.rollup.count))}
    every = table.layout.rows(table.name, table.records, part.conditions.rows, part.conditions.blocks, only=read)
    if table.latest:
        key = ["process", *(name for name in table.latest.key if name not in IN_PROCESS)]
        every = sql.SQL("SELECT DISTINCT ON ({k}) * FROM ({}) AS e ORDER BY {k}, ktime_ns DESC, batch, ordinal").format(
            every, k=_comma(key)
        )
    groups = sql.SQL(
        "SELECT {own}, {weight} AS {w}, {samples} AS {s} FROM ({every}) AS r WHERE {column} IS NOT NULL GROUP BY {own}"
    ).format(
        own=_comma(own),
        weight=_sum(how.weight),
        samples=_sum(table.rollup.count),
        every=every,
        column=sql.Identifier(how.column),
        w=sql.Identifier(_WEIGHT),
        s=sql.Identifier(_SAMPLES),
    )
    shown = (*own, _WEIGHT)
    query = sql.SQL(
        "SELECT {shown}, (sum({w}) OVER ())::bigint AS {all_w}, (sum({s}) OVER ())::bigint AS {all_s}"
        " FROM ({groups}) AS g WHERE {w} <> 0 ORDER BY {w} DESC, {own} LIMIT {most}"
    ).format(
        shown=_comma(shown),
        own=_comma(own),
        groups=groups,
        most=sql.Literal(MOST_STACKS),
        w=sql.Identifier(_WEIGHT),
        s=sql.Identifier(_SAMPLES),
        all_w=sql.Identifier(_ALL_WEIGHT),
        all_s=sql.Identifier(_ALL_SAMPLES),
    )
    return query, (*shown, _ALL_WEIGHT, _ALL_SAMPLES)


def _sum(column: str) -> sql.Composable:
    """The sum of a column's values, which count as 0 if they are negative; without a column, the number of rows."""
    if not column:
        return sql.SQL("count(*)")
    return sql.SQL("coalesce(sum(greatest({}, 0)), 0)::bigint").format(sql.Identifier(column))


def _comma(columns: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))

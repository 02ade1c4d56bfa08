"""Queries of a stream's rows in blocks."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from psycopg import sql

from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.layout.blocks.tables import FRESH, PACKED, is_list, stored
from scope_server.store.layout.contract import BLOCK, PART, PLACE, Conditions, Lookup, Record

_NOTHING: Sequence[sql.Composable] = ()
DAY = timedelta(days=1)  # a block has rows of only one day

_AND = sql.SQL(" AND ")


def rows(
    stream: str,
    columns: Iterable[Record],
    where: Sequence[sql.Composable] = _NOTHING,
    blocks: Sequence[sql.Composable] = _NOTHING,
    *,
    as_stored: Collection[str] = (),
    only: Collection[str] | None = None,
) -> sql.Composed:
    """A query of the stream's rows with all columns, in the order of `stored`.

    Args:
        columns: the stream's.
        where: conditions on rows, which are named `r`.
        blocks: conditions on blocks (`OFBLOCK`); without any, all blocks are read.
        as_stored: columns with lists that stay texts.
        only: the columns that are selected; None: all. PostgreSQL does not unpack the others, but copies a null a row.
    """
    every = [{**column, "sql": "text"} if column["name"] in as_stored else column for column in stored(columns)]
    names = [sql.Identifier(column["name"]) for column in every if only is None or column["name"] in only]
    return _both(stream, sql.SQL(", ").join(names), every, where, blocks)


def places(
    stream: str,
    columns: Iterable[Record],
    where: Sequence[sql.Composable],
    blocks: Sequence[sql.Composable],
    also: Sequence[str] = (),
) -> sql.Composed:
    """A query of the places of rows, for `rows_at`, with their order: time, batch, ordinal.

    Other columns are unpacked only if `where` names them.

    Args:
        also: columns that are selected, too.
    """
    wanted = sql.SQL(f"time, batch, ordinal, {PART}, {BLOCK}, {PLACE}")
    named = sql.SQL("").join(sql.SQL(", {}").format(sql.Identifier(name)) for name in also)
    return _both(stream, sql.SQL("{}{}").format(wanted, named), stored(columns), where, blocks)


def rows_at(
    stream: str,
    columns: Iterable[Record],
    found: sql.Composable,
    where: Sequence[sql.Composable],  # noqa: ARG001  # a place tells where to look
    *,
    with_block: bool = False,
) -> sql.Composed:
    """A query of the rows at the places in the table `found`. Each block is unpacked once.

    Args:
        with_block: the rows also have the place of their block, as `found` has it.
    """
    every = stored(columns)
    block = sql.SQL(f", f.{PART}, f.{BLOCK}" if with_block else "")
    opened, taken = _unpacking(every)
    return sql.SQL(" UNION ALL ").join(
        sql.SQL(
            f"SELECT {{taken}}{{block}} FROM (SELECT {PART}, {BLOCK}, array_agg({PLACE}) AS places FROM {{found}}"
            " GROUP BY 1, 2) AS f CROSS JOIN LATERAL"
            f" (SELECT {{opened}} FROM {{table}} WHERE tableoid = f.{PART} AND ctid = f.{BLOCK} OFFSET 0) AS b"
            " CROSS JOIN unnest(f.places) AS place (n)"
        ).format(taken=taken, block=block, found=found, opened=opened, table=sql.Identifier(schema, stream))
        for schema in (FRESH, PACKED)
    )


def within(since: sql.Composable | None, until: sql.Composable | None) -> Conditions:
    """Conditions on rows and on blocks for times from `since` (included) to `until` (excluded)."""
    of_rows: list[sql.Composable] = []
    of_blocks: list[sql.Composable] = []
    if since:
        of_rows.append(sql.SQL("time >= {}").format(since))
        of_blocks.append(sql.SQL("last_time >= {}").format(since))
        # A block has rows of one day, and its partition is chosen by first_time.
        of_blocks.append(sql.SQL("first_time > {} - interval '24 h'").format(since))
    if until:
        of_rows.append(sql.SQL("time < {}").format(until))
        of_blocks.append(sql.SQL("first_time < {}").format(until))
    return of_rows, of_blocks


def spans(spans: Sequence[tuple[datetime, datetime]]) -> Conditions:
    """Conditions for times in any of these spans: on blocks only."""
    each = [_AND.join(within(sql.Literal(begin), sql.Literal(end))[1]) for begin, end in spans]
    return [], [sql.SQL("(({}))").format(sql.SQL(") OR (").join(each))]


def holding(held: str, keys: Sequence[int]) -> sql.Composable:
    """The condition on blocks that hold one of these keys."""
    # With a narrower type than bigint[], PostgreSQL would not use the index.
    array = sql.SQL("{}::bigint[]").format(sql.Literal(f"{{{','.join(map(str, keys))}}}"))
    return sql.SQL("{} && {}").format(sql.Identifier(held), array) if keys else sql.SQL("false")


def chosen(blocks: Iterable[tuple[int, str]]) -> Conditions:
    """Conditions for the rows of these blocks."""
    places: dict[int, list[str]] = {}
    for part, place in blocks:
        places.setdefault(part, []).append(place)
    each = [
        sql.SQL("(tableoid = {} AND ctid = ANY({}::tid[]))").format(sql.Literal(part), sql.Literal(its))
        for part, its in places.items()
    ]
    return [], [sql.SQL("({})").format(sql.SQL(" OR ").join(each))]


def references(stream: str, dimension: Dimension) -> list[sql.Composable]:
    """Queries of the keys of a dimension that blocks refer to, with those of others that share the array."""
    held = sql.Identifier(dimension.held)
    return [
        sql.SQL("SELECT unnest({}) AS id FROM {}").format(held, sql.Identifier(schema, stream))
        for schema in (FRESH, PACKED)
    ]


def _both(
    stream: str,
    wanted: sql.Composable,
    every: Sequence[Record],
    where: Sequence[sql.Composable],
    blocks: Sequence[sql.Composable],
) -> sql.Composed:
    opened, taken = _unpacking(every)
    lookups = [one for one in where if isinstance(one, Lookup)]
    own = [one for one in where if not isinstance(one, Lookup)]

    def met(schema: str) -> sql.Composed:
        found = sql.SQL(
            f"(SELECT b.{PART}, b.{BLOCK}, place.n AS {PLACE}, {{taken}}"
            f" FROM (SELECT tableoid AS {PART}, ctid AS {BLOCK}, row_count, {{opened}} FROM {{table}}{{of_blocks}}"
            " OFFSET 0) AS b,"
            " generate_series(1, b.row_count) AS place (n)) AS r{own}"
        ).format(
            taken=taken,
            opened=opened,
            table=sql.Identifier(schema, stream),
            of_blocks=_where(blocks),
            own=_where(own),
        )
        # Elements are taken before a join: rows in its hash table would each have the whole arrays of their block.
        return sql.SQL("(SELECT * FROM {} OFFSET 0) AS r{}").format(found, _where(lookups)) if lookups else found

    return sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT {} FROM {}").format(wanted, met(schema)) for schema in (FRESH, PACKED)
    )


def _unpacking(every: Sequence[Record]) -> tuple[sql.Composed, sql.Composed]:
    # array_append expands a packed array for direct access to elements, and OFFSET 0 keeps the expanded array until all
    # elements are read. Five times as fast as unnest; and columns that are not named are not unpacked.
    opened, taken = [], []
    for column in every:
        name = sql.Identifier(column["name"])
        opened.append(sql.SQL("array_append({n}, NULL) AS {n}").format(n=name))
        cast = sql.SQL(f"::{column['sql']}" if is_list(column) else "")
        taken.append(sql.SQL("(b.{n}[place.n]){cast} AS {n}").format(n=name, cast=cast))
    return sql.SQL(", ").join(opened), sql.SQL(", ").join(taken)


def _where(conditions: Sequence[sql.Composable]) -> sql.Composable:
    return sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL("")

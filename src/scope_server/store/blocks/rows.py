"""Queries of a stream's rows in blocks."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from psycopg import sql

from scope_server.store.blocks.layout import FRESH, PACKED, Record, is_list, stored

_NOTHING: Sequence[sql.Composable] = ()
DAY = timedelta(days=1)  # a block has rows of only one day

# Where a row is: a partition, a block, a place in the block. No column has a blank in its name.
_PART, _BLOCK, _PLACE = '"its part"', '"its block"', '"its place"'


def rows(
    stream: str,
    columns: Iterable[Record],
    where: Sequence[sql.Composable] = _NOTHING,
    blocks: Sequence[sql.Composable] = _NOTHING,
) -> sql.Composed:
    """A query of the stream's rows with all columns, in the order of `stored`.

    Args:
        columns: the stream's.
        where: conditions on rows, which are named `r`.
        blocks: conditions on blocks (`OF_BLOCK`); without any, all blocks are read.
    """
    every = stored(columns)
    names = sql.SQL(", ").join(sql.Identifier(column["name"]) for column in every)
    return _both(stream, names, every, where, blocks)


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
    wanted = sql.SQL(f"time, batch, ordinal, {_PART}, {_BLOCK}, {_PLACE}")
    named = sql.SQL("").join(sql.SQL(", {}").format(sql.Identifier(name)) for name in also)
    return _both(stream, sql.SQL("{}{}").format(wanted, named), stored(columns), where, blocks)


def rows_at(stream: str, columns: Iterable[Record], found: sql.Composable, *, with_block: bool = False) -> sql.Composed:
    """A query of the rows at the places in the table `found`. Each block is unpacked once.

    Args:
        with_block: the rows also have the place of their block, as `found` has it.
    """
    every = stored(columns)
    block = sql.SQL(f", f.{_PART}, f.{_BLOCK}" if with_block else "")
    opened, taken = _unpacking(every)
    return sql.SQL(" UNION ALL ").join(
        sql.SQL(
            f"SELECT {{taken}}{{block}} FROM (SELECT {_PART}, {_BLOCK}, array_agg({_PLACE}) AS places FROM {{found}}"
            " GROUP BY 1, 2) AS f CROSS JOIN LATERAL"
            f" (SELECT {{opened}} FROM {{table}} WHERE tableoid = f.{_PART} AND ctid = f.{_BLOCK} OFFSET 0) AS b"
            " CROSS JOIN unnest(f.places) AS place (n)"
        ).format(taken=taken, block=block, found=found, opened=opened, table=sql.Identifier(schema, stream))
        for schema in (FRESH, PACKED)
    )


def within(
    since: sql.Composable | None, until: sql.Composable | None
) -> tuple[list[sql.Composable], list[sql.Composable]]:
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


def _both(
    stream: str,
    wanted: sql.Composable,
    every: Sequence[Record],
    where: Sequence[sql.Composable],
    blocks: Sequence[sql.Composable],
) -> sql.Composed:
    opened, taken = _unpacking(every)
    return sql.SQL(" UNION ALL ").join(
        sql.SQL(
            f"SELECT {{wanted}} FROM (SELECT b.{_PART}, b.{_BLOCK}, place.n AS {_PLACE}, {{taken}}"
            f" FROM (SELECT tableoid AS {_PART}, ctid AS {_BLOCK}, row_count, {{opened}} FROM {{table}}{{of_blocks}}"
            " OFFSET 0) AS b,"
            " generate_series(1, b.row_count) AS place (n)) AS r{of_rows}"
        ).format(
            wanted=wanted,
            taken=taken,
            opened=opened,
            table=sql.Identifier(schema, stream),
            of_blocks=_where(blocks),
            of_rows=_where(where),
        )
        for schema in (FRESH, PACKED)
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

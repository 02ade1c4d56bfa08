"""A stream's rows, wherever they lie: singly in `events`, or in `blocks`."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from psycopg import sql

from scope_server.store.blocks.layout import Record, is_list, stored

_NOTHING: Sequence[sql.Composable] = ()
DAY = timedelta(days=1)  # a block's rows are of one


def rows(
    stream: str,
    columns: Iterable[Record],
    where: Sequence[sql.Composable] = _NOTHING,
    singly: Sequence[sql.Composable] = _NOTHING,
    blocks: Sequence[sql.Composable] = _NOTHING,
) -> sql.Composed:
    """A query of the stream's rows with all that its table has, in that order.

    Args:
        columns: the stream's.
        where: conditions on rows.
        singly: more of them, for rows that lie singly; they help only to find these.
        blocks: conditions on blocks, `OF_BLOCK`: without any all blocks are read.
    """
    every = stored(columns)
    names = sql.SQL(", ").join(sql.Identifier(column["name"]) for column in every)
    return sql.SQL("SELECT {names} FROM {table}{found} UNION ALL SELECT {names} FROM ({unpacked}) AS r{wanted}").format(
        names=names,
        table=sql.Identifier("events", stream),
        found=_where([*where, *singly]),
        unpacked=_unpacked(stream, every, blocks),
        wanted=_where(where),
    )


def within(
    since: sql.Composable | None, until: sql.Composable | None
) -> tuple[list[sql.Composable], list[sql.Composable]]:
    """Conditions on rows and on blocks that leave those from `since` on and before `until`."""
    of_rows: list[sql.Composable] = []
    of_blocks: list[sql.Composable] = []
    if since:
        of_rows.append(sql.SQL("time >= {}").format(since))
        of_blocks.append(sql.SQL("last_time >= {}").format(since))
        # A block's rows are of one day, and its partition is chosen by their first time.
        of_blocks.append(sql.SQL("first_time > {} - interval '24 h'").format(since))
    if until:
        of_rows.append(sql.SQL("time < {}").format(until))
        of_blocks.append(sql.SQL("first_time < {}").format(until))
    return of_rows, of_blocks


def _unpacked(stream: str, every: Sequence[Record], blocks: Sequence[sql.Composable]) -> sql.Composed:
    # array_append makes of a packed array one whose elements are found at once, and OFFSET keeps it until the last of
    # them is read. Five times as fast as unnest, and what is not asked for is not unpacked.
    opened, taken = [], []
    for column in every:
        name = sql.Identifier(column["name"])
        opened.append(sql.SQL("array_append({n}, NULL) AS {n}").format(n=name))
        cast = sql.SQL(f"::{column['sql']}" if is_list(column) else "")
        taken.append(sql.SQL("(b.{n}[place.n]){cast} AS {n}").format(n=name, cast=cast))
    return sql.SQL(
        "SELECT {taken} FROM (SELECT row_count, {opened} FROM {table}{where} OFFSET 0) AS b,"
        " generate_series(1, b.row_count) AS place (n)"
    ).format(
        taken=sql.SQL(", ").join(taken),
        opened=sql.SQL(", ").join(opened),
        table=sql.Identifier("blocks", stream),
        where=_where(blocks),
    )


def _where(conditions: Sequence[sql.Composable]) -> sql.Composable:
    return sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL("")

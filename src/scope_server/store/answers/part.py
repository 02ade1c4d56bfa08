"""The part of a selection's blocks that is read: all, or if there are too many rows, some that are evenly chosen.

So that work is bounded, whole blocks are left out before any row is looked at. Which ones does not depend on chance:
the same blocks are chosen as long as the stored ones are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from scope_server.store.reading.database import Connection
from scope_server.store.reading.filters import Conditions
from scope_server.store.schema.columns import StreamTable


@dataclass(frozen=True)
class Part:
    """What is read.

    Attributes:
        conditions: of its rows and blocks.
        rows: of all blocks that may have rows of the selection.
        read: of the blocks that are read.
    """

    conditions: Conditions
    rows: int
    read: int

    @property
    def complete(self) -> bool:
        """Whether no block was left out."""
        return self.read == self.rows


async def part_of(connection: Connection, table: StreamTable, wanted: Conditions, most: int) -> Part:
    """The part of a stream's blocks with at most so many rows; of one block, if it has more.

    Call it in the transaction (REPEATABLE READ) that reads the rows: later, blocks may be elsewhere.

    Raises:
        psycopg.Error: the database refused a query.
    """
    blocks = await (await connection.execute(_blocks(table, wanted.blocks))).fetchall()
    total = _rows(blocks)
    step = max(1, -(-total // most))
    chosen = _every(blocks, step)
    while _rows(chosen) > most and len(chosen) > 1:  # blocks differ in size
        step += 1 + step // 4
        chosen = _every(blocks, step)
    if len(chosen) == len(blocks):
        return Part(wanted, total, total)
    of_rows, of_blocks = table.layout.chosen((one["part"], one["place"]) for one in chosen)
    return Part(Conditions([*wanted.rows, *of_rows], [*wanted.blocks, *of_blocks]), total, _rows(chosen))


def _blocks(table: StreamTable, conditions: Sequence[sql.Composable]) -> sql.Composed:
    every = sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT {}, row_count, first_time FROM {} WHERE {}").format(
            table.layout.block, one, sql.SQL(" AND ").join([sql.SQL("true"), *conditions])
        )
        for one in table.layout.blocks(table.name)
    )
    return sql.SQL("{} ORDER BY first_time, part, place").format(every)


def _every(blocks: Sequence[Any], step: int) -> Sequence[Any]:
    return blocks[step // 2 :: step] or blocks[:1]


def _rows(blocks: Sequence[Any]) -> int:
    return sum(block["row_count"] for block in blocks)

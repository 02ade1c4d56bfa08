"""What keys of names, stacks, processes and machines stand for: looked up once for each that an answer shows."""

from collections.abc import Iterable

from psycopg import sql

from scope_server.store.reading.database import Connection
from scope_server.store.reading.filters import array

_NAMES = sql.SQL("SELECT id, text FROM store.names WHERE id = ANY({})")
_STACKS = sql.SQL("SELECT id, frames FROM store.stacks WHERE id = ANY({})")
_FRAMES = sql.SQL("SELECT id, text FROM store.frames WHERE id = ANY({})")


async def names(connection: Connection, keys: Iterable[int]) -> dict[int, str]:
    """The texts of names.

    Raises:
        psycopg.Error: the database refused a query.
    """
    found = await (await connection.execute(_NAMES.format(array(sorted({*keys}))))).fetchall()
    return {row["id"]: row["text"] for row in found}


async def frames(connection: Connection, keys: Iterable[int]) -> tuple[dict[int, list[int]], dict[int, str]]:
    """The frames of stacks by their keys, outermost first, and the texts of these frames.

    Raises:
        psycopg.Error: the database refused a query.
    """
    found = await (await connection.execute(_STACKS.format(array(sorted({*keys}))))).fetchall()
    of_stacks = {row["id"]: row["frames"] for row in found}
    wanted = sorted({frame for its in of_stacks.values() for frame in its})
    texts = await (await connection.execute(_FRAMES.format(array(wanted)))).fetchall()
    return of_stacks, {row["id"]: row["text"] for row in texts}

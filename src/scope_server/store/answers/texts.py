"""What keys of dimensions stand for: looked up once for each that an answer shows."""

from collections.abc import Iterable

from psycopg import sql

from scope_server.store.dimensions.declared import FRAMES
from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.reading.database import Connection
from scope_server.store.reading.filters import array

_STACKS = sql.SQL("SELECT id, frames FROM store.stacks WHERE id = ANY({})")


async def texts_of(connection: Connection, dimension: Dimension, keys: Iterable[int]) -> dict[int, str]:
    """The texts of a dimension's entries, by key.

    Raises:
        psycopg.Error: the database refused a query.
    """
    found = await (await connection.execute(sql.SQL(dimension.texts("{}")).format(array(sorted({*keys}))))).fetchall()
    return {row["id"]: row["text"] for row in found}


async def frames(connection: Connection, keys: Iterable[int]) -> tuple[dict[int, list[int]], dict[int, str]]:
    """The frames of stacks by their keys, outermost first, and the texts of these frames.

    Raises:
        psycopg.Error: the database refused a query.
    """
    found = await (await connection.execute(_STACKS.format(array(sorted({*keys}))))).fetchall()
    of_stacks = {row["id"]: row["frames"] for row in found}
    wanted = sorted({frame for its in of_stacks.values() for frame in its})
    return of_stacks, await texts_of(connection, FRAMES, wanted)

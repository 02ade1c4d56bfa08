"""One of two sides that are compared, or the only one, as SQL conditions."""

from dataclasses import dataclass

from psycopg import sql

from scope_server.store.answers.spans import Within
from scope_server.store.reading.database import Connection
from scope_server.store.reading.filters import Conditions, conditions
from scope_server.store.reading.selection import Selection


@dataclass(frozen=True)
class Side(Selection):
    """Rows of a stream.

    Attributes:
        besides: rows that are left out, of the same stream.
    """

    besides: Selection | None = None


async def conditions_of(connection: Connection, wanted: Selection) -> Conditions:
    """The conditions of a side, those of its time among them.

    Raises:
        psycopg.Error: the lookup of names, stacks or processes failed.
    """
    found = await conditions(connection, wanted)
    of_rows, of_blocks = wanted.table.layout.within(
        *(sql.Literal(time) if time else None for time in (wanted.since, wanted.until))
    )
    found.rows += of_rows
    found.blocks += of_blocks
    if isinstance(wanted, Side) and wanted.besides is not None:
        left_out = (await conditions_of(connection, wanted.besides)).rows
        found.rows.append(sql.SQL("({}) IS NOT TRUE").format(sql.SQL(" AND ").join([sql.SQL("true"), *left_out])))
    if isinstance(wanted, Within):
        found.rows.append(wanted.spans.holding)
        of_processes = wanted.table.layout.holding("processes", wanted.spans.processes)
        found.blocks += [] if of_processes is None else [of_processes]
        if wanted.besides is not None:
            found.rows.append(wanted.besides.holding_none)
    return found

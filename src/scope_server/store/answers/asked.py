"""Totals of one stream, as answers that put several streams together ask for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scope_catalogue.condition import And
from scope_catalogue.where import read_filter
from scope_server.store.reading.database import Database
from scope_server.store.reading.selection import Selection
from scope_server.store.totals.cells import read_cells
from scope_server.store.totals.question import asked
from scope_server.store.totals.reader import Totals


@dataclass(frozen=True)
class Asked:
    """Totals of one stream.

    Attributes:
        where: besides the filter of the rows that are selected; empty: all of these.
    """

    stream: str
    cells: str
    by: tuple[str, ...] = ()
    where: str = ""
    top: int = 20


@dataclass(frozen=True)
class Found:
    """Groups, with columns and sums by name.

    Attributes:
        complete: all rows of the window were read.
    """

    groups: Sequence[dict[str, Any]]
    complete: bool


async def found(database: Database, rows: Selection, what: Asked) -> Found:
    """Totals of rows.

    Args:
        rows: with a window; of the stream that is asked for.

    Raises:
        QueryTooSlow: the query takes too long.
        StoreUnavailable: the database cannot be reached.
    """
    table = rows.table
    if what.where:
        both = read_filter(what.where, table.types)
        rows = replace(rows, where=And((rows.where, both)) if rows.where else both)
    cells = read_cells(what.cells, table)
    question = asked(rows, cells=cells, by=what.by, every=None, order="", top=what.top)
    answer = await Totals(database).groups(question)
    groups = [
        {**group.key, **{cell.column or cell.text: group.values[cell.text] or 0 for cell in cells}}
        for group in answer.groups
        if any(group.values.values())
    ]
    return Found(groups, answer.complete)

"""Writes the states in rows, in the transaction of the rows."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scope_server.store.latest.layout import OF_STATE, Layout, layout_of
from scope_server.store.schema.columns import StreamTable
from scope_server.store.writing.connection import WriterConnection

_NEWER = ("time", "batch", "ordinal")
# This costs a third of sending the columns as arrays.
_GIVEN = 'CREATE TEMPORARY TABLE IF NOT EXISTS "{stream}" (LIKE latest."{stream}") ON COMMIT DELETE ROWS'


def put_states(connection: WriterConnection, table: StreamTable, rows: pa.Table) -> None:
    """Updates the states in these rows, unless a newer row is stored. Call once per transaction.

    Args:
        rows: in the format of the stream's table.

    Raises:
        StoreUnavailable, DataRefused: as from every statement.
    """
    layout = layout_of(table)
    if layout is None:
        return
    connection.query(_GIVEN.format(stream=table.name))
    connection.ingest("pg_temp", table.name, newest(layout, rows))
    connection.query(_upsert(layout))


def newest(layout: Layout, rows: pa.Table) -> pa.Table:
    """The newest row of each state, in the format of its table, in order of the keys.

    All writers use the same order: two writers of the same states wait for each other, but never deadlock.
    """
    columns = {name: rows.column(name) for name in OF_STATE} | {
        column.name: _kept(layout, column.name, rows.column(column.name)) for column in layout.columns
    }
    ordered_by = [_numbers(columns[name]) for name in (*layout.key, *_NEWER)]
    order = np.lexsort(ordered_by[::-1])
    last = np.ones(len(order), bool)
    last[:-1] = np.any([key[order][1:] != key[order][:-1] for key in ordered_by[: len(layout.key)]], axis=0)
    return pa.table(columns).take(pa.array(order[last]))


def _kept(layout: Layout, name: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if name in layout.ended:
        return pc.not_equal(values, 0).fill_null(False)
    absent = layout.absent(name)
    return values if absent is None else values.fill_null(absent)


def _numbers(values: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = values.cast(pa.int64()).to_numpy()
    return numbers


def _upsert(layout: Layout) -> str:
    columns = [*OF_STATE, *(column.name for column in layout.columns)]
    changed = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in layout.key)
    of_row = ", ".join(f"{{row}}.{name}" for name in _NEWER)
    return f"""
INSERT INTO latest."{layout.stream}" AS l ({_listed(columns)})
SELECT {_listed(columns)} FROM pg_temp."{layout.stream}"
ON CONFLICT ({_listed(layout.key)}) DO UPDATE SET {changed}
WHERE ({of_row.format(row="l")}) < ({of_row.format(row="excluded")})"""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)

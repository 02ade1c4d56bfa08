"""The files that another stream names for processes, such as the model that a process has loaded."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from scope_catalogue.where import read_filter
from scope_server.store.reading.reader import MOST_ROWS, EventQuery, Reader
from scope_server.store.schema.columns import StreamTable

_MOST_PIDS = 50  # of a question
_PROCESS = ("machine_id", "pid", "start_ns")

Row = Mapping[str, Any]


class Files:
    """Reads the names of files.

    Args:
        table: the stream that names them.
        path: its column with the path.
    """

    def __init__(self, reader: Reader, table: StreamTable, path: str) -> None:
        self._reader, self._table, self._path = reader, table, path

    async def names(self, rows: Sequence[Row]) -> list[str]:
        """For each row, the name of the file, without folders, that was named for its process up to the row's time;
        empty if none was, or several.

        Raises:
            StoreUnavailable, QueryTooSlow: as for `Reader.page`.
        """
        named: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
        pids = sorted({row["pid"] for row in rows})
        for begin in range(0, len(pids), _MOST_PIDS):
            some = ", ".join(map(str, pids[begin : begin + _MOST_PIDS]))
            where = read_filter(f"pid in ({some})", self._table.types)
            page = await self._reader.page(EventQuery(self._table, where=where, limit=MOST_ROWS))
            for row in page.events:
                named[_process(row)].append(row)
        return [self._name(row, named[_process(row)]) for row in rows]

    def _name(self, row: Row, named: Sequence[Row]) -> str:
        paths = {each[self._path] for each in named if each["time"] <= row["time"]}
        return PurePosixPath(paths.pop() or "").name if len(paths) == 1 else ""


def _process(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _PROCESS)

"""The two tables of a stream's states.

`latest.STREAM` has a row per state. `ranked.STREAM` has a row per group of states, with the sum that ranks the group:
an index finds the largest groups.
"""

from dataclasses import dataclass

from psycopg import sql

from scope_catalogue.shown import Latest
from scope_server.store.schema.columns import BASE, WHOLE, StoredColumn, StreamTable

# Columns of every table of states besides the stream's own. `ktime_ns` is only in the rows.
OF_STATE = tuple(name for name in BASE if name != "ktime_ns")


@dataclass(frozen=True)
class Layout:
    """The layout of a stream's states.

    Attributes:
        of_processes: whether they are states of processes.
        columns: the stream's own columns, in the order of the table.
    """

    stream: str
    latest: Latest
    of_processes: bool
    columns: tuple[StoredColumn, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a state."""
        return ("process", *self.latest.key)

    @property
    def group(self) -> tuple[str, ...]:
        """The columns that identify a group; ended processes have their own groups."""
        return ("process", *self.latest.by, *self.ended)

    @property
    def ended(self) -> tuple[str, ...]:
        """The column, a boolean, that says whether the process has ended; empty if there is none."""
        return (self.latest.ended,) if self.latest.ended else ()

    def column(self, name: str) -> StoredColumn:
        """One of the stream's own columns."""
        return next(column for column in self.columns if column.name == name)

    def absent(self, name: str) -> int | None:
        """The value that replaces null in indexed columns: the smallest number of the type."""
        looked_up = (*self.latest.key, *self.latest.by)
        return WHOLE[self.column(name).sql] if name in looked_up else None

    def sql_type(self, name: str) -> str:
        """The SQL type of one of the stream's own columns."""
        type_ = "boolean" if name in self.ended else self.column(name).sql
        return f"{type_} NOT NULL" if name in self.ended or self.absent(name) is not None else type_

    def held(self, rows: str) -> sql.Composable:
        """The condition for states that have not ended, on `rows` of the stream; null counts as not 0."""
        column = sql.SQL("coalesce({}, 1) > 0")
        found = [column.format(sql.Identifier(rows, name)) for name in self.latest.held]
        return sql.SQL("({})").format(sql.SQL(" OR ").join(found)) if found else sql.SQL("true")


def layout_of(table: StreamTable) -> Layout | None:
    """The layout of a stream's states; None if it has no states."""
    latest = table.latest
    if latest is None:
        return None
    used = (*latest.key, *latest.by, *latest.totals, *latest.means, *latest.means.values(), *latest.held, latest.ended)
    kept = [column for column in table.columns if column.name in used]
    widest_first = sorted(kept, key=lambda column: (column.name == latest.ended, column.sql != "bigint"))
    return Layout(table.name, latest, table.of_processes, tuple(widest_first))

"""What is kept of a stream's states: columns of two tables.

`latest.STREAM` has a state a row. `ranked.STREAM` has a group of states a row, as people see them, with the sum that
ranks it: the largest groups are found by an index.
"""

from dataclasses import dataclass

from psycopg import sql

from scope_bpf.catalogue.shown import Latest
from scope_server.store.schema.columns import BASE, WHOLE, StoredColumn, StreamTable

# What every table of states has beside the stream's own columns. `ktime_ns` is in the rows.
OF_STATE = tuple(name for name in BASE if name != "ktime_ns")


@dataclass(frozen=True)
class Layout:
    """How a stream's states are kept.

    Attributes:
        of_processes: whether they are states of processes.
        columns: the stream's own, in the order in which they lie.
    """

    stream: str
    latest: Latest
    of_processes: bool
    columns: tuple[StoredColumn, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """What tells states apart."""
        return ("process", *self.latest.key)

    @property
    def group(self) -> tuple[str, ...]:
        """What tells groups apart; those of ended processes are groups of their own."""
        return ("process", *self.latest.by, *self.ended)

    @property
    def ended(self) -> tuple[str, ...]:
        """The column that tells whether the process has ended, a boolean here; or nothing."""
        return (self.latest.ended,) if self.latest.ended else ()

    def column(self, name: str) -> StoredColumn:
        """One of the stream's own."""
        return next(column for column in self.columns if column.name == name)

    def absent(self, name: str) -> int | None:
        """What stands for an absent value in columns that are looked up by index: the smallest number of its type."""
        looked_up = (*self.latest.key, *self.latest.by)
        return WHOLE[self.column(name).sql] if name in looked_up else None

    def sql_type(self, name: str) -> str:
        """Of one of the stream's own columns."""
        type_ = "boolean" if name in self.ended else self.column(name).sql
        return f"{type_} NOT NULL" if name in self.ended or self.absent(name) is not None else type_

    def held(self, rows: str) -> sql.Composable:
        """The condition of states that are not over, on `rows` of the stream; what is not known is not 0."""
        column = sql.SQL("coalesce({}, 1) > 0")
        found = [column.format(sql.Identifier(rows, name)) for name in self.latest.held]
        return sql.SQL("({})").format(sql.SQL(" OR ").join(found)) if found else sql.SQL("true")


def layout_of(table: StreamTable) -> Layout | None:
    """How a stream's states are kept; None if it tells none."""
    latest = table.latest
    if latest is None:
        return None
    used = (*latest.key, *latest.by, *latest.totals, *latest.means, *latest.means.values(), *latest.held, latest.ended)
    kept = [column for column in table.columns if column.name in used]
    widest_first = sorted(kept, key=lambda column: (column.name == latest.ended, column.sql != "bigint"))
    return Layout(table.name, latest, table.of_processes, tuple(widest_first))

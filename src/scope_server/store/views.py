"""The views that people read: narrow rows with text joined back, each column with what it means."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from psycopg import sql

from scope_server.store.columns import Kind, StreamTable

Record = Mapping[str, str]  # of a column, as kept in store.streams

# In the target list, so that only queries that name task_id pay for it: the catalogue is large.
_TASK = sql.SQL(
    "(SELECT t.task_id FROM store.batches AS b JOIN store.runs AS r ON r.id = b.run"
    " JOIN store.tasks AS t ON t.id = r.task"
    " WHERE b.id = e.batch AND b.last_time >= e.time) AS task_id, "
)
_BASE = {
    "time": "when, by the machine's clock, to a microsecond; by the server's if the machine's cannot be",
    "machine_id": "the machine's id",
    "hostname": "the machine's name",
    "task_id": "the task that recorded it",
    "batch": "the delivery that it came with",
    "ordinal": "its place there",
}
_STORED = {
    "time": _BASE["time"],
    "batch": "of store.batches",
    "process": "of store.processes",
    "machine": "of store.machines",
    "ordinal": _BASE["ordinal"],
}


def joined(
    rows: sql.Composable, columns: Iterable[Record], of_processes: bool, task: sql.Composable = _TASK
) -> sql.Composed:
    """A query of `rows`, rows of an event table, with keys replaced by what they stand for.

    Args:
        task: how the task is found: nothing, for queries that find it by batch.
    """
    shown: list[sql.Composable] = []
    joins: list[sql.Composable] = []
    for column in columns:
        name = sql.Identifier(column["name"])
        if column["kind"] == Kind.NAME:
            alias = sql.Identifier(f"{column['name']} name")  # no column has a blank in its name
            joins.append(sql.SQL("LEFT JOIN store.names AS {a} ON {a}.id = e.{n}").format(a=alias, n=name))
            shown.append(sql.SQL("{}.text AS {}").format(alias, name))
        elif column["kind"] == Kind.STACK:
            shown.append(sql.SQL("store.stack_text(e.{n}) AS {n}").format(n=name))
        else:
            shown.append(sql.SQL("e.{}").format(name))
    return sql.SQL(
        "SELECT e.time, e.ktime_ns, m.machine_id, m.hostname, {task}{process}e.batch, e.ordinal, {shown} "
        "FROM ({rows}) AS e "
        "LEFT JOIN store.machines AS m ON m.id = e.machine "
        "LEFT JOIN store.processes AS p ON p.id = e.process {joins}"
    ).format(
        task=task,
        process=sql.SQL("p.pid, p.start_ns, " if of_processes else ""),
        shown=sql.SQL(", ").join(shown),
        rows=rows,
        joins=sql.SQL(" ").join(joins),
    )


def view(table: StreamTable, columns: Sequence[Record]) -> sql.Composed:
    """The query of a stream's view. Columns that came later stand last, so that views built on it can be kept."""
    return joined(sql.SQL("SELECT * FROM {}").format(sql.Identifier("events", table.name)), columns, table.of_processes)


def comments(table: StreamTable, columns: Sequence[Record]) -> tuple[sql.Composed, sql.Composed]:
    """What the stream's table and its view say of themselves: statements for the one and for the other."""
    own = [column["name"] for column in columns]
    of_process = [name for name in ("pid", "start_ns") if name in table.meanings]
    stored = {name: _STORED.get(name) or table.meanings.get(name, "") for name in [*_STORED, "ktime_ns", *own]}
    base = [*_BASE, "ktime_ns", *of_process]
    shown = {name: _BASE.get(name) or table.meanings.get(name, "") for name in [*base, *own]}
    about = (
        f"{table.meaning}. Rows of probe {table.probe}, as they are stored; read the view scope.{table.name} instead."
    )
    return (
        _said("TABLE", "events", table.name, about, stored),
        _said("VIEW", "scope", table.name, f"{table.meaning} (probe {table.probe}).", shown),
    )


def digest(*statements: sql.Composed) -> str:
    """Differs when statements do."""
    return hashlib.sha256("\n".join(each.as_string(None) for each in statements).encode()).hexdigest()


def _said(kind: str, schema: str, name: str, about: str, columns: Mapping[str, str]) -> sql.Composed:
    relation = sql.Identifier(schema, name)
    statements = [sql.SQL("COMMENT ON {} {} IS {}").format(sql.SQL(kind), relation, sql.Literal(about))]
    for column, meaning in columns.items():
        where = sql.SQL("{}.{}").format(relation, sql.Identifier(column))
        statements.append(sql.SQL("COMMENT ON COLUMN {} IS {}").format(where, sql.Literal(meaning or None)))
    return sql.SQL("; ").join(statements)

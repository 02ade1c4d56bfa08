"""The readable views of streams: keys are replaced by their texts, and each column has a comment."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from psycopg import sql

from scope_server.store.dimensions.declared import of_kind
from scope_server.store.layout.contract import Record
from scope_server.store.schema.columns import OF_PROCESS, StreamTable

# In the target list, so that only queries that use task_id do the lookup: the catalogue is large.
_TASK = sql.SQL(
    "(SELECT t.task_id FROM store.batches AS b JOIN store.runs AS r ON r.id = b.run"
    " JOIN store.tasks AS t ON t.id = r.task"
    " WHERE b.id = e.batch AND b.last_time >= e.time) AS task_id, "
)
# Null in rows without a process.
IDENTITY = "NULLIF(p.pid, 0) AS pid, CASE WHEN p.pid <> 0 THEN p.start_ns END AS start_ns, "
CONTAINER = f"{OF_PROCESS['container']} AS container, "
_BASE = {
    "time": "time of the row by the machine's clock, in microseconds; by the server's if the machine's is implausible",
    "machine_id": "the machine's id",
    "hostname": "the machine's name",
    "task_id": "the task that recorded the row",
    "batch": "the batch with which the row arrived",
    "ordinal": "place of the row in its batch",
}
_STORED = {
    "time": _BASE["time"],
    "batch": "key in store.batches",
    "process": "key in store.processes",
    "machine": "key in store.machines",
    "ordinal": _BASE["ordinal"],
}


def joined(
    found: sql.Composable, columns: Iterable[Record], of_processes: bool, task: sql.Composable = _TASK, also: str = ""
) -> sql.Composed:
    """A query of the stored rows `found`, with keys replaced by their texts.

    Args:
        also: SQL of further columns of processes, followed by a comma.
        task: SQL that finds the task; empty for queries that find it by batch.
    """
    shown: list[sql.Composable] = []
    joins: list[sql.Composable] = []
    for column in columns:
        name = sql.Identifier(column["name"])
        dimension = of_kind(column["kind"])
        if dimension is None:
            shown.append(sql.SQL("e.{}").format(name))
            continue
        text, join = dimension.joined(sql.SQL("e.{}").format(name), column["name"])
        shown.append(sql.SQL("{} AS {}").format(text, name))
        joins += join
    return sql.SQL(
        "SELECT e.time, e.ktime_ns, m.machine_id, m.hostname, {task}{process}e.batch, e.ordinal, {shown} "
        "FROM ({found}) AS e "
        "LEFT JOIN store.machines AS m ON m.id = e.machine "
        "LEFT JOIN store.processes AS p ON p.id = e.process {joins}"
    ).format(
        task=task,
        process=sql.SQL(f"{IDENTITY}{also}" if of_processes else ""),
        shown=sql.SQL(", ").join(shown),
        found=found,
        joins=sql.SQL(" ").join(joins),
    )


def view(table: StreamTable, columns: Sequence[Record]) -> sql.Composed:
    """The query of a stream's view. Newer columns are last, so that views that depend on it can be kept."""
    return joined(table.layout.rows(table.name, columns), columns, table.of_processes)


def function(table: StreamTable, columns: Sequence[Record]) -> sql.Composed:
    """The statement that creates a function for the view's rows in a time range.

    A condition on the view's time is checked for each row; PostgreSQL cannot use it to skip blocks. The function has
    conditions on rows and on blocks, and PostgreSQL inlines its query.
    """
    of_rows, of_blocks = table.layout.within(sql.SQL("$1"), sql.SQL("$2"))
    query = joined(table.layout.rows(table.name, columns, of_rows, blocks=of_blocks), columns, table.of_processes)
    return sql.SQL(
        "CREATE OR REPLACE FUNCTION {name}(since timestamptz, until timestamptz DEFAULT 'infinity')"
        " RETURNS SETOF {name} LANGUAGE sql STABLE PARALLEL SAFE AS {query}"
    ).format(name=sql.Identifier("scope", table.name), query=sql.Literal(query.as_string(None)))


def comments(table: StreamTable, columns: Sequence[Record]) -> tuple[sql.Composed, sql.Composed]:
    """The statements that set the comments of the stream's tables, and of its view and function."""
    own = [column["name"] for column in columns]
    of_process = [name for name in ("pid", "start_ns") if name in table.meanings]
    stored = {name: _STORED.get(name) or table.meanings.get(name, "") for name in [*_STORED, "ktime_ns", *own]}
    base = [*_BASE, "ktime_ns", *of_process]
    shown = {name: _BASE.get(name) or table.meanings.get(name, "") for name in [*base, *own]}
    of_tables = [
        _said(
            "TABLE",
            schema,
            table.name,
            f"{table.meaning}. Rows of probe {table.probe}, {kept}; use the view scope.{table.name} instead.",
            {**table.layout.meanings, **stored},
        )
        for schema, kept in table.layout.kept.items()
    ]
    of_function = sql.SQL("COMMENT ON FUNCTION {} (timestamptz, timestamptz) IS {}").format(
        sql.Identifier("scope", table.name),
        sql.Literal(
            f"Rows of the view scope.{table.name} from since (included) to until (excluded); reads only this range."
        ),
    )
    of_view = [_said("VIEW", "scope", table.name, f"{table.meaning} (probe {table.probe}).", shown), of_function]
    return sql.SQL("; ").join(of_tables), sql.SQL("; ").join(of_view)


def digest(*statements: sql.Composed) -> str:
    """A digest of statements."""
    return hashlib.sha256("\n".join(each.as_string(None) for each in statements).encode()).hexdigest()


def _said(kind: str, schema: str, name: str, about: str, columns: Mapping[str, str]) -> sql.Composed:
    relation = sql.Identifier(schema, name)
    statements = [sql.SQL("COMMENT ON {} {} IS {}").format(sql.SQL(kind), relation, sql.Literal(about))]
    for column, meaning in columns.items():
        where = sql.SQL("{}.{}").format(relation, sql.Identifier(column))
        statements.append(sql.SQL("COMMENT ON COLUMN {} IS {}").format(where, sql.Literal(meaning or None)))
    return sql.SQL("; ").join(statements)

"""The columns of a block's table: an array per column of the rows, and summaries of the rows to skip blocks by."""

from collections.abc import Iterable, Sequence

from psycopg import sql

from scope_server.store.layout.contract import Record
from scope_server.store.schema.columns import BASE, OF_BLOCK

FRESH, PACKED = "fresh", "packed"  # schemas: blocks as written, and compacted blocks
MEANINGS = {
    "first_time": "time of the first row",
    "last_time": "time of the last row",
    "row_count": "number of rows, which is the length of each column's array",
    "machines": "distinct machines of the rows",
    "processes": "distinct processes of the rows",
    "names": "distinct keys in all columns of the rows with keys of texts",
}


def stored(columns: Iterable[Record]) -> list[Record]:
    """All columns of a stream's rows: the common columns, then these."""
    return [
        *({"name": name, "sql": type_.removesuffix(" NOT NULL"), "kind": ""} for name, type_ in BASE.items()),
        *columns,
    ]


def is_list(column: Record) -> bool:
    """Whether the values are lists. Since lists have any length, a block stores them as texts, like '{1,2}'."""
    return column["sql"].endswith("[]")


def creation(schema: str, stream: str, columns: Iterable[Record]) -> sql.Composed:
    """Statements that make a table of a stream's blocks."""
    table, every = sql.Identifier(schema, stream), stored(columns)
    of_block = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in OF_BLOCK.items()]
    fields = sql.SQL(", ").join([*of_block, *map(_definition, every)])
    # There are only few fresh blocks: reading all of them is cheaper than maintaining indexes.
    held = ("machines", "processes", "names") if schema == PACKED else ()
    statements = [
        sql.SQL("CREATE TABLE {} ({}) PARTITION BY RANGE (first_time)").format(table, fields),
        *(
            sql.SQL("CREATE INDEX ON {} ({})").format(table, sql.Identifier(name))
            for name in ("first_time", "last_time")
        ),
        *(sql.SQL("CREATE INDEX ON {} USING gin ({})").format(table, sql.Identifier(name)) for name in held),
        *_storage(schema, table, every),
    ]
    return sql.SQL("; ").join(statements)


def addition(schema: str, stream: str, columns: Sequence[Record]) -> sql.Composed:
    """Statements that add columns to a table of a stream's blocks."""
    table = sql.Identifier(schema, stream)
    fields = sql.SQL(", ").join(sql.SQL("ADD COLUMN {}").format(_definition(column)) for column in columns)
    return sql.SQL("; ").join([sql.SQL("ALTER TABLE {} {}").format(table, fields), *_storage(schema, table, columns)])


def _definition(column: Record) -> sql.Composed:
    type_ = "text[]" if is_list(column) else f"{column['sql']}[]"
    return sql.SQL("{} {}").format(sql.Identifier(column["name"]), sql.SQL(type_))


def _storage(schema: str, table: sql.Identifier, columns: Iterable[Record]) -> list[sql.Composed]:
    # Fresh blocks are not compressed: pglz would cost more than all other work on a row.
    if schema == PACKED:
        return []
    names = [sql.Identifier(column["name"]) for column in columns]
    changes = sql.SQL(", ").join(sql.SQL("ALTER COLUMN {} SET STORAGE EXTERNAL").format(name) for name in names)
    return [sql.SQL("ALTER TABLE {} {}").format(table, changes)]

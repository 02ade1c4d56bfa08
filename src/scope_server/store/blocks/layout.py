"""How a block lies in its table: what is known of its rows, to skip it by, and an array for each column of theirs."""

from collections.abc import Iterable, Mapping, Sequence

from psycopg import sql

from scope_server.store.schema.columns import BASE, OF_BLOCK

Record = Mapping[str, str]  # of a column, as kept in store.streams

FRESH, PACKED = "fresh", "packed"  # schemas: blocks as they are written, and what compaction makes of them
MEANINGS = {
    "first_time": "of its rows",
    "last_time": "of its rows",
    "row_count": "how many rows it has, and elements each array of a column",
    "machines": "distinct, of its rows",
    "processes": "distinct, of its rows",
    "names": "distinct, of all name and stack columns of its rows",
}


def stored(columns: Iterable[Record]) -> list[Record]:
    """All that a row of a stream has: what every row has, then these."""
    return [
        *({"name": name, "sql": type_.removesuffix(" NOT NULL"), "kind": ""} for name, type_ in BASE.items()),
        *columns,
    ]


def is_list(column: Record) -> bool:
    """Whether its values are lists: these are of any length, so a block has them as texts, like '{1,2}'."""
    return column["sql"].endswith("[]")


def creation(schema: str, stream: str, columns: Iterable[Record]) -> sql.Composed:
    """Statements that make a table of a stream's blocks."""
    table, every = sql.Identifier(schema, stream), stored(columns)
    of_block = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in OF_BLOCK.items()]
    fields = sql.SQL(", ").join([*of_block, *map(_definition, every)])
    # Of the fresh there are few: all are looked at sooner than indexes of what they hold are kept up to date.
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
    # What has just come is not compressed: pglz would cost more than all else that is done with a row.
    if schema == PACKED:
        return []
    names = [sql.Identifier(column["name"]) for column in columns]
    changes = sql.SQL(", ").join(sql.SQL("ALTER COLUMN {} SET STORAGE EXTERNAL").format(name) for name in names)
    return [sql.SQL("ALTER TABLE {} {}").format(table, changes)]

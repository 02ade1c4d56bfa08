"""How a block lies in its table: what is known of its rows, to skip it by, and an array for each column of theirs."""

from collections.abc import Iterable, Mapping

from psycopg import sql

from scope_server.store.columns import BASE, OF_BLOCK

Record = Mapping[str, str]  # of a column, as kept in store.streams

MEANINGS = {
    "first_time": "of its rows",
    "last_time": "of its rows",
    "row_count": "how many rows it has, and elements each array of a column",
    "machines": "distinct, of its rows",
    "processes": "distinct, of its rows",
    "names": "distinct, of all name and stack columns of its rows",
}


def stored(columns: Iterable[Record]) -> list[Record]:
    """All that a stream's table has: what every table has, then these."""
    return [
        *({"name": name, "sql": type_.removesuffix(" NOT NULL"), "kind": ""} for name, type_ in BASE.items()),
        *columns,
    ]


def is_list(column: Record) -> bool:
    """Whether its values are lists: these are of any length, so a block has them as texts, like '{1,2}'."""
    return column["sql"].endswith("[]")


def definition(column: Record) -> sql.Composed:
    """The array of a column, as a table is defined."""
    type_ = "text[]" if is_list(column) else f"{column['sql']}[]"
    return sql.SQL("{} {}").format(sql.Identifier(column["name"]), sql.SQL(type_))


def creation(stream: str, columns: Iterable[Record]) -> sql.Composed:
    """Statements that make the table of a stream's blocks."""
    table = sql.Identifier("blocks", stream)
    of_block = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in OF_BLOCK.items()]
    fields = sql.SQL(", ").join([*of_block, *map(definition, stored(columns))])
    statements = [sql.SQL("CREATE TABLE {} ({}) PARTITION BY RANGE (first_time)").format(table, fields)]
    statements += [
        sql.SQL("CREATE INDEX ON {} ({})").format(table, sql.Identifier(name)) for name in ("first_time", "last_time")
    ]
    statements += [
        sql.SQL("CREATE INDEX ON {} USING gin ({})").format(table, sql.Identifier(name))
        for name in ("machines", "processes", "names")
    ]
    return sql.SQL("; ").join(statements)

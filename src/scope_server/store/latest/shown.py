"""States in readable form, with keys replaced by their texts."""

from collections.abc import Iterable

from psycopg import sql

from scope_server.store.latest.layout import Layout
from scope_server.store.schema.views import IDENTITY


def who(layout: Layout) -> sql.Composed:
    """The columns with machine and process, each followed by a comma."""
    return sql.SQL("m.machine_id, m.hostname, {}").format(sql.SQL(IDENTITY if layout.of_processes else ""))


def readable(layout: Layout, rows: str, name: str) -> sql.Composed:
    """A readable column of `rows` that identifies states or groups."""
    column = layout.column(name)
    if column.dimension:
        text, _ = column.dimension.joined(of(rows, name), name)
        return sql.SQL("{} AS {}").format(text, sql.Identifier(name))
    return sql.SQL("nullif({}, {}) AS {}").format(of(rows, name), layout.absent(name), sql.Identifier(name))


def joins(layout: Layout, rows: str, names: Iterable[str]) -> sql.Composed:
    """The joins that `who` and `readable` need."""
    join = sql.SQL("LEFT JOIN store.{} AS {a} ON {a}.id = {}")
    of_who = {"m": ("machines", "machine"), "p": ("processes", "process")}
    found: list[sql.Composable] = [
        join.format(sql.Identifier(table), of(rows, key), a=sql.Identifier(a)) for a, (table, key) in of_who.items()
    ]
    for name in names:
        if dimension := layout.column(name).dimension:
            found += dimension.joined(of(rows, name), name)[1]
    return sql.SQL(" ").join(found)


def listed(parts: Iterable[sql.Composable]) -> sql.Composed:
    """Joins parts with commas."""
    return sql.SQL(", ").join(parts)


def of(rows: str, name: str) -> sql.Composed:
    """A column of `rows`."""
    return sql.SQL("{}.{}").format(sql.Identifier(rows), sql.Identifier(name))

"""Creates the tables and the function of a stream's states. Triggers update the groups' sums on every write."""

import hashlib
from typing import Any

import psycopg
from psycopg import sql

from scope_server.store.latest.functions import make_functions
from scope_server.store.latest.layout import OF_STATE, Layout, layout_of
from scope_server.store.schema.columns import BASE, OF_GROUP, StreamTable

_ABOUT = {
    "latest": "the newest row of each state",
    "ranked": "groups of the states in schema latest, with the sum that ranks them",
}
_MEANINGS = {
    "time": "time of the state's row; batch and ordinal identify the row",
    "batch": "key in store.batches",
    "process": "key in store.processes",
    "machine": "key in store.machines",
    "ordinal": "place of the row in its batch",
    "total": "sum over the group's states that have not ended",
    "held": "number of the group's states that have not ended",
    "day": "day (UTC) of the newest row, or later",
}
_EVENTS = {
    "INSERT": "NEW TABLE AS new_states",
    "UPDATE": "OLD TABLE AS old_states NEW TABLE AS new_states",
    "DELETE": "OLD TABLE AS old_states",
}


def make(connection: psycopg.Connection[Any], table: StreamTable) -> None:
    """Creates the tables and the function of a stream's states, if it has any, in the open transaction.

    Tables with another layout are replaced by empty ones: agents report each state again within minutes.
    """
    layout = layout_of(table)
    if layout is None:
        return
    _make_tables(connection, table, layout)
    make_functions(connection, table, layout)


def _make_tables(connection: psycopg.Connection[Any], table: StreamTable, layout: Layout) -> None:
    statements = [*_states(layout), *_groups(layout), *_keeping(layout), *_comments(table, layout)]
    made = hashlib.sha256("\n".join(statements).encode()).hexdigest()
    name = sql.Identifier("latest", table.name)
    before = connection.execute(
        "SELECT obj_description(to_regclass(format('latest.%%I', %s::text)), 'pg_class')", [table.name]
    ).fetchone()
    if before and before[0] and before[0].endswith(made):
        return
    groups = sql.Identifier("ranked", table.name)
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}; DROP TABLE IF EXISTS {}").format(name, groups))
    for statement in statements:
        connection.execute(statement.encode())
    about = f"{table.meaning}: {_ABOUT['latest']}. Made from {made}"
    connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(name, sql.Literal(about)))


def _states(layout: Layout) -> list[str]:
    own = [f'"{column.name}" {layout.sql_type(column.name)}' for column in layout.columns]
    base = {name: f"{name} {BASE[name]}" for name in OF_STATE}
    wide, narrow = ("time", "batch", "process"), ("machine", "ordinal")
    columns = ", ".join([*(base[name] for name in wide), *own, *(base[name] for name in narrow)])
    # Leaves space for a new version next to each row: all rows are updated often, and no index changes with that.
    return [
        f'CREATE TABLE latest."{layout.stream}" ({columns}) WITH (fillfactor = 45)',
        f'CREATE UNIQUE INDEX ON latest."{layout.stream}" ({_listed(layout.key)})',
        f'CREATE INDEX ON latest."{layout.stream}" ({_listed(layout.group[: 1 + len(layout.latest.by)])})',
    ]


def _groups(layout: Layout) -> list[str]:
    own = [f'"{name}" {layout.sql_type(name)}' for name in layout.group[1:]]
    columns = ", ".join([*(f"{name} {type_}" for name, type_ in OF_GROUP.items()), *own])
    # Finds the largest groups of a day at once, and those of a machine by reading only the index.
    ranks = ", ".join(["day", *(f'"{name}"' for name in layout.ended), "total DESC", "machine"])
    return [
        f'CREATE TABLE ranked."{layout.stream}" ({columns}) WITH (fillfactor = 80)',
        f'CREATE UNIQUE INDEX ON ranked."{layout.stream}" ({_listed(layout.group)})',
        f'CREATE INDEX ON ranked."{layout.stream}" ({ranks}) WHERE held > 0',
    ]


def _keeping(layout: Layout) -> list[str]:
    function = f'latest."{layout.stream}"()'
    added, removed = _shares(layout, "new_states", ""), _shares(layout, "old_states", "-")
    body = f"""
BEGIN
    IF TG_OP = 'INSERT' THEN {_entered(layout, added)};
    ELSIF TG_OP = 'DELETE' THEN {_entered(layout, removed)};
    ELSE {_entered(layout, f"{added} UNION ALL {removed}")};
    END IF;
    RETURN NULL;
END"""
    triggers = [
        f'CREATE TRIGGER "{event.lower()}" AFTER {event} ON latest."{layout.stream}" REFERENCING {tables}'
        f" FOR EACH STATEMENT EXECUTE FUNCTION {function}"
        for event, tables in _EVENTS.items()
    ]
    return [f"CREATE OR REPLACE FUNCTION {function} RETURNS trigger LANGUAGE plpgsql AS $${body}$$", *triggers]


def _shares(layout: Layout, states: str, sign: str) -> str:
    # Never below 0, so that the sum of some states of a group never exceeds the sum of all.
    first = layout.latest.totals[0]
    held = layout.held(states).as_string(None)
    day = "(time AT TIME ZONE 'UTC')::date"
    known = "NULL::date AS added, " + day if sign else f"{day} AS added, NULL::date"
    return (
        f"SELECT machine, {_listed(layout.group)}, {known} AS removed, {sign}({held})::integer AS held,"
        f' {sign}CASE WHEN {held} THEN greatest("{first}", 0) ELSE 0 END AS total FROM {states}'
    )


def _entered(layout: Layout, shares: str) -> str:
    # In order, so that writers of the same groups wait for each other and rarely deadlock. An unchanged state changes
    # nothing here.
    group = _listed(layout.group)
    return f"""
        INSERT INTO ranked."{layout.stream}" AS g (machine, {group}, day, held, total)
        SELECT machine, {group}, coalesce(max(added), max(removed)), sum(held), sum(total)
        FROM ({shares}) AS shares
        GROUP BY machine, {group}
        HAVING sum(held) <> 0 OR sum(total) <> 0 OR max(added) > max(removed)
        ORDER BY {group}
        ON CONFLICT ({group}) DO UPDATE
        SET held = g.held + excluded.held, total = g.total + excluded.total, day = greatest(g.day, excluded.day)"""


def _comments(table: StreamTable, layout: Layout) -> list[str]:
    def said(schema: str, columns: tuple[str, ...]) -> list[str]:
        meanings = {name: _MEANINGS.get(name) or table.meanings.get(name, "") for name in columns}
        return [
            f'COMMENT ON COLUMN {schema}."{layout.stream}"."{name}" IS {_quoted(meaning)}'
            for name, meaning in meanings.items()
        ]

    about = _quoted(f"{table.meaning}: {_ABOUT['ranked']}")
    return [
        f'COMMENT ON TABLE ranked."{layout.stream}" IS {about}',
        *said("latest", (*OF_STATE, *(column.name for column in layout.columns))),
        *said("ranked", (*OF_GROUP, *layout.group[1:])),
    ]


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _quoted(text: str) -> str:
    return sql.Literal(text).as_string(None)

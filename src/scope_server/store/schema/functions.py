"""SQL functions in the schema `scope`, which show stored data in readable form."""

import logging
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from scope_server.store.dimensions.dimension import Dimension

_log = logging.getLogger(__name__)

_OF_MACHINES = (
    "({machines} IS NULL OR {rows}.machine IN (SELECT id FROM store.machines WHERE machine_id = ANY ({machines})))"
)
_OF_COMMS = "({comms} IS NULL OR {rows}.comm IN (SELECT t.id FROM {table} AS t WHERE {text} = ANY ({comms})))"


def show(
    connection: psycopg.Connection[Any],
    name: str,
    columns: Mapping[str, str],
    body: sql.Composed,
    about: str,
    *,
    arguments: Mapping[str, str],
) -> None:
    """Creates or replaces the function scope.NAME, if it is missing or differs, in the open transaction.

    If an old function returns other columns and other objects depend on it, it is left unchanged and this is logged.

    Args:
        columns: returned columns with their types.
        body: a query with the arguments as $1, $2, ...
        about: the comment on the function.
        arguments: arguments with their types, followed by defaults.

    Raises:
        psycopg.Error: the database went away.
    """
    text = body.as_string(connection)
    known = "SELECT FROM pg_proc WHERE pronamespace = 'scope'::regnamespace AND proname = %s AND prosrc = %s"
    if connection.execute(known, [name, text]).fetchone() is not None:
        return
    types = {argument: type_.partition(" DEFAULT ")[0] for argument, type_ in arguments.items()}
    function = sql.SQL("{} ({})").format(sql.Identifier("scope", name), _declared(types))
    create = sql.SQL(
        "CREATE OR REPLACE FUNCTION {} ({}) RETURNS TABLE ({}) LANGUAGE sql STABLE PARALLEL SAFE AS {}"
    ).format(sql.Identifier("scope", name), _declared(arguments), _declared(columns), sql.Literal(text))
    try:
        with connection.transaction():
            connection.execute(create)
    except psycopg.errors.InvalidFunctionDefinition:  # the returned columns have changed
        try:
            with connection.transaction():
                connection.execute(sql.SQL("DROP FUNCTION {}").format(function))
                connection.execute(create)
        except psycopg.errors.DependentObjectsStillExist as error:
            reason = str(error).splitlines()[0]
            extra = {"function": f"scope.{name}", "reason": reason}
            _log.warning("a function was not updated because other objects depend on it", extra=extra)
            return
    connection.execute(sql.SQL("COMMENT ON FUNCTION {} IS {}").format(function, sql.Literal(about)))


def chosen(rows: str, comm: Dimension | None, machines: str, comms: str) -> sql.Composed:
    """The condition that `rows` are of the machines and commands that arguments, such as $1, name; NULL: of all.

    Args:
        comm: of the rows' column `comm`; None: they have none, and a function that is asked for commands finds none.
    """
    names = {"rows": sql.Identifier(rows), "machines": sql.SQL(machines), "comms": sql.SQL(comms)}
    of_comms = sql.SQL("{comms} IS NULL").format(**names)
    if comm:
        table, text = sql.Identifier("store", comm.table), sql.SQL(comm.text)
        of_comms = sql.SQL(_OF_COMMS).format(table=table, text=text, **names)
    return sql.SQL("{} AND {}").format(sql.SQL(_OF_MACHINES).format(**names), of_comms)


def _declared(types: Mapping[str, str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL(f"{{}} {type_}").format(sql.Identifier(name)) for name, type_ in types.items())

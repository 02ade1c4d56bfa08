"""SQL functions in the schema `scope`, which show stored data in readable form."""

import logging
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

_log = logging.getLogger(__name__)


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


def _declared(types: Mapping[str, str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL(f"{{}} {type_}").format(sql.Identifier(name)) for name, type_ in types.items())

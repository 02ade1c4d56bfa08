"""`scope admin grafana-role`: the database role of programs that only read, such as Grafana."""

import argparse
from pathlib import Path
from typing import Any

from scope_cli.errors import CommandError


def register(topics: Any) -> None:
    """Adds the topic to those of `scope admin`."""
    topic = topics.add_parser(
        "grafana-role",
        help="make a database role that can only read, for Grafana",
        description="Makes a role in the server's PostgreSQL that reads the schema scope, or renews its password and "
        "its rights. It cannot read accounts, tokens or certificates, and its statements end after 30 s; the server "
        "ends those for which it lifts the limit.",
    )
    topic.add_argument(
        "--database",
        required=True,
        metavar="CONNINFO",
        help="the server's database, as a user who may make roles, such as its owner; a libpq connection string",
    )
    topic.add_argument(
        "--database-password-file", type=Path, metavar="FILE", help="file with that user's password and nothing else"
    )
    topic.add_argument("--name", default="scope_grafana", help="the role (default: scope_grafana)")
    topic.add_argument(
        "--password-file",
        type=Path,
        required=True,
        metavar="FILE",
        help="file with the role's password and nothing else",
    )
    topic.set_defaults(run=_make)


def _make(arguments: argparse.Namespace) -> None:
    import psycopg

    from scope_cli.printable import print_line
    from scope_server.errors import ScopeServerError
    from scope_server.store.schema.reader_role import make_reader
    from scope_wire.errors import InvalidSetting
    from scope_wire.secret import read_secret

    try:
        password = read_secret(arguments.password_file, "--password-file")
        given: dict[str, str] = {}
        if file := arguments.database_password_file:
            given["password"] = read_secret(file, "--database-password-file")
        conninfo = psycopg.conninfo.make_conninfo(arguments.database, connect_timeout=10, **given)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            make_reader(connection, arguments.name, password)
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0]
        raise CommandError(f"the role was not made: {reason}") from None
    except (InvalidSetting, ScopeServerError) as error:
        raise CommandError(str(error)) from None
    print_line(f"{arguments.name} may read the database")

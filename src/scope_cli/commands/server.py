"""`scope server`: the server."""

import argparse
from pathlib import Path
from typing import Any

from scope_cli.daemon import run_until_signalled
from scope_cli.errors import CommandError, UsageError
from scope_cli.installation import HTTP, INGEST, state_dir, token_file


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("server", help="run the server: stores what agents send, answers the API")
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="default: $SCOPE_STATE or /var/lib/scope")
    parser.add_argument("--database", required=True, metavar="CONNINFO", help="PostgreSQL, as libpq names it")
    parser.add_argument("--http", default=HTTP, metavar="HOST:PORT", help=f"the API; {HTTP}")
    parser.add_argument("--ingest", default=INGEST, metavar="HOST:PORT", help=f"where agents send to; {INGEST}")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Runs until SIGINT or SIGTERM."""
    from scope_server.app import serve
    from scope_server.errors import InvalidSettings, ScopeServerError
    from scope_server.settings import Settings

    try:
        settings = Settings(
            database=arguments.database,
            token_file=token_file(arguments.state_dir or state_dir()),
            http=arguments.http,
            ingest=arguments.ingest,
        )
    except InvalidSettings as error:
        raise UsageError(str(error)) from None

    try:
        run_until_signalled(lambda stop: serve(settings, stop))
    except ScopeServerError as error:
        raise CommandError(str(error)) from None

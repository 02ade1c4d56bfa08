"""`scope server`: the server."""

import argparse
from pathlib import Path
from typing import Any

from scope_cli.errors import UsageError
from scope_cli.installation import HTTP, INGEST, state_dir, tell_url, token_file, url_of
from scope_cli.limits import SERVER_LIMITS, add_server_limits


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("server", help="run the server: stores what agents send, answers the API")
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="default: $SCOPE_STATE or /var/lib/scope")
    parser.add_argument(
        "--database", required=True, metavar="CONNINFO", help="libpq connection string of the PostgreSQL database"
    )
    parser.add_argument("--http", default=HTTP, metavar="HOST:PORT", help=f"listen here for the API (default: {HTTP})")
    parser.add_argument(
        "--ingest", default=INGEST, metavar="HOST:PORT", help=f"listen here for agents (default: {INGEST})"
    )
    add_server_limits(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Runs until SIGINT or SIGTERM."""
    from scope_cli.daemon import run_until_signalled
    from scope_server.app import serve
    from scope_server.errors import InvalidSettings, ScopeServerError
    from scope_server.settings import Settings

    state = arguments.state_dir or state_dir()
    limits = {name: getattr(arguments, name) for name in SERVER_LIMITS}
    try:
        settings = Settings(
            database=arguments.database,
            token_file=token_file(state),
            http=arguments.http,
            ingest=arguments.ingest,
            **{name: value for name, value in limits.items() if value is not None},
        )
    except InvalidSettings as error:
        raise UsageError(str(error)) from None

    def listens(http: str, _: str) -> None:
        tell_url(state, url_of(http))

    run_until_signalled(lambda stop: serve(settings, stop, listens), ScopeServerError)

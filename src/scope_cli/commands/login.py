"""`scope login`: from now on, commands ask this server."""

import argparse
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "login",
        help="ask a server on another machine from now on",
        description="Logs in with email and password, and keeps the server's address, its authority's certificate and "
        "tokens (not the password) for all later commands of this user. If this machine does not trust the server's "
        "certificate, its authority's fingerprint is shown, to be compared with what `scope admin fingerprint` prints "
        "on the server.",
    )
    parser.add_argument("url", metavar="URL", help="https://HOST:PORT")
    parser.add_argument("--fingerprint", metavar="SHA256:...", help="of the authority; else asked on the terminal")
    parser.add_argument(
        "--email",
        help="of the account; else asked. Without a terminal, the password is read from standard input",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Meets the server, logs in, and keeps the tokens."""
    from scope_cli.access import keep_login
    from scope_cli.meeting import met
    from scope_cli.printable import print_line

    access = met(arguments.url, arguments.fingerprint, arguments.email)
    keep_login(access)
    print_line(f"commands now ask {access.url}; `scope logout` ends this")

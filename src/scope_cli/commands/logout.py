"""`scope logout`: commands ask this machine's server again."""

import argparse
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("logout", help="end the login of `scope login`, and forget it")
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> None:
    """Ends the login at the server, and removes what `scope login` has kept, also if the server does not answer."""
    from scope_cli.access import forget_login, read_login
    from scope_cli.client import Client
    from scope_cli.errors import CommandError
    from scope_cli.printable import print_line, print_remark

    if access := read_login():
        try:
            Client(access).logout()
        except CommandError as error:
            print_remark(f"the server was not told: {error}; its tokens end by themselves after 30 days")
    print_line("logged out" if forget_login() else "there was no login")

"""`scope logout`: commands ask this machine's server again."""

import argparse
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("logout", help="forget the server and the token of `scope login`")
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> None:
    """Removes what `scope login` has kept."""
    from scope_cli.access import forget_login
    from scope_cli.printable import print_line

    print_line("logged out" if forget_login() else "there was no login")

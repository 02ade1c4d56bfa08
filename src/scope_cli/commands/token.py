"""`scope token`: tokens for scripts."""

import argparse
from typing import Any

from scope_cli.accounts import ROLES


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "token",
        help="make, list and revoke tokens for scripts",
        description="A token belongs to the account that has logged in, and may do no more than it.",
    )
    topics = parser.add_subparsers(metavar="TOPIC", required=True)
    make = topics.add_parser(
        "make",
        help="make a token",
        description="Prints the token, which is not kept and cannot be shown again. Scripts name a file with it, mode "
        "0600, in SCOPE_TOKEN_FILE.",
    )
    make.add_argument("name", metavar="NAME", help="what it is for")
    make.add_argument("--role", choices=ROLES, default="viewer", help="default: viewer, who reads")
    make.add_argument("--days", type=float, default=90.0, metavar="N", help="how long it is valid (default: 90)")
    make.set_defaults(run=_make)
    listing = topics.add_parser("list", help="list the tokens; an admin sees everybody's")
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.set_defaults(run=_list)
    revoke = topics.add_parser("revoke", help="refuse a token from now on")
    revoke.add_argument("id", metavar="ID", help="as `scope token list` shows it")
    revoke.set_defaults(run=_revoke)


def _make(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.printable import print_line

    valid = arguments.days * 24 * 3600
    print_line(Client().make_token({"name": arguments.name, "role": arguments.role, "valid": valid})["token"])


def _list(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.printable import print_json, print_line
    from scope_cli.times import shortly

    tokens = Client().get_tokens()["tokens"]
    if arguments.json:
        print_json(tokens)
        return
    for token in tokens:
        state = "revoked" if token["revoked"] else f"until {shortly(token['expires'])}"
        print_line(f"{token['id']}  {token['owner']}  {token['role']:8}  {state}  {token['name']}")


def _revoke(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.printable import print_line

    print_line(f"revoked {Client().revoke_token(arguments.id)['id']}")

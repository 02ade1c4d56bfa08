"""`scope admin create-user | invite | users | change-user`: who may log in, and what they may do."""

import argparse
import getpass
import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scope_cli.errors import UsageError
from scope_cli.times import shortly

if TYPE_CHECKING:
    from scope_cli.api import UserChange
    from scope_cli.client import Client

ROLES = ("viewer", "operator", "admin")
_FIRST = "admin@localhost"


@dataclass(frozen=True)
class FirstLogin:
    """The account that `scope up` makes."""

    email: str
    password: str


def first_login(client: "Client") -> FirstLogin | None:
    """Makes an admin, if there is no account yet."""
    if client.get_users()["users"]:
        return None
    made = FirstLogin(_FIRST, secrets.token_urlsafe(12))
    client.add_user({"email": made.email, "password": made.password, "role": "admin"})
    return made


def register(topics: Any) -> None:
    """Adds the topics to those of `scope admin`."""
    create = topics.add_parser(
        "create-user",
        help="make an account",
        description="Asks for the password on the terminal, or reads it from standard input.",
    )
    invite = topics.add_parser(
        "invite",
        help="invite somebody to make an account",
        description="Prints an invitation, valid for 7 days, which goes into POST /api/v1/auth/register.",
    )
    for topic in (create, invite):
        topic.add_argument("email", metavar="EMAIL")
        topic.add_argument("--role", choices=ROLES, default="viewer", help="default: viewer, who reads")
    create.set_defaults(run=_create)
    invite.set_defaults(run=_invite)
    listing = topics.add_parser("users", help="list the accounts")
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.set_defaults(run=_list)
    change = topics.add_parser(
        "change-user",
        help="change an account",
        description="A new password, or --disable, ends all logins of the account.",
    )
    change.add_argument("email", metavar="EMAIL")
    change.add_argument("--role", choices=ROLES, help="what it may do")
    change.add_argument("--password", action="store_true", help="asked for, as by create-user")
    may = change.add_mutually_exclusive_group()
    may.add_argument("--disable", dest="disabled", action="store_const", const=True, help="it may not log in any more")
    may.add_argument("--enable", dest="disabled", action="store_const", const=False, help="it may log in again")
    change.set_defaults(run=_change)


def _create(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.printable import print_line

    password = _new_password()
    Client().add_user({"email": arguments.email, "password": password, "role": arguments.role})
    print_line(f"made {arguments.email}, {arguments.role}")


def _invite(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.printable import print_line

    print_line(Client().invite_user({"email": arguments.email, "role": arguments.role})["invitation"])


def _list(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.printable import print_json, print_line

    users = Client().get_users()["users"]
    if arguments.json:
        print_json(users)
        return
    width = max((len(user["email"]) for user in users), default=0)
    for user in users:
        seen = f"last active {shortly(user['seen'])}" if user["seen"] else "never logged in"
        print_line(f"{user['email']:{width}}  {user['role']:8}  {'disabled' if user['disabled'] else seen}")


def _change(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.printable import print_line

    change: UserChange = {}
    if arguments.role:
        change["role"] = arguments.role
    if arguments.disabled is not None:
        change["disabled"] = arguments.disabled
    if arguments.password:
        change["password"] = _new_password()
    if not change:
        raise UsageError("what is to be changed? give --role, --password, --disable or --enable")
    Client().change_user(arguments.email, change)
    print_line(f"changed {arguments.email}")


def _new_password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass("New password: ")
    if password != getpass.getpass("Again: "):
        raise UsageError("these are two passwords; nothing is changed")
    return password

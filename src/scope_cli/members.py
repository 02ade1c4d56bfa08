"""`scope admin join-token | remove | revoke | confirm`: which machines may connect."""

import argparse
from typing import Any

from scope_cli.labels import label
from scope_cli.printable import print_line
from scope_cli.quantities import seconds_of

_VERBS = {
    "remove": "end a machine's membership; it may join again, with a new token",
    "confirm": "accept a machine of whose joining a restored database does not know",
}


def register(topics: Any) -> None:
    """Adds the topics to those of `scope admin`."""
    token = topics.add_parser(
        "join-token",
        help="make a token with which machines join",
        description="Prints a token. On the machine: scope agentd --join HOST:PORT --token TOKEN (or in "
        "SCOPE_JOIN_TOKEN), where HOST:PORT is the server's --enrol address.",
    )
    token.add_argument("--uses", type=int, default=1, metavar="N", help="for how many machines (default: 1)")
    token.add_argument(
        "--expires",
        type=seconds_of,
        default="1h",
        metavar="TIME",
        help="how long it is valid, as 30m, 12h or 1d (default: 1h)",
    )
    token.add_argument(
        "--label",
        type=label,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a label of the machines that join with it; may be repeated",
    )
    token.set_defaults(run=_make_token)
    for verb, meaning in _VERBS.items():
        topic = topics.add_parser(verb, help=meaning)
        topic.add_argument("node", metavar="NODE", help="the machine's id or host name")
        topic.set_defaults(run=_end, verb=verb)
    revoke = topics.add_parser(
        "revoke",
        help="end a machine's membership for good, or revoke a person's certificates",
        description="A revoked machine cannot join again before it was removed. Open connections end within seconds.",
    )
    who = revoke.add_mutually_exclusive_group(required=True)
    who.add_argument("node", nargs="?", metavar="NODE", help="the machine's id or host name")
    who.add_argument("--person", metavar="WHO", help="a person's name, or the serial number of a person's certificate")
    revoke.set_defaults(run=_revoke)


def _make_token(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client

    made = Client().make_join_token(
        {"valid": arguments.expires, "uses": arguments.uses, "labels": dict(arguments.label)}
    )
    print_line(made["token"])


def _end(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client

    client = Client()
    end = client.remove_node if arguments.verb == "remove" else client.confirm_node
    print_line(f"{arguments.verb.removesuffix('e')}ed {end(arguments.node)['machine_id']}")


def _revoke(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client

    if arguments.person:
        print_line(f"revoked {Client().revoke_certificate(arguments.person)['revoked']}")
    else:
        print_line(f"revoked {Client().revoke_node(arguments.node)['machine_id']}")

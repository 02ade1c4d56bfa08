"""`scope admin audit`: what people did, and whether the log of it is as it was written."""

import argparse
from typing import Any

from scope_cli.errors import CommandError
from scope_cli.times import shortly


def register(topics: Any) -> None:
    """Adds the topic to those of `scope admin`."""
    audit = topics.add_parser("audit", help="what people did: starts, stops, logins, tokens, accounts, machines")
    audit.add_argument("--limit", type=int, default=50, metavar="N", help="list at most N entries (default: 50)")
    audit.add_argument("--json", action="store_true", help="as JSON")
    audit.set_defaults(run=_list)
    topics = audit.add_subparsers(metavar="TOPIC")
    verify = topics.add_parser(
        "verify",
        help="check the whole log",
        description="Each entry has the digest of all before it, so that a removed or changed one shows. Note the last "
        "digest elsewhere: a log that somebody has written anew from its beginning has another one.",
    )
    verify.set_defaults(run=_verify)


def _list(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.printable import print_json, print_line

    entries = Client().get_audit(limit=arguments.limit)["entries"]
    if arguments.json:
        print_json(entries)
        return
    for entry in reversed(entries):
        where = f" from {entry['address']}" if entry["address"] else ""
        who, did = f"{entry['actor']}{where}", f"{entry['act']} {entry['object']}"
        print_line(f"{entry['number']}  {shortly(entry['time'])}  {who}: {did}")


def _verify(_: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.printable import print_line

    verdict = Client().verify_audit()
    if verdict["fault"]:
        raise CommandError(f"{verdict['fault']}; the {verdict['entries']} entries before it are right")
    print_line(f"all {verdict['entries']} entries are right; the last has the digest {verdict['digest'] or '-'}")

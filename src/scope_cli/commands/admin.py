"""`scope admin`: maintenance by an operator, and who may join."""

import argparse
from typing import TYPE_CHECKING, Any

from scope_cli import accounts, audit, certificates, grafana_role, members, rotation

if TYPE_CHECKING:
    from scope_cli.api import Entry


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("admin", help="machines and persons that may join; accounts; maintenance")
    topics = parser.add_subparsers(metavar="TOPIC", required=True)
    members.register(topics)
    certificates.register(topics)
    rotation.register(topics)
    accounts.register(topics)
    audit.register(topics)
    grafana_role.register(topics)
    quarantine = topics.add_parser(
        "quarantine",
        help="records that could not be stored",
        description="Lists records that the server refused to store, newest first. Their events are counted as lost at "
        "`ingest` until a retry succeeds.",
    )
    what = quarantine.add_mutually_exclusive_group()
    what.add_argument("--retry", type=int, metavar="ID", help="try again to store a record")
    what.add_argument("--drop", type=int, metavar="ID", help="delete a record; its events stay counted as lost")
    quarantine.add_argument("--limit", type=int, default=100, metavar="N", help="list at most N records (default: 100)")
    quarantine.add_argument("--json", action="store_true", help="as JSON")
    quarantine.set_defaults(run=run_quarantine)


def run_quarantine(arguments: argparse.Namespace) -> None:
    """Lists, retries or deletes records."""
    from scope_cli.client import Client
    from scope_cli.printable import print_json, print_line

    client = Client()
    if arguments.retry is not None:
        client.retry_record(str(arguments.retry))
        print_line(f"stored {arguments.retry}")
        return
    if arguments.drop is not None:
        client.drop_record(str(arguments.drop))
        print_line(f"dropped {arguments.drop}")
        return
    entries = client.get_quarantine(limit=arguments.limit)["quarantine"]
    if arguments.json:
        print_json(entries)
        return
    for entry in entries:
        for line in _described(entry):
            print_line(line)
    if not entries:
        print_line("the quarantine is empty")


def _described(entry: "Entry") -> tuple[str, str]:
    """Two lines: the record's run and size, then why it was refused."""
    from scope_views.quantities import size

    what = f"{entry['stream']} {entry['sequence']}, {entry['events']:,} events" if entry["stream"] else "no rows"
    kept = size(entry["bytes"]) if entry["kept"] else "bytes not kept"
    head = f"{entry['id']}  {entry['received'][:19]}  {entry['hostname']}  run {entry['run_id']}: {what}, {kept}"
    return head, f"    {entry['code']}: {entry['reason']}"

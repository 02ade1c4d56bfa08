"""`scope events`: recorded events."""

import argparse
import json
from typing import Any

PAGE = 1000


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "events",
        help="print recorded events, newest first",
        epilog="A filter is COLUMN=VALUE, COLUMN.gte=VALUE, COLUMN.lte=VALUE or COLUMN.ne=VALUE.",
    )
    parser.add_argument("stream", metavar="STREAM", help="such as exec or syscall_summary; `scope probes` lists them")
    parser.add_argument("filters", nargs="*", metavar="FILTER", help="such as pid=1 or duration_ns.gte=1000000")
    parser.add_argument("--since", metavar="TIME", help="only events from this time on, such as 2026-01-31T12:00:00Z")
    parser.add_argument("--until", metavar="TIME", help="only events before this time")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="print at most N events (default: 100)")
    parser.add_argument(
        "--order", choices=("asc", "desc"), default="desc", help="asc: oldest first; desc: newest first (default)"
    )
    parser.add_argument("--columns", metavar="A,B,...", help="print these columns (default: as many as fit)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints the rows, page by page."""
    from scope_cli.client import Client
    from scope_cli.errors import UsageError
    from scope_cli.event_table import print_rows

    filters = {}
    for given in arguments.filters:
        name, equals, value = given.partition("=")
        if not equals:
            raise UsageError(f"'{given}' is no filter; write COLUMN=VALUE")
        filters[name] = value
    client = Client()
    rows: list[dict[str, Any]] = []
    cursor = None
    query = {"since": arguments.since, "until": arguments.until, "order": arguments.order, **filters}
    while len(rows) < arguments.limit:
        limit = min(PAGE, arguments.limit - len(rows))
        page = client.get("events", arguments.stream, **query, limit=limit, cursor=cursor)
        if arguments.json:
            for row in page["events"]:
                print(json.dumps(row, ensure_ascii=False))
        rows += page["events"]
        cursor = page["next"]
        if not cursor:
            break
    if not arguments.json:
        print_rows(arguments.stream, rows, arguments.columns.split(",") if arguments.columns else [])

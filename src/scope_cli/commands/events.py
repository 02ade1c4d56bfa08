"""`scope events`: what was recorded."""

import argparse
import json
from typing import Any

PAGE = 1000


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "events",
        help="print what was recorded, newest first",
        epilog="A filter is COLUMN=VALUE, COLUMN.gte=VALUE, COLUMN.lte=VALUE or COLUMN.ne=VALUE.",
    )
    parser.add_argument("stream", metavar="STREAM", help="such as exec or syscall_summary; `scope probes` lists them")
    parser.add_argument("filters", nargs="*", metavar="FILTER", help="such as pid=1 or duration_ns.gte=1000000")
    parser.add_argument("--since", metavar="TIME", help="from this time on, as 2026-01-31T12:00:00Z")
    parser.add_argument("--until", metavar="TIME", help="before this time")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="at most this many; 100")
    parser.add_argument("--order", choices=("asc", "desc"), default="desc", help="oldest or newest first")
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints the rows, page by page."""
    from scope_cli.client import Client
    from scope_cli.errors import UsageError

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
        _print_table(arguments.stream, rows)


def _print_table(stream: str, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from scope_bpf.catalogue import probes
    from scope_cli.quantities import quantity

    streams = {known.name: known for probe in probes().values() for known in probe.public_streams}
    described = streams[stream].described() if stream in streams else {}
    shown = [name for name in ("time", "comm", "pid", *described) if name not in ("ktime_ns", "start_ns", "cgroup_id")]
    names = [name for name in dict.fromkeys(shown) if rows and name in rows[0] and not isinstance(rows[0][name], list)]
    names += [name for name in ("args",) if rows and name in rows[0]]
    table = Table(*names, box=None)
    for row in rows:
        cells = [row[name] for name in names]
        units = [described[name].unit if name in described else "" for name in names]
        table.add_row(*(_cell(cell, unit, quantity) for cell, unit in zip(cells, units, strict=True)))
    Console().print(table)


def _cell(value: Any, unit: str, quantity: Any) -> str:
    return str(quantity(value, unit)) if unit or value is None or isinstance(value, list) else str(value)

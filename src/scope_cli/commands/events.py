"""`scope events`: recorded events."""

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from scope_cli import window
from scope_cli.printable import print_json, print_remark

if TYPE_CHECKING:
    from scope_cli.client import Client

PAGE = 1000
LIMIT = 100
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0

Rows = list[dict[str, Any]]


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    from scope_cli.times import NEGATIVE, moment

    parser = subcommands.add_parser(
        "events",
        help="print recorded events, newest first",
        epilog="A filter: ret < 0 and (comm = git or path ~ '/etc/*'). Operators: = != < <= > >= ~ !~ in (A, B), "
        "is null, is not null, and, or, not. Durations and sizes have units: duration_ns > 1.5ms, read_bytes >= 4KiB.",
    )
    parser._negative_number_matcher = NEGATIVE  # -5m is a value: as in argparse of Python 3.14
    parser.add_argument("stream", metavar="STREAM", help="such as exec or syscall_summary; `scope probes` lists them")
    window.add_filter(parser, "ret < 0")
    parser.add_argument("--node", metavar="NODE", help="only events of this machine: its hostname or id")
    parser.add_argument(
        "--since", metavar="TIME", type=moment, help="only events from this time on: -5m, or 2026-01-31T12:00:00Z"
    )
    parser.add_argument("--until", metavar="TIME", type=moment, help="only events before this time")
    parser.add_argument(
        "--follow",
        action="store_true",
        help="print events as they are stored, until Ctrl-C; with --since, first those that are there already",
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help=f"print at most N events (default: {LIMIT}; with --follow: no limit)"
    )
    parser.add_argument("--order", choices=("asc", "desc"), help="asc: oldest first; desc: newest first (default)")
    parser.add_argument("--columns", metavar="A,B,...", help="print these columns (default: as many as fit)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints the rows, page by page."""
    from scope_cli.client import Client
    from scope_cli.errors import UsageError

    if arguments.follow and (arguments.order or arguments.until):
        raise UsageError("--follow prints events as they are stored, without end; leave out --order and --until")
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError(f"--limit {arguments.limit} is not above 0")
    times = {"since": arguments.since, "until": arguments.until}
    query = {"where": window.filter_of(arguments), **times, "machine": arguments.node}
    show = _printer(arguments)
    if not arguments.follow:
        pages = _pages(Client(), arguments.stream, {**query, "order": arguments.order}, arguments.limit or LIMIT)
        if arguments.json:
            for rows in pages:
                show(rows)
        else:
            show([row for rows in pages for row in rows])
        return
    left = arguments.limit
    try:
        for rows in _followed(Client(), arguments.stream, query):
            show(rows if left is None else rows[:left])
            if left is not None and (left := left - len(rows)) <= 0:
                return
    except KeyboardInterrupt:
        return


def _printer(arguments: argparse.Namespace) -> Callable[[Rows], None]:
    if arguments.json:
        return lambda rows: print_json(*rows, indent=None)
    from scope_cli.event_table import EventTable

    return EventTable(arguments.stream, arguments.columns.split(",") if arguments.columns else []).print


def _pages(client: "Client", stream: str, query: dict[str, Any], limit: int) -> Iterator[Rows]:
    cursor = None
    while limit > 0:
        page = client.get_events(stream, **query, limit=min(PAGE, limit), cursor=cursor)
        yield page["events"]
        cursor, limit = page["next"], limit - len(page["events"])
        if not cursor:
            return


def _followed(client: "Client", stream: str, query: dict[str, Any]) -> Iterator[Rows]:
    """Rows in the order of commits, each once, without end. If the server goes away after its first answer, waits for
    it."""
    import time

    from scope_cli.errors import ServerUnreachable

    page = client.get_events(stream, **query, order="stored", limit=PAGE)
    cursor, pause, away = str(page["next"]), _SHORTEST_PAUSE_S, False
    if page["events"]:
        yield page["events"]
    asked = {name: query[name] for name in ("where", "machine")}
    while True:
        try:
            for rows, place in _live(client, stream, {**asked, "cursor": cursor}):
                cursor, pause, away = place, _SHORTEST_PAUSE_S, False
                if rows:
                    yield rows
        except ServerUnreachable as error:
            if not away:
                print_remark(f"scope: {error}; waiting for it")
            away = True
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _live(client: "Client", stream: str, query: dict[str, Any]) -> Iterator[tuple[Rows, str]]:
    """Rows as they are stored, each time with the cursor after them, until the connection ends.

    It also ends if this end was too slow for the server: from its cursor on, nothing is missed.
    """
    import json

    from scope_cli.errors import ServerUnreachable

    for event in client.watch_events(stream, **query):
        if event.name == "problem":
            raise ServerUnreachable(json.loads(event.data)["detail"])
        if event.name == "missed":
            return
        yield json.loads(event.data), event.id

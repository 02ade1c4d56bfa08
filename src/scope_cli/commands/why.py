"""`scope why`: where the time of a process, of a request, or of a machine's processes went."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

_PARTS = ("on_cpu_ns", "run_queue_ns", "blocked_ns")
_HEADINGS = ("total", "on a CPU", "waiting for a CPU", "blocked")
_MARKS = "█▒·"  # of a step in which a thread was mostly in each of these
_LABEL = 24  # cells of the terminal that the name of a thread takes, at most


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    from scope_cli.times import NEGATIVE, moment

    parser = subcommands.add_parser(
        "why",
        help="tell why something was slow: a process, a request, or a machine",
        epilog="`scope why --pid 4711` is about a process; `scope why llama_request --where 'request = 3'` about a "
        "request; `scope why` about the processes of a machine.",
    )
    parser._negative_number_matcher = NEGATIVE  # -5m is a value
    parser.add_argument(
        "stream",
        metavar="STREAM",
        nargs="?",
        help="the slowest row of this stream that meets --where, such as llama_request or ollama_request",
    )
    where = "which rows of STREAM, such as 'pid = 4711 and request = 3'; of a machine, which processes"
    parser.add_argument("--where", metavar="FILTER", help=where)
    parser.add_argument("--pid", metavar="PID", type=int, help="the newest process with this pid")
    parser.add_argument("--start", metavar="NS", type=int, help="its start_ns, if several had this pid")
    parser.add_argument("--node", metavar="NODE", help="a machine: its hostname or id (default: the only one)")
    since = "from this time on: -5m, or 2026-01-31T12:00:00Z (default: an hour before --until)"
    parser.add_argument("--since", metavar="TIME", type=moment, help=since)
    parser.add_argument("--until", metavar="TIME", type=moment, help="up to this time (default: now)")
    parser.add_argument("--timeline", action="store_true", help="draw when each thread of the process waited")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints the sentence, tables of what it is about, and what was not recorded."""
    from scope_cli.client import Client
    from scope_cli.errors import UsageError
    from scope_cli.printable import print_json, print_line, print_remark
    from scope_cli.window import print_losses

    if arguments.stream and arguments.stream.isdecimal():
        raise UsageError(f"{arguments.stream} is no stream; of a process: scope why --pid {arguments.stream}")
    client = Client()
    names = ("stream", "where", "pid", "start", "since", "until")
    found = client.get_why(machine=arguments.node, **{name: getattr(arguments, name) for name in names})
    if arguments.timeline and found["pid"] is None:
        raise UsageError("--timeline is of the threads of a process: name its --pid, or a request")
    lanes = _timeline(client, found) if arguments.timeline else None
    if arguments.json:
        print_json(lanes if lanes else found)
        return
    print_line(found["sentence"])
    if found["request"]:
        _print_request(found["request"])
    if found["processes"]:
        _print_times("process", [(f"{one['name'] or '-'} {one['pid']}", one) for one in found["processes"]])
    if found["threads"]:
        _print_times("thread", [(f"{one['name'] or '-'} {one['tid']}", one) for one in found["threads"]])
    if found["disks"]:
        _print_disks(found["disks"])
    if found["peers"]:
        _print_peers(found["peers"])
    for line in _drawn(lanes) if lanes else ():
        print_line(line)
    if not found["complete"]:
        print_remark("scope: not all rows of this time were read; narrow it with --since")
    print_losses(found["losses"])
    for lacks in found["not_recorded"]:
        print_remark(f"scope: {lacks['stream']} was not recorded: {lacks['remedy']}")


def _print_request(request: Mapping[str, Any]) -> None:
    from scope_cli.quantities import quantity
    from scope_cli.terminal import RowTable, console
    from scope_views.why.request import PARTS

    table = RowTable("part", "time")
    for part in sorted(request["parts"], key=lambda part: -part["ns"]):
        table.add_row(PARTS.get(part["part"], part["part"]), quantity(part["ns"], "ns"))
    for one in request["times"]:
        table.add_row(one["column"], quantity(one["ns"], "ns"))
    console().print(table)


def _print_times(what: str, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    from scope_cli.quantities import quantity
    from scope_cli.terminal import RowTable, console

    table = RowTable(what, *_HEADINGS)
    for name, times in rows:
        table.add_row(name, *(quantity(times[part], "ns") for part in ("total_ns", *_PARTS)))
    console().print(table)


def _print_disks(disks: Sequence[Mapping[str, Any]]) -> None:
    from scope_cli.quantities import quantity
    from scope_cli.terminal import RowTable, console

    table = RowTable("disk", "operation", "requests", "bytes", "in the queue", "in the device")
    for one in disks:
        numbers = ((one["count"], ""), (one["bytes"], "bytes"), (one["queue_ns"], "ns"), (one["device_ns"], "ns"))
        table.add_row(one["disk"] or "-", one["operation"] or "-", *(quantity(*number) for number in numbers))
    console().print(table)


def _print_peers(peers: Sequence[Mapping[str, Any]]) -> None:
    from scope_cli.quantities import quantity
    from scope_cli.terminal import RowTable, console

    table = RowTable("peer", "port", "direction", "begun", "failed", "sent", "received", "retransmits", "round trip")
    for one in peers:
        name = (one["remote"] or "-", str(one["port"] or "-"), one["direction"] or "-")
        counts = (quantity(one["begun"], ""), quantity(one["failed"], ""))
        sizes = (quantity(one["sent_bytes"], "bytes"), quantity(one["received_bytes"], "bytes"))
        table.add_row(*name, *counts, *sizes, quantity(one["retransmits"], ""), quantity(one["rtt_ns"], "ns"))
    console().print(table)


def _timeline(client: Any, found: Mapping[str, Any]) -> Any:
    """The threads of the process, in as many steps as fit into the terminal; a request's from its begin to its end."""
    from scope_cli.terminal import console

    request = found["request"]
    since, until = (request["begin"], request["end"]) if request else (found["since"], found["until"])
    return client.get_why_timeline(
        pid=found["pid"],
        start=found["start_ns"],
        machine=found["machine_id"],
        since=since,
        until=until,
        steps=max(10, min(400, console().width - _LABEL - 1)),
    )


def _drawn(lanes: Mapping[str, Any]) -> list[str]:
    """A line for each thread; in each step, what it was in most of the time; nothing: unknown."""
    from scope_cli.quantities import quantity

    if not lanes["lanes"]:
        return ["when its threads waited was not recorded"]
    drawn = [f"{lanes['since']} to {lanes['until']}: █ on a CPU, ▒ waiting for a CPU, · blocked"]
    for lane in lanes["lanes"]:
        marks = "".join(map(_mark, zip(*(lane[part] for part in _PARTS), strict=True)))
        name = f"{lane['name'] or '-'} {lane['tid']}"
        drawn.append(f"{name[:_LABEL]:{_LABEL}} {marks}".rstrip())
    if lanes["interval_ns"]:
        drawn.append(f"recorded each {quantity(lanes['interval_ns'], 'ns')}: within it, times are spread evenly")
    if lanes["lanes_hidden"]:
        drawn.append(f"{lanes['lanes_hidden']:,} more threads")
    return drawn


def _mark(times: Sequence[int]) -> str:
    most = max(times)
    return _MARKS[times.index(most)] if most else " "

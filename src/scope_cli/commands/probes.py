"""`scope probes`: the catalogue, and which of it can run on a machine."""

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scope_cli.errors import CommandError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from scope_catalogue.probe import DescribedProbe
    from scope_cli.api import Probes


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("probes", help="list what can be recorded: options, streams, columns with units")
    parser.add_argument("name", nargs="?", metavar="NAME", help="show all details of this probe")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--node", metavar="NODE", help="say which of them can run on this machine, as its agent found last"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints a line per probe, or all details of one; with a machine, what its agent told of them."""
    if arguments.node:
        _print_report(arguments.node, arguments.name, as_json=arguments.json)
    else:
        _print_catalogue(arguments)


def _print_catalogue(arguments: argparse.Namespace) -> None:
    from scope_catalogue.catalogue import probe_named, probes
    from scope_catalogue.errors import UnknownProbe
    from scope_cli.printable import print_json, print_line

    try:
        chosen = [probe_named(arguments.name)] if arguments.name else list(probes().values())
    except UnknownProbe as error:
        raise UsageError(str(error)) from None
    if arguments.json:
        print_json([described(probe) for probe in chosen])
    elif arguments.name:
        _print_whole(described(chosen[0]))
    else:
        width = max(len(probe.name) for probe in chosen)
        for probe in chosen:
            print_line(f"{probe.name:{width}}  {probe.meaning}")


def _print_report(node: str, name: str | None, *, as_json: bool) -> None:
    from scope_cli.client import Client
    from scope_cli.findings import feature_line, probe_lines
    from scope_cli.printable import print_json, print_line

    told = Client().get_probes(node=node)
    told["probes"] = [probe for probe in told["probes"] if name in (None, probe["name"])]
    if name and not told["probes"]:
        raise CommandError(f"the agent of {node} has no probe '{name}'; `scope probes --node {node}` lists them")
    if as_json:
        print_json(told)
        return
    print_line(_when(told))
    for feature in told["host"]:
        print_line(feature_line(feature["name"], feature["reason"], available=feature["available"]))
    for probe in told["probes"]:
        for line in probe_lines(
            probe["name"],
            probe["reason"],
            available=probe["available"],
            no_device=probe["no_device"],
            attach_point=probe["attach_point"],
            unseen=probe["unseen"],
            tried=[(one["option"], one["reason"]) for one in probe["tried"]],
        ):
            print_line(line)


def _when(told: "Probes") -> str:
    from scope_cli.quantities import age

    moment = datetime.fromisoformat(told["examined"]) if told["examined"] else None
    tried = f"tried {age((datetime.now(UTC) - moment).total_seconds())}" if moment else "tried"
    if told["current"]:
        return f"{tried} by the agent that is connected"
    if told["connected"]:
        return f"{tried} by an earlier agent; the one that is connected has not tried them yet"
    return f"{tried}; the agent is away"


def described(probe: "DescribedProbe") -> dict[str, Any]:
    """All that people should know about a probe, with types as Arrow names them."""
    return {
        "name": probe.name,
        "meaning": probe.meaning,
        "examples": [{"command": example.command, "shows": example.shows} for example in probe.guide.examples],
        "notes": probe.guide.notes,
        "limits": probe.guide.limits,
        "options": [
            {
                "name": option.name,
                "type": option.type,
                "default": option.default,
                "meaning": option.meaning,
                "minimum": option.minimum,
                "maximum": option.maximum,
                "choices": option.choices if option.type == "choice" else (),
                "example": option.example,
            }
            for option in probe.options
        ],
        "streams": [
            {
                "name": stream.name,
                "mode": stream.mode.value,
                "meaning": stream.meaning,
                "columns": [
                    {"name": column.name, "type": column.type, "unit": column.unit, "meaning": column.meaning}
                    for column in stream.columns
                ],
            }
            for stream in probe.streams
        ],
    }


def _print_whole(probe: dict[str, Any]) -> None:
    from scope_cli.terminal import RowTable, console, plain

    output = console()
    output.print(plain(probe["name"], "bold").append(f": {probe['meaning']}\n", "not bold"))
    options = RowTable("option", "type", "default", "meaning", title_justify="left")
    for option in probe["options"]:
        default = ",".join(option["default"]) if isinstance(option["default"], tuple) else str(option["default"])
        kind = " | ".join(option["choices"]) or option["type"]
        shown = "(needed)" if option["example"] else default or "all"
        options.add_row(option["name"], kind, shown, option["meaning"])
    output.print(options)
    for stream in probe["streams"]:
        told = plain(f"stream {stream['name']} ({stream['mode']}): {stream['meaning']}")
        told.stylize("bold", len("stream "), len(f"stream {stream['name']}"))
        output.print()
        output.print(told)
        columns = RowTable("column", "type", "unit", "meaning")
        for column in stream["columns"]:
            columns.add_row(column["name"], type_name(column["type"]), column["unit"], column["meaning"])
        output.print(columns)
    _print_guide(probe, output)


def _print_guide(probe: dict[str, Any], output: "Console") -> None:
    from scope_cli.terminal import RowTable, plain

    examples = [(example["command"], example["shows"]) for example in probe["examples"]]
    lists = {"notes": [("-", text) for text in probe["notes"]], "limits": [("-", text) for text in probe["limits"]]}
    for title, rows in (lists | {"examples": examples}).items():
        if rows:
            output.print()
            output.print(plain(title, "bold"))
            table = RowTable("", "", show_header=False)
            for row in rows:
                table.add_row(*row)
            output.print(table)


def type_name(arrow: str) -> str:
    """The type of a column as people say it."""
    if arrow.startswith("fixed_size_list"):
        return "histogram"
    return arrow.replace("dictionary<values=string, indices=int32, ordered=0>", "name").replace(
        "list<item: string>", "texts"
    )

"""`scope export`: recorded rows as files, or as a trace for Perfetto."""

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from scope_cli import window

if TYPE_CHECKING:
    from scope_cli.client import Client

FORMATS = ("ndjson", "csv", "arrow", "parquet")


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    from scope_cli.times import NEGATIVE, moment

    parser = subcommands.add_parser(
        "export",
        help="write recorded rows to files, however many they are",
        epilog="Without --since, the rows of the last hour. Several streams make a file each: FILE with the "
        "stream's name before its ending; a trace has nothing of streams that lack the filter's columns.",
    )
    parser._negative_number_matcher = NEGATIVE  # -5m is a value: as in argparse of Python 3.14
    parser.add_argument("streams", nargs="*", metavar="STREAM", help="such as exec or syscall_summary")
    written = parser.add_mutually_exclusive_group(required=True)
    written.add_argument("-o", "--output", metavar="FILE", type=Path, help="the file to write")
    written.add_argument(
        "--perfetto",
        metavar="FILE",
        type=Path,
        help="write the timelines of the streams, or of all, for https://ui.perfetto.dev",
    )
    parser.add_argument("--format", choices=FORMATS, help="default: by the file's ending, else ndjson")
    window.add_filter(parser, "ret < 0")
    parser.add_argument(
        "--node",
        metavar="NODE",
        help="only rows of this machine: its hostname or id; with --perfetto also several, separated by commas",
    )
    parser.add_argument("--task", metavar="ID", help="only rows that this task recorded")
    parser.add_argument(
        "--since", metavar="TIME", type=moment, help="only rows from this time on: -5m, or 2026-01-31T12:00:00Z"
    )
    parser.add_argument("--until", metavar="TIME", type=moment, help="only rows before this time")
    parser.add_argument("--columns", metavar="A,B,...", help="only these columns, after the time")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Writes the files. One whose rows could not all be read is left out."""
    from scope_cli.client import Client
    from scope_cli.errors import UsageError
    from scope_cli.saved import save

    query = {name: getattr(arguments, name) for name in ("since", "until", "task")}
    query |= {"machine": arguments.node, "where": window.filter_of(arguments)}
    streams = arguments.streams
    if arguments.perfetto:
        if arguments.columns or arguments.format:
            raise UsageError("--perfetto draws whole rows; leave out --columns and --format")
        client = Client()
        save(arguments.perfetto, lambda file: client.get_trace(file, **query, streams=",".join(streams)))
        return
    if not streams:
        raise UsageError("name a stream; `scope probes` lists them")
    output: Path = arguments.output
    by_ending = output.suffix.removeprefix(".")
    form = arguments.format or (by_ending if by_ending in FORMATS else "ndjson")
    client = Client()
    for stream in streams:
        path = output.with_suffix(f".{stream}{output.suffix}") if len(streams) > 1 else output
        asked = {**query, "columns": arguments.columns, "format": form}
        save(path, partial(_exported, client, stream, asked))


def _exported(client: "Client", stream: str, asked: dict[str, Any], file: BinaryIO) -> str:
    return client.export_events(file, stream, **asked)

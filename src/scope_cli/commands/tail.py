"""`scope tail --local`: events as this machine's agent records them, without a server."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scope_cli.tail.losses import Losses
    from scope_cli.trace.sink import Sinks


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "tail",
        help="print events of this machine's tasks as they happen, without the server",
        epilog="Events are read from the agent's local bus, docs/local-bus.md; only the agent's user may. If this "
        "command is slower than the events, it loses some, and says how many.",
    )
    parser.add_argument("stream", nargs="*", metavar="STREAM", help="such as exec or syscall (default: all)")
    parser.add_argument("--local", action="store_true", help="from the agent on this machine; must be given")
    parser.add_argument("--task", default="", metavar="TASK", help="only of this task: its id or its first characters")
    parser.add_argument("--limit", type=int, metavar="N", help="end after N events (default: at Ctrl-C)")
    parser.add_argument("--json", action="store_true", help="print a JSON object per row, as `scope trace --json`")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints rows until Ctrl-C or the limit."""
    from scope_catalogue.catalogue import streams
    from scope_catalogue.nearest import unknown
    from scope_cli.errors import UsageError
    from scope_cli.installation import running_state_dir
    from scope_cli.printable import print_remark
    from scope_cli.tail.reader import Reader
    from scope_cli.tail.tailing import Tailing
    from scope_wire.bus.message import topic_of

    if not arguments.local:
        raise UsageError("give --local; for events that a server has stored, use `scope events STREAM --follow`")
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError(f"--limit {arguments.limit} is not above 0")
    known = streams()
    if strange := [name for name in arguments.stream if name not in known]:
        raise UsageError(unknown("stream", strange[0], known))
    wanted = arguments.stream or (list(known) if arguments.task else [])
    topics = [topic_of(name, arguments.task) for name in wanted] or [b""]
    with Reader(running_state_dir(), topics) as reader:
        tailing = Tailing(reader, known, _sink(arguments.json, reader.losses, wanted or list(known)), arguments.limit)
        try:
            tailing.run()
        except KeyboardInterrupt:
            pass
        finally:
            print_remark(tailing.close())


def _sink(as_json: bool, losses: "Losses", streams: list[str]) -> "Sinks":
    from scope_cli.trace.sink import Sinks

    if as_json:
        from scope_cli.trace.ndjson import NdjsonSink

        return Sinks([NdjsonSink(sys.stdout.buffer, losses.accounts)])
    from scope_cli.trace.lines import LinesSink

    return Sinks([LinesSink(sys.stdout.buffer, losses.accounts, streams)])

"""`scope trace`: records on this machine, without a server."""

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scope_cli.definition import add_options, add_target, given_options, given_target, positional_option
from scope_cli.errors import CommandError, NotRun, UsageError
from scope_cli.printable import print_remark
from scope_cli.trace import STDOUT

if TYPE_CHECKING:
    from scope_bpf.catalogue.probe import Probe
    from scope_cli.trace.display import Display
    from scope_cli.trace.outputs import Outputs
    from scope_cli.trace.sink import Sinks
    from scope_cli.trace.tracing import Tracing

_TOP = 20
_STDERR_FD = 2


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "trace",
        help="record on this machine and show it as it happens; needs no server",
        usage="scope trace PROBE[,PROBE...] [WORD ...] [TARGET] [-o OPTION=VALUE ...] [--where FILTER] [OUTPUT ...] "
        "[-- COMMAND ...]",
        epilog="A COMMAND is held until every probe is attached; its children are traced too. The trace ends with "
        "the command, or at the second Ctrl-C (the first is the command's), and exits with the command's status. Some "
        "probes take words, which are short for an option: `scope probes span` shows which.",
    )
    parser.add_argument(
        "probe", nargs="?", metavar="PROBE[,PROBE...]", help="what to record; `scope probes` lists the probes"
    )
    add_target(parser)
    parser.add_argument("--duration", type=float, metavar="S", help="stop after this many seconds")
    add_options(parser)
    parser.add_argument(
        "--where", default="", metavar="FILTER", help="only rows that meet it, such as 'ret < 0 and duration > 1ms'"
    )
    table = parser.add_argument_group("tables")
    table.add_argument(
        "--by",
        type=_names,
        default=(),
        metavar="COLUMN[,...]",
        help="make a group of the rows with equal values of these",
    )
    table.add_argument("--sort", default="", metavar="COLUMN", help="rank the groups by this column")
    table.add_argument("--top", type=int, default=_TOP, metavar="N", help=f"show N groups (default: {_TOP})")
    output = parser.add_argument_group("output (several may be given)")
    output.add_argument("--lines", action="store_true", help="print a line per row as it happens, instead of tables")
    output.add_argument(
        "--json",
        nargs="?",
        type=Path,
        const=STDOUT,
        metavar="FILE",
        help="write a JSON object per row to FILE, in order of arrival, beside the tables; without FILE, to standard "
        "output instead of the tables (the command's own output then goes to standard error)",
    )
    output.add_argument("--parquet", type=Path, metavar="FILE", help="write a Parquet file per stream")
    output.add_argument("--perfetto", type=Path, metavar="FILE", help="write a trace for https://ui.perfetto.dev")
    output.add_argument("--flamegraph", type=Path, metavar="FILE", help="write a flame graph as SVG, for a browser")
    output.add_argument(
        "--folded", type=Path, metavar="FILE", help="write stacks as text for other tools: FRAME;FRAME;... WEIGHT"
    )
    parser.set_defaults(run=run, takes_command=True, takes_words=positional_option)


def run(arguments: argparse.Namespace) -> int:
    """Traces until the command, the process, the time or the user ends it; returns the exit status."""
    _import_numpy()
    from scope_bpf.catalogue.target import target_of
    from scope_bpf.errors import CannotRun, ScopeBpfError, TargetNotFound
    from scope_bpf.probes import probe_named
    from scope_catalogue.errors import InvalidFilter, InvalidOption, InvalidTarget, UnknownProbe
    from scope_cli.trace.tracing import Tracing

    _check(arguments)
    try:
        probes = [probe_named(name) for name in dict.fromkeys(arguments.probe.split(","))]
        target = target_of(given_target(arguments))
        with Tracing(probes, _options(arguments, probes), target, arguments.where, arguments.by) as tracing:
            if arguments.command:
                tracing.hold(arguments.command, _STDERR_FD if arguments.json == STDOUT else None)
            with ThreadPoolExecutor(1) as beside:
                started = beside.submit(tracing.start)  # the kernel verifies; meanwhile, the rest is imported
                outputs = _outputs(arguments, tracing)
                started.result()
            for limit in tracing.limits():
                print_remark(limit)
            _trace(tracing, outputs, arguments.duration)
            status = tracing.command.poll() if tracing.command else None
            if tracing.command and tracing.command.failure:
                raise tracing.command.failure
    except CannotRun as error:
        raise NotRun(str(error), error.status) from None
    except (UnknownProbe, InvalidOption, InvalidTarget, InvalidFilter, TargetNotFound) as error:
        raise UsageError(str(error)) from None
    except ScopeBpfError as error:
        raise CommandError(str(error)) from None
    return 128 - status if status and status < 0 else status or 0  # as a shell tells it


def _outputs(arguments: argparse.Namespace, tracing: "Tracing") -> "Outputs":
    from scope_cli.trace.outputs import Outputs
    from scope_cli.trace.tables import Wanted

    import_module("numpy.ma")  # Arrow imports it for the first array: rows would wait
    tables = Wanted(arguments.top, arguments.sort, arguments.by)
    outputs = Outputs(
        arguments.lines,
        arguments.json,
        arguments.parquet,
        arguments.perfetto,
        arguments.flamegraph,
        arguments.folded,
        tables,
    )
    outputs.check(tracing.streams)
    return outputs


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def _options(arguments: argparse.Namespace, probes: "Sequence[Probe]") -> dict[str, Any]:
    options = [option for probe in probes for option in probe.options]
    for_lines = {option.name: option.for_lines for option in options if option.for_lines and arguments.lines}
    return for_lines | given_options(arguments)


def _import_numpy() -> None:
    # OpenBLAS would start a thread per CPU, for nothing. The command gets the environment as its user has it.
    name = "OPENBLAS_NUM_THREADS"
    given = os.environ.get(name)
    os.environ[name] = "1"
    import_module("numpy")
    if given is None:
        del os.environ[name]
    else:
        os.environ[name] = given


def _check(arguments: argparse.Namespace) -> None:
    if arguments.probe is None:
        taken = f"--json took '{arguments.json}' as its FILE; write PROBE first"
        raise UsageError(taken if arguments.json else "PROBE is missing; `scope probes` lists the probes")
    if arguments.command and arguments.pid is not None:
        raise UsageError("give a command to trace or a --pid, not both")
    if arguments.duration is not None and not 0 < arguments.duration < math.inf:
        raise UsageError("--duration must be more than 0 seconds")
    if arguments.top < 1:
        raise UsageError("--top must be at least 1")


def _trace(tracing: "Tracing", outputs: "Outputs", duration: float | None) -> None:
    """Records until it is over, shows it, and says on standard error what there was."""
    from scope_cli.trace.display import Display
    from scope_cli.trace.ending import Ending
    from scope_cli.trace.recording import Recording
    from scope_cli.trace.sink import Sinks
    from scope_cli.trace.summary import summary_line
    from scope_cli.trace.tables import TableSink

    opened = outputs.open(tracing.streams, tracing.accounts)  # no file is overwritten where nothing can be recorded
    sink = Sinks(opened)
    recording = Recording(tracing.tracers, [stream for stream, _ in tracing.streams], sink, tracing.choice)
    ending = Ending(tracing, recording, duration)
    began = ended = time.monotonic()

    def line() -> str:
        seconds = (ended if ended > began else time.monotonic()) - began
        status = tracing.command.poll() if tracing.command else None
        return summary_line(recording.rows, recording.chosen, seconds, tracing.accounts(), status)

    tables = [view for one in opened if isinstance(one, TableSink) for view in one.views]
    is_live = bool(tables) and sys.stdout.isatty() and not tracing.command  # a command has the terminal for itself
    display = Display(tables, outputs.tables, line, is_live)  # before rows come, whom its imports would hold up
    recording.start()
    began = time.monotonic()
    ending.begin()
    if tracing.command:
        tracing.command.release()
    with display:
        ending.wait()
        ended = time.monotonic()
        recording.stop()
    notes = [*tracing.notes(), *tracing.choice.notes()]
    if tracing.command and tracing.command.poll() is None:
        notes.append(f"the command still runs, as process {tracing.command.pid}; its status is not known")
    _end(recording.error, sink, display, notes, line)


def _end(
    error: BaseException | None, sink: "Sinks", display: "Display", notes: list[str], line: Callable[[], str]
) -> None:
    stopped = error if not isinstance(error, BrokenPipeError) else None
    told: list[str] = []
    try:
        told = sink.close()
    except BrokenPipeError:
        pass  # nobody reads any more, which is no error
    except CommandError:
        if not stopped:
            raise
    if stopped:
        raise CommandError(f"recording stopped: {stopped}") from stopped
    try:
        display.show()
    except BrokenPipeError:
        raise
    except OSError as failure:
        raise CommandError(f"cannot write the tables: {failure.strerror or failure}") from None
    for each in (*told, *notes, line()):
        print_remark(each)

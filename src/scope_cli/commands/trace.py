"""`scope trace`: records on this machine, without a server."""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scope_cli.definition import add_options, add_target, given_options, given_target
from scope_cli.errors import CommandError, NotRun, UsageError

if TYPE_CHECKING:
    from scope_bpf.capture.account import Account
    from scope_bpf.capture.command import HeldCommand
    from scope_bpf.capture.tracer import Tracer
    from scope_cli.sinks import Sink

POLL_MS = 100
REDRAWS_PER_SECOND = 2
EVERYTHING = 10_000  # lines; where nothing is redrawn nothing has to fit


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "trace",
        help="record on this machine and show it as it happens; needs no server",
        epilog="A COMMAND is held until the probe is attached; its children are traced too; the trace ends with it.",
        usage="scope trace PROBE [TARGET] [-o OPTION=VALUE ...] [--json | --parquet FILE | --perfetto FILE] "
        "[-- COMMAND ...]",
    )
    parser.add_argument("probe", metavar="PROBE", help="what to record; `scope probes` lists them")
    add_target(parser)
    parser.add_argument("--duration", type=float, metavar="S", help="stop after this many seconds")
    add_options(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="a JSON object a line, instead of the table")
    output.add_argument("--parquet", type=Path, metavar="FILE", help="a Parquet file a stream")
    output.add_argument("--perfetto", type=Path, metavar="FILE", help="a trace for https://ui.perfetto.dev")
    parser.set_defaults(run=run, takes_command=True)


def run(arguments: argparse.Namespace) -> None:
    """Traces until the command, the time or the user ends it; then says what was recorded and lost."""
    from scope_bpf.capture.command import HeldCommand
    from scope_bpf.capture.tracer import Tracer
    from scope_bpf.catalogue.options import parse_options
    from scope_bpf.catalogue.target import target_of
    from scope_bpf.errors import (
        CannotRun,
        InvalidOption,
        InvalidTarget,
        ScopeBpfError,
        TargetNotFound,
        UnknownProbe,
    )
    from scope_bpf.probes import probe_named

    if arguments.command and arguments.pid is not None:
        raise UsageError("give a command to trace or a --pid, not both")
    if arguments.duration is not None and arguments.duration <= 0:
        raise UsageError("--duration must be more than 0 seconds")
    command = None
    try:
        probe = probe_named(arguments.probe)
        options = parse_options(probe.options, given_options(arguments))
        target = target_of(given_target(arguments))
        command = HeldCommand(arguments.command) if arguments.command else None
        if command and not probe.sampler:
            target = replace(target, pid=command.pid)
        with Tracer(probe, options, target, command=command.path if command else "") as tracer:
            _check_output(arguments, tracer)
            tracer.start()
            sink = _sink(arguments, tracer)  # no file is overwritten where nothing can be recorded
            _trace(tracer, sink, command, arguments.duration)
        if command and command.failure:
            raise command.failure
    except CannotRun as error:
        raise NotRun(str(error), error.status) from None
    except (UnknownProbe, InvalidOption, InvalidTarget, TargetNotFound) as error:
        raise UsageError(str(error)) from None
    except ScopeBpfError as error:
        raise CommandError(str(error)) from None
    finally:
        if command:
            command.close()


def _check_output(arguments: argparse.Namespace, tracer: "Tracer") -> None:
    from scope_bpf.catalogue.stream import Mode

    if not arguments.perfetto:
        return
    if not any(stream.timeline for stream in tracer.probe.streams):
        raise UsageError(f"probe '{tracer.probe.name}' has nothing for a timeline; leave out --perfetto")
    if tracer.mode is Mode.SUMMARY:
        raise UsageError("a timeline is made of events; leave out --mode summary")


def _sink(arguments: argparse.Namespace, tracer: "Tracer") -> "Sink":
    from scope_cli.sinks import NdjsonSink, ParquetSink, TableSink

    streams = tuple(stream for stream in tracer.probe.streams_of(tracer.mode) if not stream.internal)
    if arguments.json:
        return NdjsonSink()
    if arguments.parquet:
        return ParquetSink(arguments.parquet, tracer.probe, streams)
    if arguments.perfetto:
        from scope_cli.perfetto.sink import PerfettoSink

        return PerfettoSink(arguments.perfetto, tracer.accounts)
    return TableSink(streams)


class _Recording(threading.Thread):
    """Polls and feeds the sink until it is stopped, then takes what is left."""

    def __init__(self, tracer: "Tracer", sink: "Sink") -> None:
        from scope_bpf.capture.columns import to_arrow

        super().__init__(name="recording")
        self._tracer, self._sink, self._to_arrow = tracer, sink, to_arrow
        self._stopped = threading.Event()
        self.rows = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._write(self._tracer.poll(POLL_MS))
            self._write(self._tracer.finish())
        except BaseException as error:
            self.error = error

    def _write(self, batches: Sequence[Any]) -> None:
        for batch in batches:
            self.rows += batch.count
            self._sink.write(batch.stream, self._to_arrow(batch, self._sink.columns(batch.stream)))

    def stop(self) -> None:
        """Ends the recording and waits for what is left."""
        self._stopped.set()
        self._tracer.wake()
        self.join()


def _trace(tracer: "Tracer", sink: "Sink", command: "HeldCommand | None", duration: float | None) -> None:
    interrupted = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    recording = _Recording(tracer, sink)
    show_until = _display(tracer, sink)  # imports what it needs now: once events come, that would hold them up
    recording.start()
    began = time.monotonic()
    if command:
        command.release()

    def over() -> bool:
        return (
            interrupted.is_set()
            or not recording.is_alive()
            or (duration is not None and time.monotonic() - began >= duration)
            or (command is not None and command.poll() is not None)
        )

    show_until(over, recording, began)
    seconds = time.monotonic() - began
    if recording.error and not isinstance(recording.error, BrokenPipeError):
        raise CommandError(f"recording stopped: {recording.error}") from recording.error
    try:
        lines = sink.close()
    except OSError as error:
        raise CommandError(f"cannot write the rest: {error.strerror or error}") from None
    lines += tracer.notes()
    _summarize(recording.rows, seconds, tracer.accounts(), lines, command)


Display = Callable[[Callable[[], bool], _Recording, float], None]


def _display(tracer: "Tracer", sink: "Sink") -> Display:
    """Shows until it is over: the table redrawn where somebody can see it, its last state in any case."""
    from scope_cli.sinks import TableSink

    def wait(over: Callable[[], bool], recording: _Recording, _began: float) -> None:
        _wait(over)
        recording.stop()

    if not isinstance(sink, TableSink):
        return wait

    from rich.console import Console
    from rich.live import Live

    from scope_cli.live import render

    console = Console()
    aggregates = sink.aggregates

    def table(began: float, height: int) -> Any:
        return render(aggregates, tracer.accounts(), time.monotonic() - began, height)

    def print_last(over: Callable[[], bool], recording: _Recording, began: float) -> None:
        wait(over, recording, began)
        console.print(table(began, EVERYTHING))

    def redraw(over: Callable[[], bool], recording: _Recording, began: float) -> None:
        with Live(
            get_renderable=lambda: table(began, console.height), console=console, refresh_per_second=REDRAWS_PER_SECOND
        ):
            wait(over, recording, began)

    return redraw if console.is_terminal else print_last


def _wait(over: Callable[[], bool]) -> None:
    while not over():
        time.sleep(0.02)


def _summarize(
    rows: int, seconds: float, accounts: "dict[str, Account]", lines: list[str], command: "HeldCommand | None"
) -> None:
    lost: dict[str, int] = {}
    for account in accounts.values():
        for reason, count in account.lost.items():
            lost[reason] = lost.get(reason, 0) + count
    said = ", ".join(f"{count:,} lost ({reason})" for reason, count in lost.items()) or "none lost"
    if "ring_full" in lost:
        said += "; give it room with -o ring_bytes=N, or use --mode summary"
    if "file_unopened" in lost:
        said += "; files could not be attached to for want of descriptors or memory: raise the limit (ulimit -n)"
    if "file_refused" in lost:
        said += "; the kernel refused to attach to files: the log names them"
    incomplete = sum(account.incomplete for account in accounts.values())
    if incomplete:
        said += f"; {incomplete:,} rows are without a stack or a name, for which there was no room"
    for line in lines:
        print(line, file=sys.stderr)
    ended = ""
    if command and (status := command.poll()):
        ended = f"; the command ended with {f'signal {-status}' if status < 0 else f'status {status}'}"
    print(f"{rows:,} events in {seconds:.1f} s, {said}{ended}", file=sys.stderr)

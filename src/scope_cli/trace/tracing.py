"""Several probes, one target, one command: all are attached before the command runs."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

import pyarrow as pa

from scope_bpf.capture.account import Account
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.events import WAITING_BYTES
from scope_bpf.capture.memberships import TEXT
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.described import described_stream
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.target import Target
from scope_bpf.host import memory_bytes
from scope_catalogue.options import parse_options
from scope_catalogue.stream import DescribedStream
from scope_views.choice import Choice

WAITING_SHARE = 8  # of the memory: what waits for slow outputs may take this part before events are lost


class Tracing:
    """Tracers of one target and, perhaps, a command that is held until it is released. A context, which closes them.

    Args:
        options: as the user gave them; each goes to every probe that has it.
        where: a filter on the rows; empty: none.
        by: columns that must be made.

    Attributes:
        streams: the streams whose rows there will be, with their schemas.
        choice: which of the rows are wanted.
        command: the command; None: none is held.
        tracers: one per probe, once they are started.
        pidfds: of the command or of the process that is watched; readable when it has ended.

    Raises:
        InvalidOption, InvalidFilter: an option or the filter is not valid.
    """

    def __init__(
        self,
        probes: Sequence[Probe],
        options: Mapping[str, str],
        target: Target,
        where: str = "",
        by: Sequence[str] = (),
    ) -> None:
        parsed = [(probe, parse_options(probe.options, _own(probe, probes, options))) for probe in probes]
        self.streams = [
            _with_processes(described_stream(probe, stream), probe.schema(stream), by)
            for probe, chosen in parsed
            for stream in probe.streams_of(probe.mode_of(chosen))
            if not stream.internal
        ]
        self.choice = Choice(where, [stream for stream, _ in self.streams], by)
        self._probes = [(probe, self.choice.narrowed(probe.name, probe.options, chosen)) for probe, chosen in parsed]
        self._target = target
        self.command: HeldCommand | None = None
        self.tracers: list[Tracer] = []
        self.pidfds: list[int] = []
        self._open = ExitStack()

    def hold(self, command: Sequence[str], output: int | None) -> None:
        """Starts a command that is held until its `release`: it and its children become the target.

        Args:
            output: the descriptor that the command's output goes to; None: this process's.

        Raises:
            CannotRun: it cannot be executed.
        """
        self.command = HeldCommand(command, output)
        self._open.callback(self.command.close)
        self._target = replace(self._target, pid=self.command.pid)
        self._await(self.command.pid)

    def _await(self, pid: int) -> None:
        self.pidfds.append(os.pidfd_open(pid))
        self._open.callback(os.close, self.pidfds[-1])

    def start(self) -> None:
        """Attaches all probes.

        Raises:
            ScopeBpfError: one cannot run here.
        """
        path = self.command.path if self.command else ""
        if self._target.pid is not None and not self.command:
            with suppress(OSError):  # a process that does not exist is the tracer's to tell
                self._await(self._target.pid)
        waiting = max(WAITING_BYTES, memory_bytes() // WAITING_SHARE // len(self._probes))
        for probe, options in self._probes:
            of_machine = probe.sampler and self.command  # samples are of the whole machine
            target = Target() if of_machine else self._target
            tracer = Tracer(probe, options, target, command=path, waiting_bytes=waiting)
            self._open.callback(tracer.close)
            tracer.start()
            self.tracers.append(tracer)

    def accounts(self) -> dict[str, Account]:
        """The books of every stream. From any thread."""
        return {name: account for tracer in self.tracers for name, account in tracer.accounts().items()}

    def limits(self) -> list[str]:
        """What the probes cannot record, a line for each; `notes` tells how much of it there was."""
        return [
            f"{tracer.probe.name} does not record {' and '.join(unseen)}; the end tells if there were any"
            for tracer in self.tracers
            if (unseen := tracer.unseen.values())
        ]

    def notes(self) -> list[str]:
        """What the probes may not have seen."""
        return [note for tracer in self.tracers for note in tracer.notes()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()


def _with_processes(stream: DescribedStream, schema: pa.Schema, by: Sequence[str]) -> tuple[DescribedStream, pa.Schema]:
    """A stream with the containers of its processes, and with what else makes groups."""
    whole = stream.with_processes(("container", *(name for name in by if name != "container")))
    return whole, pa.schema([*schema, *(pa.field(name, TEXT) for name in whole.by_name if name not in schema.names)])


def _own(probe: Probe, probes: Sequence[Probe], options: Mapping[str, str]) -> dict[str, str]:
    """The options for this probe; one that no probe has is each one's to refuse."""
    own, known = {option.name for option in probe.options}, {option.name for each in probes for option in each.options}
    return {name: value for name, value in options.items() if name in own or name not in known}

"""Several probes, one target, one command: all are attached before the command runs."""

import os
import select
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

import pyarrow as pa

from scope_bpf.capture.account import Account
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.options import parse_options
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.stream import Stream
from scope_bpf.catalogue.target import Target


class Tracing:
    """Tracers of one target and, perhaps, a command that is held until `release`. A context, which closes them.

    Args:
        options: as the user gave them; each goes to every probe that has it.
        command: the command's words; empty: none.
        output: the descriptor that the command's output goes to; None: this process's.

    Raises:
        InvalidOption, InvalidTarget, CannotRun: what was given cannot be.
    """

    def __init__(
        self,
        probes: Sequence[Probe],
        options: Mapping[str, str],
        target: Target,
        command: Sequence[str] = (),
        output: int | None = None,
    ) -> None:
        parsed = [parse_options(probe.options, _own(probe, probes, options)) for probe in probes]
        self.command: HeldCommand | None = None
        self._pidfd: int | None = None
        self._open = ExitStack()
        if command:
            self.command = HeldCommand(command, output)
            self._open.callback(self.command.close)
            target = replace(target, pid=self.command.pid)
        elif target.pid is not None:
            with suppress(OSError):  # whoever does not exist is told by the tracer
                self._pidfd = os.pidfd_open(target.pid)
                self._open.callback(os.close, self._pidfd)
        path = self.command.path if self.command else ""
        self.tracers = [
            Tracer(probe, chosen, Target() if probe.sampler and self.command else target, command=path)
            for probe, chosen in zip(probes, parsed, strict=True)
        ]

    @property
    def streams(self) -> list[tuple[Stream, pa.Schema]]:
        """The streams whose rows there will be, with their schemas."""
        return [
            (stream, tracer.probe.schema(stream))
            for tracer in self.tracers
            for stream in tracer.probe.streams_of(tracer.mode)
            if not stream.internal
        ]

    def start(self) -> None:
        """Attaches all probes.

        Raises:
            ScopeBpfError: one cannot run here.
        """
        for tracer in self.tracers:
            self._open.callback(tracer.close)
            tracer.start()

    def is_over(self) -> bool:
        """Whether the command, or the process that is watched, has ended."""
        if self.command:
            return self.command.poll() is not None
        return self._pidfd is not None and bool(select.select([self._pidfd], [], [], 0)[0])

    def accounts(self) -> dict[str, Account]:
        """The books of every stream. From any thread."""
        return {name: account for tracer in self.tracers for name, account in tracer.accounts().items()}

    def notes(self) -> list[str]:
        """What the probes may not have seen."""
        return [note for tracer in self.tracers for note in tracer.notes()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()


def _own(probe: Probe, probes: Sequence[Probe], options: Mapping[str, str]) -> dict[str, str]:
    """The options for this probe; one that no probe has is each one's to refuse."""
    own, known = {option.name for option in probe.options}, {option.name for each in probes for option in each.options}
    return {name: value for name, value in options.items() if name in own or name not in known}

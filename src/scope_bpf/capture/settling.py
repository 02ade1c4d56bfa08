"""Rows that are due without an event, such as those of something that has been idle for a while."""

import math
import time
from collections.abc import Collection, Mapping
from typing import Any

from scope_bpf.binding.link import Iterator
from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.statistics import Cost, program_cost
from scope_bpf.capture.batch import Batch
from scope_bpf.capture.part import Part
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.target import Target

EVERY_S = 1.0
_DUE, _ALL = 0, 1  # the programs' argument
_FIRST = bytes(4)  # key of a data section


class Settling(Part):
    """Runs the programs that settle the probe's event streams, see `Stream.settled`, and those that find what the
    target had before the trace began, see `Probe.found_by`."""

    def __init__(self, probe: Probe, options: Mapping[str, Any]) -> None:
        self._every_s = {
            settled.by: options[settled.every] / 1000 if settled.every else EVERY_S
            for stream in probe.event_streams
            if (settled := stream.settled)
        }
        self._finding = probe.found_by
        self._iterators: dict[str, Iterator] = {}
        self._object: BpfObject | None = None
        self._next: dict[str, float] = {}
        self._ended_cost = Cost()

    def programs(self) -> Collection[str]:
        """The programs that settle and find."""
        return {*self._every_s, *self._finding}

    def start(self, object_: BpfObject) -> None:
        """Begins to run them."""
        self._object = object_
        self._next = {name: time.monotonic() + every_s for name, every_s in self._every_s.items()}

    def attach(self, object_: BpfObject) -> None:
        """Finds what was there before."""
        for name in self.programs():
            if object_.is_iterator(name):
                self._iterators[name] = object_.iterator(name)
        for name in self._finding:
            self._iterators[name].run()

    def retarget(self, target: Target) -> None:
        """Finds what the new target had before."""
        for name in self._finding:
            self._iterators[name].run()

    def due_s(self) -> float:
        """Seconds until they run again."""
        return min(self._next.values(), default=math.inf) - time.monotonic()

    def poll(self) -> list[Batch]:
        """Runs them if that is due. Their rows come from the rings."""
        for name, due in self._next.items():
            if due <= time.monotonic():
                self._next[name] = time.monotonic() + self._every_s[name]
                self._run(name, _DUE)
        return []

    def cost(self) -> Cost:
        """The cost of these programs."""
        found = [self._object.program_fd(name) for name in self.programs()] if self._object else []
        return sum((program_cost(fd) for fd in found), self._ended_cost)

    def detach(self) -> None:
        """Runs them for the last time, for everything that is left."""
        for name in self._every_s:
            self._run(name, _ALL)
        self._ended_cost, self._object = self.cost(), None
        self._close_iterators()

    def close(self) -> None:
        """Closes the iterators. May be called again."""
        self._close_iterators()

    def _close_iterators(self) -> None:
        while self._iterators:
            self._iterators.popitem()[1].close()

    def _run(self, program: str, argument: int) -> None:
        if not self._object:
            return
        if program in self._iterators:
            self._object.map(".data.settle").update(_FIRST, bytes([argument]))
            self._iterators[program].run()
        else:
            self._object.run(program, argument)

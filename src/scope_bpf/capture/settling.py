"""Rows that are due without an event, such as those of something that has been idle for a while."""

import math
import time
from collections.abc import Collection

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
    """Runs the programs that settle the probe's event streams, see `Stream.settled_by`, and those that find what the
    target had before the trace began, see `Probe.found_by`."""

    def __init__(self, probe: Probe) -> None:
        self._programs = [stream.settled_by for stream in probe.event_streams if stream.settled_by]
        self._finding = probe.found_by
        self._iterators: dict[str, Iterator] = {}
        self._object: BpfObject | None = None
        self._next = math.inf
        self._ended_cost = Cost()

    def programs(self) -> Collection[str]:
        """The programs that settle and find."""
        return (*self._programs, *self._finding)

    def start(self, object_: BpfObject) -> None:
        """Begins to run them."""
        self._object, self._next = object_, time.monotonic() + EVERY_S

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
        return self._next - time.monotonic()

    def poll(self) -> list[Batch]:
        """Runs them if that is due. Their rows come from the rings."""
        if self.due_s() <= 0:
            self._next = time.monotonic() + EVERY_S
            self._run(_DUE)
        return []

    def cost(self) -> Cost:
        """The cost of these programs."""
        found = [self._object.program_fd(name) for name in self.programs()] if self._object else []
        return sum((program_cost(fd) for fd in found), self._ended_cost)

    def detach(self) -> None:
        """Runs them for the last time, for everything that is left."""
        self._run(_ALL)
        self._ended_cost, self._object = self.cost(), None
        self._close_iterators()

    def close(self) -> None:
        """Closes the iterators. May be called again."""
        self._close_iterators()

    def _close_iterators(self) -> None:
        while self._iterators:
            self._iterators.popitem()[1].close()

    def _run(self, argument: int) -> None:
        for program in self._programs if self._object else ():
            assert self._object
            if program in self._iterators:
                self._object.map(".data.settle").update(_FIRST, bytes([argument]))
                self._iterators[program].run()
            else:
                self._object.run(program, argument)

"""Rows that are due without an event, such as those of something that has been idle for a while."""

import math
import time
from collections.abc import Collection

from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.statistics import Cost, program_cost
from scope_bpf.capture.batch import Batch
from scope_bpf.capture.part import Part
from scope_bpf.catalogue.probe import Probe

EVERY_S = 1.0
_DUE, _ALL = 0, 1  # the programs' argument


class Settling(Part):
    """Runs the programs that settle the probe's event streams; see `Stream.settled_by`."""

    def __init__(self, probe: Probe) -> None:
        self._programs = [stream.settled_by for stream in probe.event_streams if stream.settled_by]
        self._object: BpfObject | None = None
        self._next = math.inf
        self._ended_cost = Cost()

    def programs(self) -> Collection[str]:
        """The programs that settle."""
        return self._programs

    def start(self, object_: BpfObject) -> None:
        """Begins to run them."""
        self._object, self._next = object_, time.monotonic() + EVERY_S

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
        found = [self._object.program_fd(name) for name in self._programs] if self._object else []
        return sum((program_cost(fd) for fd in found), self._ended_cost)

    def detach(self) -> None:
        """Runs them for the last time, for everything that is left."""
        self._run(_ALL)
        self._ended_cost, self._object = self.cost(), None

    def _run(self, argument: int) -> None:
        for program in self._programs if self._object else ():
            assert self._object
            self._object.run(program, argument)

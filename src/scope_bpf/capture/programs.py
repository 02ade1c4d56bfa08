"""A probe's programs in the kernel: loads them, sets their filter, attaches them."""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.statistics import Cost, program_cost
from scope_bpf.capture.filter import Filter
from scope_bpf.capture.lookup import QUESTIONS
from scope_bpf.capture.part import Part
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.target import Target
from scope_bpf.code.mappings import running_processes
from scope_bpf.code.modules import FIND_CODE
from scope_bpf.layout.records import enum_values

FOLLOW, FORGET = "scope_follow_fork", "scope_forget_process"  # filter.bpf.h
FORGET_EVERY_S = 10.0


class Programs:
    """A probe's programs for one alternative, with one target at a time.

    Attributes:
        object: the BPF object; `start` loads it.

    Raises:
        KernelError: libbpf cannot read the object.
    """

    def __init__(self, probe: Probe, alternative: Alternative, target: Target) -> None:
        self._probe, self._alternative, self._target = probe, alternative, target
        self.object = BpfObject(probe.elf, probe.btf, probe.name)
        self._filter: Filter | None = None
        self._next_forgetting = 0.0

    def start(self, parts: Sequence[Part], options: Mapping[str, Any], excluded: Callable[[], Collection[int]]) -> None:
        """Loads, sets the filter, then attaches. Programs at the end of a call are attached before those at its start.

        Raises:
            KernelError, VerifierError: the kernel refused.
            TargetNotFound: the target does not exist.
        """
        chosen = self._probe.hooks(options)
        programs = (FOLLOW, *self._alternative.programs, *chosen.programs, FORGET)
        of_parts = {program for part in parts for program in part.programs()}
        events = {**self._alternative.software_events, **chosen.software_events}
        self.object.select_programs(
            {*programs, *events, *chosen.sampled, *chosen.last, *of_parts, *QUESTIONS, FIND_CODE}
        )
        constants = dict(self._probe.constants(options))
        for part in parts:
            constants |= part.constants()
            part.prepare(self.object)
        self.object.set_constants(constants)
        self.object.load()
        for part in parts:
            part.start(self.object)
        self._filter = Filter(self._probe.btf, self.object)
        self._filter.apply(self._target)
        self.object.attach(FOLLOW)
        # The kernel excludes what an excluded process starts. One that was started when its parent was listed, but not
        # excluded yet, is in the next list.
        while self._filter.exclude((os.getpid(), *excluded())):
            pass
        numbers = enum_values(self._probe.btf, "perf_sw_ids") if events else {}
        for program, event in events.items():
            self.object.attach_to_software_event(program, numbers[event])
        for program in programs[1:]:
            self.object.attach(program)
        for part in parts:
            part.attach(self.object)
        for program in chosen.last:
            self.object.attach(program)
        for program, rate in chosen.sampled.items():
            self.object.attach_to_clock(program, rate)

    def retarget(self, target: Target) -> None:
        """Watches another target from the next event on.

        Raises:
            TargetNotFound: the target does not exist; the old one stays.
        """
        assert self._filter
        self._filter.apply(target)
        self._target = target

    def possibly_watched(self) -> Collection[int]:
        """Processes that may belong to the target: the descendants of a pid, or all processes. From any thread.

        The programs' filter skips those that are not watched.
        """
        assert self._filter
        return self._filter.watched() if self._target.pid else running_processes()

    def marked(self) -> set[int]:
        """Host pids of all marked processes: watched by this or an earlier target, or excluded."""
        return self._filter.marked() if self._filter else set()

    def forget_ended(self) -> None:
        """Forgets ended processes. Call it at intervals: the kernel does not report every end; bpftrace misses the same
        ones."""
        if self._filter and time.monotonic() >= self._next_forgetting:
            self._next_forgetting = time.monotonic() + FORGET_EVERY_S
            self._filter.forget_ended()

    def cost(self) -> Cost:
        """The CPU cost of the attached programs, without those at functions."""
        return sum((program_cost(fd) for fd in self.object.program_fds()), Cost())

    def detach(self) -> Cost:
        """Detaches the programs; returns their total cost."""
        attached = self.object.program_fds()
        self.object.detach()
        return sum((program_cost(fd) for fd in attached), Cost())

    def close(self) -> None:
        """Frees everything. May be called again."""
        if self._filter:
            self._filter.close()
            self._filter = None
        self.object.close()

"""A probe that runs: an object, whom it watches, and the parts that its rows come from."""

import math
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.statistics import Cost, program_cost
from scope_bpf.capture.account import Account
from scope_bpf.capture.books import KernelBooks
from scope_bpf.capture.columns import Batch, RawBatch
from scope_bpf.capture.events import Events
from scope_bpf.capture.filter import FIND_INODE, Filter
from scope_bpf.capture.functions import Functions
from scope_bpf.capture.part import Part
from scope_bpf.capture.samples import Samples
from scope_bpf.capture.states import States
from scope_bpf.capture.summaries import Summaries
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Mode
from scope_bpf.catalogue.target import Target
from scope_bpf.code.mappings import running_processes
from scope_bpf.code.modules import FIND_CODE
from scope_bpf.errors import InvalidOption, KernelError, NotSupported, ScopeBpfError, VerifierError
from scope_bpf.host import require_bpf

FOLLOW, FORGET = "scope_follow_fork", "scope_forget_process"  # filter.bpf.h
FORGET_EVERY_S = 10.0


class Tracer:
    """Runs one probe for one target: `start`, then `poll` from one thread, then `finish` and `close`.

    `wake`, `accounts`, `cost`, `latest` and `close` may be called from any thread and at any time, before `start` and
    after `close` too.

    Args:
        options: all of the probe's options, from `parse_options`.
        excluded: lists processes to be left out besides this one; asked while the probe starts.
        command: the path of a command that the target is about to run.
        books: where in a BPF file system the kernel's books are pinned before the first event; the caller's to remove.

    Attributes:
        attach_point: the alternative taken; of a probe of samples, what it looks at.
        refused: better alternatives that this host lacks, with the reason.
    """

    def __init__(
        self,
        probe: Probe,
        options: Mapping[str, Any],
        target: Target | None = None,
        excluded: Callable[[], Collection[int]] = tuple,
        command: str = "",
        *,
        books: Path | None = None,
    ) -> None:
        self.probe, self.options = probe, options
        self.attach_point = ""
        self.refused: list[str] = []
        self.mode = probe.mode_of(options)
        self._target, self._excluded, self._command, self._books_path = target or Target(), excluded, command, books
        self._lock = threading.RLock()  # around what other threads ask for, and what would take it from under them
        self._polling = threading.Lock()  # whoever closes waits for a poll under way
        self._parts: list[Part] = []
        self._object: BpfObject | None = None
        self._filter: Filter | None = None
        self._events: Events | None = None
        self._functions: Functions | None = None
        self._samples: Samples | None = None
        self._woken = threading.Event()
        self._next_forgetting = 0.0
        self._ended_cost: Cost | None = None
        self._last_accounts: dict[str, Account] = {}

    @property
    def streams_by_number(self) -> list[str]:
        """The streams in the order of their numbers in the kernel's books."""
        return [stream.name for stream in self.probe.counted_streams]

    def start(self) -> None:
        """Takes the first alternative that this host loads and attaches.

        Raises:
            MissingCapability, NotSupported: no alternative works here; the message has each one's reason.
            VerifierError: the kernel refused a program of the last one.
            TargetNotFound: the target does not exist.
            InvalidOption: the probe looks at the whole machine, and the target is not that.
        """
        if self.probe.sampler:
            self._start_sampling()
            return
        require_bpf()
        self._target.conditions()
        for alternative in self.probe.alternatives:
            try:
                self._start(alternative)
            except KernelError as error:
                self._free()
                if isinstance(error, VerifierError) and alternative is self.probe.alternatives[-1]:
                    raise
                self.refused.append(f"{alternative.name}: {error}")
            except ScopeBpfError:
                self._free()
                raise
            else:
                self.attach_point = alternative.name
                return
        raise NotSupported(f"probe '{self.probe.name}' cannot run here: {'; '.join(self.refused)}")

    def _start_sampling(self) -> None:
        if self._target != Target():
            raise InvalidOption(f"probe '{self.probe.name}' looks at the whole machine; leave the target out")
        samples = Samples(self.probe, self.options)
        self.attach_point = samples.source
        with self._lock:
            self._samples, self._parts = samples, [samples]

    def _start(self, alternative: Alternative) -> None:
        object_ = BpfObject(self.probe.elf, self.probe.btf, self.probe.name)
        with self._lock:
            self._object = object_
            self._parts = parts = self._make_parts(alternative)
        programs = (FOLLOW, *alternative.programs, FORGET)
        in_functions = self._functions.programs if self._functions else set()
        object_.select_programs((*programs, *in_functions, FIND_INODE, FIND_CODE))
        constants = dict(self.probe.constants(self.options))
        for part in parts:
            constants |= part.constants()
            part.prepare(object_)
        object_.set_constants(constants)
        object_.load()
        for part in parts:
            part.start(object_)
        self._filter = Filter(self.probe.btf, object_)
        self._filter.apply(self._target)
        object_.attach(FOLLOW)
        # Whoever is started from now on is left out by the kernel; who was started before is listed here.
        self._filter.exclude((os.getpid(), *self._excluded()))
        for program in programs[1:]:
            object_.attach(program)
        for part in parts:
            part.attach(object_)

    def _make_parts(self, alternative: Alternative) -> list[Part]:
        """Those that the probe's streams and places ask for, books first."""
        probe = self.probe
        self._events = Events(probe, probe.event_streams, self.options, self.mode)
        parts: list[Part] = [KernelBooks(probe.counted_streams, self._books_path), self._events]
        if probe.summaries:
            parts.append(Summaries(probe, probe.summaries, self._events, self.options, self.mode))
        if probe.states or probe.kept_by_process:
            parts.append(States(probe, probe.states, self.options))
        if probe.functions:
            self._functions = Functions(probe, alternative.uprobe_multi, self._command, self._possible_processes)
            parts.append(self._functions)
        return parts

    def _possible_processes(self) -> Collection[int]:
        """Those that the target may be about: a pid's family, or anybody, of whom the programs leave out the others."""
        assert self._filter
        return self._filter.watched() if self._target.pid else running_processes()

    def poll(self, timeout_ms: int) -> list[Batch]:
        """Waits until there are rows or the time is over; the batches since the last poll, of every stream.

        Raises:
            KernelError: something of it failed; it is of no use any more.
        """
        with self._polling:
            seconds = min(timeout_ms / 1000, *(part.due_s() for part in self._parts), math.inf)
            if self._events:
                self._events.wait(seconds)
            elif self._woken.wait(max(0.0, seconds)):
                self._woken.clear()
            if self._filter and time.monotonic() >= self._next_forgetting:
                self._next_forgetting = time.monotonic() + FORGET_EVERY_S
                self._filter.forget_ended()
            return self._resolved([batch for part in self._parts for batch in part.poll()])

    def _resolved(self, batches: list[Batch]) -> list[Batch]:
        """The same, with what computes the columns that take more than the rows."""
        resolver = self._functions.resolver if self._functions else None
        return [
            replace(batch, resolver=resolver) if isinstance(batch, RawBatch) and batch.stream.resolved else batch
            for batch in batches
        ]

    def wake(self) -> None:
        """Ends the poll under way, or the next one, early. From any thread."""
        with self._lock:
            self._woken.set()
            if self._events:
                self._events.wake()

    @property
    def functions_attached(self) -> int:
        """To how many functions of user space the probe is, or was, attached: the same one counts in each file."""
        return self._functions.attached if self._functions else 0

    @property
    def latest(self) -> Mapping[str, pa.RecordBatch]:
        """Of a probe of samples, the last look's rows by stream. From any thread."""
        return self._samples.latest if self._samples else {}

    def retarget(self, target: Target) -> None:
        """Watches another target from the next event on.

        Raises:
            TargetNotFound: it does not exist; the old one stays.
        """
        assert self._filter
        self._filter.apply(target)
        self._target = target

    def watched_pids(self) -> set[int]:
        """The processes that are marked, by pid: watched by this or an earlier target, or left out."""
        return self._filter.marked() if self._filter else set()

    def set_mode(self, mode: Mode) -> None:
        """Switches between events and summary while running. From the polling thread."""
        self.mode = mode
        for part in self._parts:
            part.set_mode(mode)

    def accounts(self) -> dict[str, Account]:
        """The books of every stream since the start; after `close`, as they stood then. From any thread."""
        with self._lock:
            if not self._parts:
                return self._last_accounts
            accounts: dict[str, Account] = {}
            for part in self._parts:
                part.count(accounts)
            missed = self.cost().missed
            if missed:  # put down to the first stream: what the runs would have emitted is not known
                account = accounts[first := next(iter(accounts))]
                lost = {**account.lost, "missed_run": missed}
                accounts[first] = replace(account, emitted=account.emitted + missed, lost=lost)
            return accounts

    def cost(self) -> Cost:
        """What all programs have cost so far, as the kernel counts while `KernelStatistics` are on. From any thread."""
        with self._lock:
            if self._ended_cost is not None:
                return self._ended_cost
            return self._cost_of(self._object.program_fds() if self._object else [])

    def _cost_of(self, attached: Collection[int]) -> Cost:
        return sum((program_cost(fd) for fd in attached), sum((part.cost() for part in self._parts), Cost()))

    def finish(self) -> list[Batch]:
        """Detaches and returns all that was not polled yet.

        Raises:
            KernelError: the kernel refused to give it.
        """
        with self._polling:
            self._detach()
            return self._resolved([batch for part in self._parts for batch in part.rest()])

    def _detach(self) -> None:
        with self._lock:
            if self._ended_cost is not None:
                return
            programs = self._object.program_fds() if self._object else []
            for part in reversed(self._parts):
                part.detach()
            if self._object:
                self._object.detach()
            self._ended_cost = self._cost_of(programs)

    def _free(self) -> None:
        """Undoes a start."""
        with self._lock:
            while self._parts:
                self._parts.pop().close()
            self._events = self._functions = None
            if self._filter:
                self._filter.close()
                self._filter = None
            if self._object:
                self._object.close()
                self._object = None

    def close(self) -> None:
        """Detaches and frees everything. May be called again."""
        self.wake()
        with self._polling, self._lock:
            if not self._parts:
                return
            self._detach()
            self._last_accounts = self.accounts()
            functions = self._functions
            self._free()
            self._functions = functions  # what it was attached to can still be asked for

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""A running probe: its programs in the kernel, and the parts that produce its rows."""

import errno
import math
import os
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from scope_bpf.binding.features import lacking
from scope_bpf.binding.statistics import Cost
from scope_bpf.capture.account import Account, PlaceAccount
from scope_bpf.capture.batch import Batch, RawBatch
from scope_bpf.capture.books import KernelBooks
from scope_bpf.capture.events import WAITING_BYTES, Events
from scope_bpf.capture.functions import Functions
from scope_bpf.capture.part import Part
from scope_bpf.capture.programs import Programs
from scope_bpf.capture.samples import Samples
from scope_bpf.capture.settling import Settling
from scope_bpf.capture.states import States
from scope_bpf.capture.summaries import Summaries
from scope_bpf.capture.unseen import Unseen
from scope_bpf.capture.uprobe import require_together
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.target import Target
from scope_bpf.errors import KernelError, MissingCapability, NotSupported, ScopeBpfError, VerifierError
from scope_bpf.host import NO_DESCRIPTORS, require_bpf, require_host_pids
from scope_catalogue.errors import InvalidOption
from scope_catalogue.stream import Mode

_TELLS_NOTHING = NO_DESCRIPTORS | {errno.ENOMEM, errno.EPERM}  # of the kernel's age: any program would fail so


class Tracer:
    """Runs one probe for one target: `start`, then `poll` from one thread, then `finish` and `close`.

    `wake`, `accounts`, `notes`, `cost`, `latest` and `close` may be called from any thread and at any time, before
    `start` and after `close` too.

    Args:
        options: all of the probe's options, from `parse_options`.
        excluded: returns processes to exclude besides this one; called while the probe starts.
        command: the path of a command that the target is about to run.
        books: path in a BPF file system at which the kernel's counts are pinned before the first event; the caller
            removes the pin.
        waiting_bytes: how much memory events may take that wait for `poll`; beyond, they stay in the rings, where new
            ones are lost once these are full.

    Attributes:
        attach_point: name of the alternative in use; for a sampling probe, its source.
        refused: better alternatives that do not work on this host, with the reason.
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
        waiting_bytes: int = WAITING_BYTES,
    ) -> None:
        self.probe, self.options = probe, options
        self.attach_point = ""
        self.unseen: Mapping[str, str] = {}
        self.refused: list[str] = []
        self.mode = probe.mode_of(options)
        self._target, self._excluded, self._command, self._books_path = target or Target(), excluded, command, books
        self._waiting_bytes = waiting_bytes
        self._lock = threading.RLock()  # protects data that other threads read against being freed
        self._polling = threading.Lock()  # `close` waits for a running poll
        self._parts: list[Part] = []
        self._programs: Programs | None = None
        self._events: Events | None = None
        self._functions: Functions | None = None
        self._samples: Samples | None = None
        self._unseen: Unseen | None = None
        self._woken = threading.Event()
        self._ended_cost: Cost | None = None
        self._last_accounts: dict[str, Account] = {}

    @property
    def streams_by_number(self) -> list[str]:
        """The streams in the order of their numbers in the kernel's counts."""
        return [stream.name for stream in self.probe.counted_streams]

    def start(self) -> None:
        """Starts the first alternative that loads and attaches on this host.

        Raises:
            MissingCapability, NotSupported: no alternative works here; the message has the reason of each.
            VerifierError: the kernel refused a program of the last alternative.
            TargetNotFound: the target does not exist.
            InvalidOption: the probe samples the whole machine, but a target is given.
        """
        if self.probe.sampler:
            self._start_sampling()
            return
        require_bpf()
        if self.probe.reads_processes(self.options):
            require_host_pids()
        self._target.conditions()
        for alternative in self.probe.alternatives:
            try:
                self._start(alternative)
            except (KernelError, MissingCapability) as error:
                self._free()
                is_last = alternative is self.probe.alternatives[-1]
                if is_last and isinstance(error, KernelError) and error.errno not in _TELLS_NOTHING:
                    self._require_features()
                if is_last and isinstance(error, VerifierError | MissingCapability):
                    raise
                self.refused.append(f"{alternative.name}: {error}")
            except ScopeBpfError:
                self._free()
                raise
            else:
                self.attach_point, self.unseen = alternative.name, alternative.unseen
                return
        raise NotSupported(f"probe '{self.probe.name}' cannot run here: {'; '.join(self.refused)}")

    def _require_features(self) -> None:
        """Explains why no alternative works by what the kernel lacks: it says so in words of its own.

        Raises:
            NotSupported: it lacks features of BPF that probes use.
        """
        if missing := lacking():
            raise NotSupported(
                f"probe '{self.probe.name}' cannot run on Linux {os.uname().release}, whose BPF lacks "
                f"{', '.join(missing)}; it takes a newer kernel"
            )

    def _start_sampling(self) -> None:
        if self._target != Target():
            raise InvalidOption(f"probe '{self.probe.name}' samples the whole machine; leave the target out")
        samples = Samples(self.probe, self.options)
        self.attach_point = samples.source
        with self._lock:
            self._samples, self._parts = samples, [samples]

    def _start(self, alternative: Alternative) -> None:
        if alternative.uprobe_multi:
            require_together()
        programs = Programs(self.probe, alternative, self._target)
        with self._lock:
            self._programs, self._parts = programs, self._make_parts(alternative, programs)
        programs.start(self._parts, self.options, self._excluded)

    def _make_parts(self, alternative: Alternative, programs: Programs) -> list[Part]:
        """The parts for the probe's streams and places. The kernel's books come first: other parts add to them."""
        probe = self.probe
        self._events = Events(probe, self.options, self.mode, self._waiting_bytes)
        parts: list[Part] = [KernelBooks(probe, self._books_path), self._events]
        if probe.found_by or any(stream.settled for stream in probe.event_streams):
            parts.append(Settling(probe, self.options))
        if alternative.unseen:
            self._unseen = Unseen(probe, alternative.unseen)
            parts.append(self._unseen)
        if probe.summaries:
            parts.append(Summaries(probe, self._events, self.options, self.mode, held=bool(self._command)))
        if probe.states or probe.sweeps(self.options):
            parts.append(States(probe, self.options))
        if probe.follows_files(self.options):
            self._functions = Functions(
                probe,
                self.options,
                alternative.uprobe_multi,
                command=self._command,
                target=self._target,
                watched=programs.possibly_watched,
            )
            parts.append(self._functions)
        return parts

    def poll(self, timeout_ms: int) -> list[Batch]:
        """Waits until there are rows or the time is over; returns the batches of all streams since the last poll.

        Raises:
            KernelError: the tracer failed and cannot be used any more.
        """
        with self._polling:
            seconds = min(timeout_ms / 1000, *(part.due_s() for part in self._parts), math.inf)
            if self._events:
                self._events.wait(seconds)
            elif self._woken.wait(max(0.0, seconds)):
                self._woken.clear()
            if self._programs:
                self._programs.forget_ended()
            return self._resolved([batch for part in self._parts for batch in part.poll()])

    def _resolved(self, batches: list[Batch]) -> list[Batch]:
        """The same batches, with the resolver for their resolved columns."""
        resolver = self._functions.resolver if self._functions else None
        return [
            replace(batch, resolver=resolver) if isinstance(batch, RawBatch) and batch.stream.made.resolved else batch
            for batch in batches
        ]

    def wake(self) -> None:
        """Ends the current poll, or the next one, early. From any thread."""
        with self._lock:
            self._woken.set()
            if self._events:
                self._events.wake()

    def hurry(self) -> None:
        """The trace is to end: `wake`, and the end does not wait for files that are being read. From any thread."""
        with self._lock:
            if self._functions:
                self._functions.give_up()
            self.wake()

    @property
    def functions_attached(self) -> int:
        """Number of attached functions in user space; the same function counts once per file."""
        return self._functions.attached if self._functions else 0

    def notes(self) -> list[str]:
        """What may be missing, as text. From any thread, after `close` too."""
        with self._lock:
            told = self._functions.notes() if self._functions else []
            return told + (self._unseen.notes() if self._unseen else [])

    def places(self) -> list[PlaceAccount]:
        """The counts of all places, by number; after `close`, the final counts. From any thread."""
        with self._lock:
            return self._functions.accounts() if self._functions else []

    @property
    def latest(self) -> Mapping[str, pa.RecordBatch]:
        """The rows of a sampling probe's last sample, by stream. From any thread."""
        return self._samples.latest if self._samples else {}

    def retarget(self, target: Target) -> None:
        """Watches another target from the next event on.

        Raises:
            TargetNotFound: the target does not exist; the old one stays.
            KernelError: the kernel refused to watch its mappings.
        """
        assert self._programs
        self._programs.retarget(target)
        for part in self._parts:
            part.retarget(target)

    def watched_pids(self) -> set[int]:
        """Host pids of all marked processes: watched by this or an earlier target, or excluded."""
        return self._programs.marked() if self._programs else set()

    def set_mode(self, mode: Mode) -> None:
        """Switches between events and summary while running. From the polling thread."""
        self.mode = mode
        for part in self._parts:
            part.set_mode(mode)

    def accounts(self) -> dict[str, Account]:
        """The counts of all streams since the start; after `close`, the final counts. From any thread."""
        with self._lock:
            if not self._parts:
                return self._last_accounts
            accounts: dict[str, Account] = {}
            for part in self._parts:
                part.count(accounts)
            first = next(iter(accounts))  # the stream of missed runs is unknown
            accounts[first] = accounts[first].and_lost("missed_run", self.cost().missed)
            return accounts

    def cost(self) -> Cost:
        """The CPU cost of all programs so far, counted while `KernelStatistics` is entered. From any thread."""
        with self._lock:
            if self._ended_cost is not None:
                return self._ended_cost
            own = self._programs.cost() if self._programs else Cost()
            return sum((part.cost() for part in self._parts), own)

    def memory_bytes(self) -> int:
        """The kernel's memory for its rings and maps. From any thread."""
        with self._lock:
            own = self._programs.object.memory_bytes() if self._programs else 0
            return own + sum(part.memory_bytes() for part in self._parts)

    def finish(self) -> list[Batch]:
        """Detaches and returns all batches not polled yet.

        Raises:
            KernelError: the kernel refused a read.
        """
        with self._polling:
            self._detach()
            return self._resolved([batch for part in self._parts for batch in part.rest()])

    def _detach(self) -> None:
        with self._lock:
            if self._ended_cost is not None:
                return
            for part in reversed(self._parts):
                part.detach()
            own = self._programs.detach() if self._programs else Cost()
            self._ended_cost = sum((part.cost() for part in self._parts), own)

    def _free(self) -> None:
        """Undoes a start."""
        with self._lock:
            while self._parts:
                self._parts.pop().close()
            self._events = self._functions = None
            if self._programs:
                self._programs.close()
                self._programs = None

    def close(self) -> None:
        """Detaches and frees everything. May be called again."""
        self.hurry()
        with self._polling, self._lock:
            if not self._parts:
                return
            self._detach()
            functions = self._functions
            try:
                self._last_accounts = self.accounts()
            finally:
                self._free()
                self._functions = functions  # still answers questions about its files

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

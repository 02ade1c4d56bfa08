"""A probe that runs: loaded, attached, filtered, drained."""

import mmap
import os
import resource
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from scope_bpf.binding.map import possible_cpus
from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.ring import Drain, create_ring
from scope_bpf.binding.statistics import Cost, program_cost
from scope_bpf.capture.account import Account
from scope_bpf.capture.attacher import Attacher
from scope_bpf.capture.columns import RawBatch, raw_batch
from scope_bpf.capture.filter import FIND_INODE, Filter
from scope_bpf.capture.gauge import EndedProcesses, GaugeReader, Sweeper
from scope_bpf.capture.kernel_books import read_account
from scope_bpf.capture.summary import Shape, SummaryReader
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Mode, Stream
from scope_bpf.catalogue.target import Target
from scope_bpf.code.libraries import files_of_command, installed_libraries
from scope_bpf.code.mappings import running_processes
from scope_bpf.code.modules import FIND_CODE
from scope_bpf.code.resolver import Resolver
from scope_bpf.errors import KernelError, NotSupported, ScopeBpfError, VerifierError
from scope_bpf.host import require_bpf

FOLLOW, FORGET = "scope_follow_fork", "scope_forget_process"  # filter.bpf.h
MOST_RINGS = 16  # more CPUs share
SUMMARY_RING_BYTES = 1 << 20  # for names only
MOST_BYTES_OF_RINGS = 256 << 20  # all rings of a task together, where none is asked for
MOST_WAKEUP_BYTES = 1 << 20  # waking costs the program microseconds
FORGET_EVERY_S = 10.0
BUFFER_BYTES = 1 << 20  # a batch is at most about this large, raw


class Tracer:
    """Runs one probe for one target. `start`, then `poll` from one thread, then `finish` and `close`.

    Args:
        options: all of the probe's options, from `parse_options`.
        excluded: lists processes to be left out besides this one; asked while the probe starts.
        command: the path of a command that the target is about to run.
        books: where in a BPF file system the kernel's books are pinned before the first event; the caller's to remove.
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
        self.probe = probe
        self.options = options
        self.attach_point = ""
        self.refused: list[str] = []  # better alternatives that this host lacks, with the reason
        self.mode = Mode(options.get("mode", Mode.EVENTS if probe.has_mode(Mode.EVENTS) else Mode.SUMMARY))
        self._target = target or Target()
        self._excluded = excluded
        self._command = command
        self._books = books
        self._events = [stream for stream in probe.streams if stream.mode is Mode.EVENTS]
        self._maps = [stream for stream in probe.streams if stream.mode is Mode.SUMMARY and not stream.adds_up]
        self._states = [stream for stream in self._maps if stream.gauge]
        self._sums = [stream for stream in probe.streams if stream.adds_up]
        self._numbers = {stream.name: number for number, stream in enumerate(self._events + self._maps)}
        self._layouts = {stream.name: probe.layout(stream) for stream in probe.streams}
        self._schemas = {stream.name: probe.schema(stream) for stream in probe.streams}
        self._object: BpfObject | None = None
        self._drain: Drain | None = None
        self._filter: Filter | None = None
        self._attacher: Attacher | None = None
        self._summaries: dict[str, SummaryReader] = {}
        self._gauges: list[GaugeReader] = []
        self._sweepers: list[Sweeper] = []
        self._names: dict[str, list[RawBatch]] = {}  # since the last summary
        self._last_names: dict[str, list[RawBatch]] = {}  # between the two before
        self._ring_fds: list[int] = []
        self._next_summary = 0.0
        self._next_forgetting = 0.0
        self._last_accounts: dict[str, Account] = {}
        self._ended_cost = Cost()
        self._ended_functions = 0

    def start(self) -> None:
        """Takes the first alternative that this host loads and attaches.

        Raises:
            MissingCapability, NotSupported: no alternative works here; the message has each one's reason.
            VerifierError: the kernel refused a program of the last one.
            TargetNotFound: the target does not exist.
        """
        require_bpf()
        self._target.conditions()
        for alternative in self.probe.alternatives:
            try:
                self._start(alternative)
            except KernelError as error:
                self.close()
                if isinstance(error, VerifierError) and alternative is self.probe.alternatives[-1]:
                    raise
                self.refused.append(f"{alternative.name}: {error}")
            except ScopeBpfError:
                self.close()
                raise
            else:
                self.attach_point = alternative.name
                return
        raise NotSupported(f"probe '{self.probe.name}' cannot run here: {'; '.join(self.refused)}")

    def _start(self, alternative: Alternative) -> None:
        self._object = BpfObject(self.probe.elf, self.probe.btf, self.probe.name)
        programs = (FOLLOW, *alternative.programs, FORGET)
        in_functions = {name for function in self.probe.functions for name in (function.entry, function.leave)}
        rings = 1 << (min(possible_cpus(), MOST_RINGS).bit_length() - 1)
        numbers = {f"stream_{name}": number for name, number in self._numbers.items()}
        self._object.select_programs((*programs, *in_functions, FIND_INODE, FIND_CODE))
        if alternative.uprobe_multi:
            self._object.expect_uprobes(in_functions)
        ring_bytes = self._ring_bytes(rings)
        self._object.set_constants(
            {
                **numbers,
                **self.probe.constants(self.options),
                "scope_ring_mask": rings - 1,
                # Several streams and CPUs may share a ring: none is signalled late, with the ring nearly full.
                "scope_wakeup_bytes": min(MOST_WAKEUP_BYTES, ring_bytes // 8),
                **({"scope_page_shift": mmap.PAGESIZE.bit_length() - 1} if in_functions else {}),
            }
        )
        self._object.map("scope_rings").resize(rings)
        self._object.map("scope_accounts").resize(len(self._numbers))
        self._object.load()
        if self._books:
            self._books.unlink(missing_ok=True)  # of an alternative that could not be attached
            self._object.map("scope_accounts").pin(self._books)
        self._make_rings(rings, ring_bytes)
        self._filter = Filter(self.probe.btf, self._object)
        self._filter.apply(self._target)
        self._apply_mode()
        self._object.attach(FOLLOW)
        # Whoever is started from now on is left out by the kernel; who was started before is listed here.
        self._filter.exclude((os.getpid(), *self._excluded()))
        for program in programs[1:]:
            self._object.attach(program)
        by_process = self.probe.kept_by_process
        self._sweepers = [Sweeper(self._object.map(name), self.probe.key_layout(name)) for name in by_process]
        if in_functions:
            self._attach_functions(alternative.uprobe_multi)
        self._forget_ended()

    def _attach_functions(self, multi: bool) -> None:
        assert self._object
        self._attacher = Attacher(self.probe, self._object, multi, self._target)
        if self.probe.libraries:
            self._attacher.look_at_installed(installed_libraries(self.probe.libraries))
        if self._command:
            self._attacher.look_at_files(files_of_command(self._command))
        self._attacher.look_at_processes(self._processes_with_functions())
        if self._drain:
            for fd in self._attacher.descriptors():
                self._drain.wake_on(fd)

    def _processes_with_functions(self) -> Collection[int]:
        """Those that the target may be about: a pid's family, or anybody, of whom the programs leave out the others."""
        assert self._filter
        return self._filter.watched() if self._target.pid else running_processes()

    def _ring_bytes(self, count: int) -> int:
        suitable = SUMMARY_RING_BYTES if self.mode is Mode.SUMMARY else self.probe.ring_bytes
        suitable = min(suitable, MOST_BYTES_OF_RINGS // count)
        return 1 << (max(self.options["ring_bytes"] or suitable, resource.getpagesize()) - 1).bit_length()

    def _make_rings(self, count: int, size: int) -> None:
        assert self._object
        slots = self._object.map("scope_rings")
        for slot in range(count):
            fd = create_ring(size)
            self._ring_fds.append(fd)
            slots.update(slot.to_bytes(4, "little"), fd.to_bytes(4, "little"))
        if self._events:
            sizes = [self._layouts[stream.name].size for stream in self._events]
            self._drain = Drain(self._ring_fds, sizes, BUFFER_BYTES)

    def _summary_reader(self, stream: Stream) -> SummaryReader:
        assert self._object
        sums = [self._shape(other) for other in self._sums if other.adds_up == stream.name]
        return SummaryReader(self._shape(stream), sums, self._object)

    def _shape(self, stream: Stream) -> Shape:
        return Shape(stream, self._layouts[stream.name], self._schemas[stream.name])

    def _apply_mode(self) -> None:
        assert self._object
        if not self.probe.has_mode(Mode.SUMMARY):
            return
        if self.mode is Mode.SUMMARY and not self._summaries:  # 30 MB of maps that events do without
            summaries = [stream for stream in self._maps if not stream.gauge]
            self._summaries = {stream.name: self._summary_reader(stream) for stream in summaries}
        if not self._gauges:
            self._gauges = [GaugeReader(self._shape(state), self._object.map(state.name)) for state in self._states]
        self._object.map(".data.mode").update((0).to_bytes(4, "little"), bytes([self.mode is Mode.SUMMARY]))
        self._next_summary = time.monotonic() + self.options["interval_ms"] / 1000

    def poll(self, timeout_ms: int) -> list[RawBatch]:
        """Waits until buffers are full or the time is over; the batches since the last poll, of every stream."""
        left_ms = timeout_ms
        if self._summaries or self._gauges:
            left_ms = min(left_ms, max(0, int((self._next_summary - time.monotonic()) * 1000) + 1))
        if self._drain:
            self._drain.poll(left_ms)
        else:
            time.sleep(left_ms / 1000)
        batches = self._take()
        self._forget_ended()
        if self._attacher:
            self._attacher.follow(self._processes_with_functions)
        if (self._summaries or self._gauges) and time.monotonic() >= self._next_summary:
            self._next_summary += self.options["interval_ms"] / 1000
            batches += self._read_summaries()
        return batches

    def _forget_ended(self) -> None:
        """The kernel tells of nearly every process that it frees, not of all: bpftrace misses the same ones."""
        if self._filter and time.monotonic() >= self._next_forgetting:
            self._next_forgetting = time.monotonic() + FORGET_EVERY_S
            self._filter.forget_ended()
            ended = EndedProcesses()
            for sweeper in self._sweepers:
                sweeper.sweep(ended)

    def _take(self) -> list[RawBatch]:
        if not self._drain:
            return []
        taken = [(stream, self._drain.take(number)) for number, stream in enumerate(self._events)]
        batches = [
            raw_batch(stream, self._layouts[stream.name], self._schemas[stream.name], native, self._resolver())
            for stream, native in taken
            if native is not None
        ]
        for batch in batches:
            if batch.stream.internal:
                self._names.setdefault(batch.stream.name, []).append(batch)
        return [batch for batch in batches if not batch.stream.internal]

    def _resolver(self) -> Resolver | None:
        return self._attacher.resolver if self._attacher else None

    def _read_summaries(self) -> list[RawBatch]:
        ended = EndedProcesses()
        read = [batch for reader in self._summaries.values() for batch in reader.read()]
        read += [batch for gauge in self._gauges for batch in gauge.read(ended)]
        read = [replace(batch, resolver=self._resolver()) for batch in read]
        events = self._take_rest() if any(batch.stream.names for batch in read) else []
        # Reading the rest of the rings may have run ahead of the summary, into names that the next one needs.
        names, older, self._last_names, self._names = self._names, self._last_names, self._names, {}
        return events + [
            replace(batch, names=(*names.get(source.stream, ()), *older.get(source.stream, ())))
            if (source := batch.stream.names)
            else batch
            for batch in read
        ]

    def _take_rest(self) -> list[RawBatch]:
        batches: list[RawBatch] = []
        more = self._drain is not None
        while more and self._drain:
            more = self._drain.rest()
            batches += self._take()
        return batches

    def wake(self) -> None:
        """Ends the poll under way, or the next one, early. From any thread."""
        if self._drain:
            self._drain.wake()

    @property
    def streams_by_number(self) -> list[str]:
        """The streams in the order of their numbers in the kernel's books."""
        return list(self._numbers)

    @property
    def functions_attached(self) -> int:
        """To how many functions of user space the probe is, or was, attached: the same one counts in each file."""
        return self._attacher.functions if self._attacher else self._ended_functions

    def retarget(self, target: Target) -> None:
        """Watches another target from the next event on.

        Raises:
            TargetNotFound: it does not exist; the old one stays.
        """
        assert self._filter
        self._filter.apply(target)
        self._target = target
        if self._attacher:
            self._attacher.watch(target)

    def watched_pids(self) -> set[int]:
        """The processes that are marked, by pid: watched by this or an earlier target, or left out."""
        return self._filter.marked() if self._filter else set()

    def set_mode(self, mode: Mode) -> None:
        """Switches between events and summary while running. From the polling thread."""
        self.mode = mode
        self._apply_mode()

    def accounts(self) -> dict[str, Account]:
        """The books of every stream since the start; after `close`, as they stood then."""
        if not self._object:
            return self._last_accounts
        books = self._object.map("scope_accounts").fd
        accounts = {}
        for name, number in self._numbers.items():
            accounts[name] = account = read_account(books, number)
            unkept = self._drain.unkept(number) if self._drain and number < len(self._events) else 0
            if unkept:
                accounts[name] = replace(account, lost={**account.lost, "unkept": unkept})
        made = [reader.rows_made for reader in self._summaries.values()] + [gauge.rows_made for gauge in self._gauges]
        for rows_made in made:
            for name, rows in rows_made.items():
                account = accounts.get(name, Account())
                accounts[name] = replace(account, emitted=account.emitted + rows)
        return self._with_missed_runs(accounts)

    def _with_missed_runs(self, accounts: dict[str, Account]) -> dict[str, Account]:
        """Puts runs that the kernel left out down to the first stream: what they would have emitted is not known."""
        missed, first = self.cost().missed, next(iter(accounts))
        if missed:
            account = accounts[first]
            lost = {**account.lost, "missed_run": missed}
            accounts[first] = replace(account, emitted=account.emitted + missed, lost=lost)
        return accounts

    def cost(self) -> Cost:
        """What all programs have cost so far; run times are counted while `KernelStatistics` are on."""
        fds = [
            *(self._object.program_fds() if self._object else ()),
            *(self._attacher.program_fds if self._attacher else ()),
        ]
        return sum((program_cost(fd) for fd in fds), self._ended_cost)

    def finish(self) -> list[RawBatch]:
        """Detaches and returns all that was not polled yet."""
        if not self._object:
            return []
        self._detach()
        return self._take_rest() + self._read_summaries()

    def _detach(self) -> None:
        if self._object:
            self._ended_cost = self.cost()
            if self._attacher:
                self._attacher.detach()
            self._object.detach()

    def close(self) -> None:
        """Detaches and frees everything. May be called again."""
        if self._filter:
            self._detach()
            self._last_accounts = self.accounts()
            self._filter.close()
            self._filter = None
        if self._attacher:
            self._ended_functions = self._attacher.functions
            self._attacher.close()
            self._attacher = None
        for reader in self._summaries.values():
            reader.close()
        self._summaries, self._gauges, self._sweepers = {}, [], []
        if self._drain:
            self._drain.close()
            self._drain = None
        while self._ring_fds:
            os.close(self._ring_fds.pop())
        if self._object:
            self._object.close()
            self._object = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

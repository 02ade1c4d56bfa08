"""Events: one row each, from the rings to batches."""

import os
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from scope_bpf.binding.map import possible_cpus
from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.ring import Drain, create_ring
from scope_bpf.capture.account import Account
from scope_bpf.capture.batch import Batch, RawBatch, raw_batch
from scope_bpf.capture.part import Part
from scope_bpf.catalogue.probe import Probe
from scope_bpf.layout.btf import Btf
from scope_bpf.layout.records import record_dtype
from scope_catalogue.stream import Mode

SUMMARY_RING_BYTES = 1 << 20  # for names only
MOST_BYTES_OF_RINGS = 256 << 20  # all rings of a task together, if no size is given
MOST_WAKEUP_BYTES = 1 << 20  # between two wakeups, since a wakeup costs the program microseconds
BUFFER_BYTES = 2 << 20  # approximate raw size of a batch
WAITING_BYTES = 32 << 20  # of batches not polled yet, where nobody chooses


class Events(Part):
    """Rings, and the drain that reads them. In records, a stream's number is its index in the probe's streams.

    Args:
        waiting_bytes: how much may wait for `poll`; beyond, records stay in the rings.
    """

    def __init__(
        self, probe: Probe, options: Mapping[str, Any], mode: Mode, waiting_bytes: int = WAITING_BYTES
    ) -> None:
        self._streams = probe.event_streams
        self._layouts = [probe.layout(stream) for stream in self._streams]
        self._schemas = [probe.schema(stream) for stream in self._streams]
        self._rings = 1 << (min(possible_cpus(), _most_rings(probe.btf)).bit_length() - 1)
        suitable = SUMMARY_RING_BYTES if mode is Mode.SUMMARY else probe.ring_bytes
        self._ring_bytes = _ring_bytes(options["ring_bytes"] or min(suitable, MOST_BYTES_OF_RINGS // self._rings))
        self._waiting_bytes = waiting_bytes
        self._fds: list[int] = []
        self._drain: Drain | None = None
        self._taken: tuple[int, Any] | None = None
        self._internal: dict[str, list[RawBatch]] = {}

    def constants(self) -> Mapping[str, Any]:
        """The number of rings, and the number of bytes after which to wake the reader."""
        return {
            "scope_ring_mask": self._rings - 1,
            "scope_wakeup_bytes": min(MOST_WAKEUP_BYTES, self._ring_bytes // 8),
        }

    def prepare(self, object_: BpfObject) -> None:
        """Sizes the map of rings."""
        object_.map("scope_rings").resize(self._rings)

    def start(self, object_: BpfObject) -> None:
        """Creates the rings and starts to read them."""
        for _ in range(self._rings):
            self._fds.append(create_ring(self._ring_bytes))
        object_.map("scope_rings").fill(self._fds)
        if self._streams:
            sizes = [layout.size for layout in self._layouts]
            self._drain = Drain(self._fds, sizes, BUFFER_BYTES, self._waiting_bytes)
            self._drain.start()

    def wait(self, seconds: float) -> None:
        """Waits until a batch is ready, the time is over or `wake` is called."""
        if self._drain:
            self._taken = self._drain.take(max(0, int(seconds * 1000)))
        else:
            time.sleep(max(0.0, seconds))

    def wake(self) -> None:
        """Ends the current wait, or the next one, early. From any thread."""
        if self._drain:
            self._drain.wake()

    def poll(self) -> list[Batch]:
        """The batch found by `wait`."""
        taken, self._taken = self._taken, None
        return list(self._told(taken)) if taken else []

    def rest(self) -> list[Batch]:
        """The rest of the rings."""
        batches = self.poll()
        while self._drain and (taken := self._drain.take(0)):
            batches += self._told(taken)
        return batches

    def _told(self, taken: tuple[int, Any]) -> Iterator[RawBatch]:
        """A batch, unless its stream is internal: then it is kept for `names`."""
        number, native = taken
        stream = self._streams[number]
        batch = raw_batch(stream, self._layouts[number], self._schemas[number], native)
        if stream.internal:
            self._internal.setdefault(stream.name, []).append(batch)
        else:
            yield batch

    def names(self) -> dict[str, list[RawBatch]]:
        """Batches of the internal streams since the last call, by stream."""
        names, self._internal = self._internal, {}
        return names

    def memory_bytes(self) -> int:
        """Of the rings."""
        return len(self._fds) * self._ring_bytes

    def count(self, accounts: dict[str, Account]) -> None:
        """Adds records that were read but could not be kept."""
        for number, stream in enumerate(self._streams if self._drain else ()):
            assert self._drain
            if unkept := self._drain.unkept(number):
                account = accounts[stream.name]
                accounts[stream.name] = replace(account, lost={**account.lost, "unkept": unkept})

    def detach(self) -> None:
        """Stops the reader: nothing more is emitted, and `rest` reads the rest of the rings."""
        if self._drain:
            self._drain.stop()

    def close(self) -> None:
        """Frees the rings."""
        if self._drain:
            self._drain.close()
            self._drain = None
        while self._fds:
            os.close(self._fds.pop())


def _most_rings(btf: Btf) -> int:
    """The number of counters in the programs; with more CPUs, some share a ring."""
    return btf.variables["scope_unsignalled"].size // record_dtype(btf, "scope_unsignalled").itemsize


def _ring_bytes(wanted: int) -> int:
    """The next power of two, at least a page."""
    return 1 << (max(wanted, resource.getpagesize()) - 1).bit_length()

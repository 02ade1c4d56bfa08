"""Samples: user space asks a library at intervals, without BPF programs."""

import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from scope_bpf.capture.account import Account
from scope_bpf.capture.batch import Batch, SampledBatch
from scope_bpf.capture.part import Part
from scope_bpf.catalogue.probe import Probe, Sampler


class Samples(Part):
    """Rows from a probe's sampler.

    Attributes:
        latest: the rows of the last sample, by stream.

    Raises:
        NoDevice: the host has no such device.
        NotSupported: the device cannot be read.
    """

    def __init__(self, probe: Probe, options: Mapping[str, Any]) -> None:
        assert probe.sampler
        self._streams, self._interval_s = probe.streams, options["interval_ms"] / 1000
        self._schemas = {stream.name: probe.schema(stream) for stream in probe.streams}
        self._rows = dict.fromkeys(self._schemas, 0)
        self.latest: Mapping[str, pa.RecordBatch] = {}
        self._sampler: Sampler | None = probe.sampler()
        self.source = self._sampler.source
        self._next = time.monotonic()

    def due_s(self) -> float:
        """Seconds until the next sample."""
        return self._next - time.monotonic()

    def poll(self) -> list[Batch]:
        """The rows of a new sample, if it is due."""
        if self.due_s() > 0:
            return []
        self._next = max(self._next + self._interval_s, time.monotonic())
        return self.rest()

    def rest(self) -> list[Batch]:
        """The rows of a last sample."""
        if not self._sampler:
            return []
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        found = self._sampler.sample()
        self.latest = {
            stream.name: pa.RecordBatch.from_pylist(
                [{"ktime_ns": now_ns} | row for row in found.get(stream.name, [])], self._schemas[stream.name]
            )
            for stream in self._streams
        }
        seen = [SampledBatch(stream, self.latest[stream.name]) for stream in self._streams]
        for batch in seen:
            self._rows[batch.stream.name] += batch.count
        return [batch for batch in seen if batch.count]

    def count(self, accounts: dict[str, Account]) -> None:
        """Adds the rows made so far; samples lose no rows."""
        accounts |= {name: Account(rows) for name, rows in self._rows.items()}

    def close(self) -> None:
        """Closes the sampler."""
        if self._sampler:
            self._sampler.close()
            self._sampler = None

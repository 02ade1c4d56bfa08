"""A probe of samples that runs: user space looks at intervals, and no program is loaded."""

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from scope_bpf.binding.statistics import Cost
from scope_bpf.capture.account import Account, PlaceAccount
from scope_bpf.capture.columns import SampledBatch
from scope_bpf.catalogue.probe import Probe, Sampler
from scope_bpf.catalogue.stream import Mode
from scope_bpf.catalogue.target import Target
from scope_bpf.errors import InvalidOption


class SampledTracer:
    """Runs a probe of samples, as `Tracer` runs one of programs: `start`, `poll` from one thread, `finish`, `close`.

    Attributes:
        latest: the last look's rows by stream.
    """

    def __init__(self, probe: Probe, options: Mapping[str, Any], target: Target | None = None) -> None:
        self.probe, self.options = probe, options
        self.attach_point = ""
        self.refused: list[str] = []
        self.mode = Mode.SAMPLES
        self.functions_attached = 0
        self.latest: Mapping[str, pa.RecordBatch] = {}
        self._target = target or Target()
        self._schemas = {stream.name: probe.schema(stream) for stream in probe.streams}
        self._rows = dict.fromkeys(self._schemas, 0)
        self._sampler: Sampler | None = None
        self._next = 0.0
        self._woken = threading.Event()

    def start(self) -> None:
        """Opens what is looked at.

        Raises:
            NoDevice: there is none.
            NotSupported: there is, and it cannot be read.
            InvalidOption: the target is not the whole machine.
        """
        if self._target != Target():
            raise InvalidOption(f"probe '{self.probe.name}' looks at the whole machine; leave the target out")
        assert self.probe.sampler
        self._sampler = self.probe.sampler()
        self.attach_point = self._sampler.source
        self._next = time.monotonic()

    def poll(self, timeout_ms: int) -> list[SampledBatch]:
        """Waits until it is time to look, or the timeout is over; what was seen."""
        wait_s = min(timeout_ms / 1000, self._next - time.monotonic())
        if wait_s > 0 and self._woken.wait(wait_s):
            self._woken.clear()
        if time.monotonic() < self._next:
            return []
        self._next = max(self._next + self.options["interval_ms"] / 1000, time.monotonic())
        return self._look()

    def _look(self) -> list[SampledBatch]:
        assert self._sampler
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        found = self._sampler.sample()
        self.latest = {
            stream.name: pa.RecordBatch.from_pylist(
                [{"ktime_ns": now_ns} | row for row in found.get(stream.name, [])], self._schemas[stream.name]
            )
            for stream in self.probe.streams
        }
        seen = [SampledBatch(stream, self.latest[stream.name]) for stream in self.probe.streams]
        for batch in seen:
            self._rows[batch.stream.name] += batch.count
        return [batch for batch in seen if batch.count]

    @property
    def streams_by_number(self) -> list[str]:
        """Nothing of it is in the kernel."""
        return []

    def wake(self) -> None:
        """Ends the poll under way, or the next one, early. From any thread."""
        self._woken.set()

    def accounts(self) -> dict[str, Account]:
        """The rows made so far, by stream; none is ever lost here."""
        return {name: Account(rows) for name, rows in self._rows.items()}

    def places(self) -> list[PlaceAccount]:
        """None: it is attached to nothing."""
        return []

    def cost(self) -> Cost:
        """No program runs for it."""
        return Cost()

    def finish(self) -> list[SampledBatch]:
        """A last look."""
        return self._look() if self._sampler else []

    def close(self) -> None:
        """Lets go of what is looked at. May be called again."""
        if self._sampler:
            self._sampler.close()
            self._sampler = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

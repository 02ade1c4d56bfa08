"""A trace of several machines, in Perfetto's protobuf format, piece by piece."""

from collections.abc import Sequence

import pyarrow as pa

from scope_catalogue.stream import DescribedStream
from scope_views.annotations import Annotation, lanes
from scope_views.machines import Machines
from scope_views.perfetto.trace import MOST_BYTES, PerfettoTrace


class PerfettoOfMachines:
    """What the timelines of streams say, on one clock. Each machine has processes and CPUs of its own.

    Args:
        since_ns: since 1970; the clocks of all machines are the same.
    """

    def __init__(self, since_ns: int) -> None:
        self._since_ns, self._machines = since_ns, Machines()
        self._traces: dict[int, PerfettoTrace] = {}

    def begin(self) -> bytes:
        """The first piece: nothing is known of machines yet."""
        return b""

    def rows(self, stream: DescribedStream, batch: pa.RecordBatch) -> bytes:
        """The rows of a batch with `time`, `machine_id`, `hostname` and the stream's columns."""
        pieces = []
        if sum(trace.known_bytes for trace in self._traces.values()) > MOST_BYTES:
            pieces = [trace.forget() for trace in self._traces.values()]
        for number, part in self._machines.parts(batch):
            begin, trace = self._trace(number)
            pieces += [begin, trace.rows(stream, part)]
        return b"".join(pieces)

    def loss(self, stream: str, told: str, machine: tuple[str, str], begin_ns: int, end_ns: int) -> bytes:
        """A slice that says which rows of a machine, given by id and hostname, are missing."""
        begin, trace = self._trace(self._machines.number(*machine))
        return begin + trace.loss(stream, told, begin_ns, end_ns)

    def annotations(self, told: Sequence[Annotation]) -> bytes:
        """Marks and slices on a track of the machine that they are about; those about all, on the first one's."""
        pieces = []
        for lane, one in lanes(told):
            begin, trace = self._trace(self._machines.number(*one.machine) if one.machine else self._machines.first())
            pieces += [begin, trace.annotation(one, lane)]
        return b"".join(pieces)

    def end(self) -> bytes:
        """The last piece."""
        return b"".join(trace.end() for trace in self._traces.values())

    def _trace(self, number: int) -> tuple[bytes, PerfettoTrace]:
        """A machine's trace, and the piece that it begins with, once."""
        if number in self._traces:
            return b"", self._traces[number]
        trace = self._traces[number] = PerfettoTrace(number)
        return trace.begin(self._since_ns, self._since_ns, self._machines.hostnames[number]), trace

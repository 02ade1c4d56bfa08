"""The bytes of a trace in Perfetto's protobuf format, piece by piece."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.shown import Switches
from scope_catalogue.stream import DescribedStream
from scope_views.annotations import Annotation
from scope_views.groups import groups_of
from scope_views.perfetto.callstacks import Callstacks
from scope_views.perfetto.drawing import Drawing
from scope_views.perfetto.messages import Messages
from scope_views.perfetto.scheduling import Scheduling
from scope_views.perfetto.tracks import Tracks

MOST_BYTES = 64 * 2**20  # of texts and stacks that are known by number, about; then they are forgotten
_MACHINE = 98  # TracePacket.machine_id


class PerfettoTrace:
    """What the timelines of streams say. The pieces, one behind the other, are the trace.

    Packets may come in any order of time; Perfetto sorts them.

    Args:
        machine: its number in a trace of several; 0: the first, or only one.
    """

    def __init__(self, machine: int = 0) -> None:
        self._tracks, self._scheduling, self._machine = Tracks(machine), Scheduling(), machine
        self._callstacks = Callstacks(self._tracks)

    def begin(self, boottime_ns: int, realtime_ns: int, hostname: str = "") -> bytes:
        """The first piece: times are by CLOCK_BOOTTIME, and CLOCK_REALTIME was this at that time."""
        self._tracks.begin(boottime_ns, realtime_ns, hostname)
        return self._tracks.taken()

    def rows(self, stream: DescribedStream, batch: pa.RecordBatch) -> bytes:
        """The rows of a batch that has all of the stream's columns."""
        if stream.shown.timeline.is_empty or not batch.num_rows:
            return b""
        forgotten = self.forget() if self.known_bytes > MOST_BYTES else b""
        packets = Drawing(self._tracks, self._callstacks, stream, batch).packets()
        if switches := stream.shown.timeline.switches:
            of_threads = batch.filter(pc.not_equal(batch["tid"], 0))
            Drawing(self._tracks, self._callstacks, stream, of_threads).describe_threads()
            self._describe_wakers(switches, batch)
            packets += self._scheduling.packets(switches, batch)
        return forgotten + self._tracks.taken() + self._encoded(packets)

    @property
    def known_bytes(self) -> int:
        """About how much memory takes what is known by number: it grows with each new text and stack."""
        return self._tracks.known_bytes

    def forget(self) -> bytes:
        """A piece after which texts and stacks are described anew, where they are used again."""
        self._tracks.forget()
        self._callstacks.forget()
        return self._tracks.taken()

    def _describe_wakers(self, switches: Switches, batch: pa.RecordBatch) -> None:
        names = (switches.waker, switches.waker_process, switches.waker_name)
        for tid, pid, name in groups_of(batch, names)[0]:
            if tid:
                self._tracks.other_thread(tid, pid, name or "")

    def end(self) -> bytes:
        """The last piece."""
        return self._encoded(self._scheduling.rest())

    def loss(self, stream: str, told: str, begin_ns: int, end_ns: int) -> bytes:
        """A slice that says, in that time, which rows are missing."""
        self._tracks.slice(self._tracks.named(0, f"lost: {stream}"), told, begin_ns, end_ns)
        return self._tracks.taken()

    def annotation(self, told: Annotation, lane: int) -> bytes:
        """A mark, or a slice in a lane, on the track of annotations."""
        track = self._tracks.named(0, "annotations", lane)
        if told.end_ns is None:
            self._tracks.moment(track, told.text, told.begin_ns)
        else:
            self._tracks.slice(track, told.text, told.begin_ns, told.end_ns)
        return self._tracks.taken()

    def _encoded(self, packets: Sequence[Messages]) -> bytes:
        of_machine = [each.same(_MACHINE, self._machine) if self._machine else each for each in packets if each.count]
        return b"".join(Messages(each.count).message(1, each).encoded() for each in of_machine)

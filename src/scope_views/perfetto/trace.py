"""The bytes of a trace in Perfetto's protobuf format, piece by piece."""

import pyarrow as pa

from scope_catalogue.stream import DescribedStream
from scope_views.perfetto.drawing import Drawing
from scope_views.perfetto.messages import Messages
from scope_views.perfetto.tracks import Tracks


class PerfettoTrace:
    """Slices and counters, as the streams' timelines say. The pieces, one behind the other, are the trace.

    Packets may come in any order of time; Perfetto sorts them.
    """

    def __init__(self) -> None:
        self._tracks = Tracks()

    def begin(self, boottime_ns: int, realtime_ns: int) -> bytes:
        """The first piece: times are by CLOCK_BOOTTIME, and CLOCK_REALTIME was this at that time."""
        self._tracks.begin(boottime_ns, realtime_ns)
        return self._tracks.taken()

    def rows(self, stream: DescribedStream, batch: pa.RecordBatch) -> bytes:
        """The rows of a batch that has all of the stream's columns."""
        if stream.shown.timeline.is_empty or not batch.num_rows:
            return b""
        packets = Drawing(self._tracks, stream, batch).packets()
        encoded = [Messages(each.count).message(1, each).encoded() for each in packets]
        return b"".join([self._tracks.taken(), *encoded])

    def loss(self, stream: str, told: str, begin_ns: int, end_ns: int) -> bytes:
        """A slice that says, in that time, which rows are missing."""
        self._tracks.slice(self._tracks.named(0, f"lost: {stream}"), told, begin_ns, end_ns)
        return self._tracks.taken()

"""The tracks of a trace and the texts in it: each is described once, before what refers to it."""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from scope_views.lanes import Lanes, Numbers

SEQUENCE = 1  # all packets are one sequence: texts are known by number in the whole trace
CLEARED, NEEDED = 1, 2  # TracePacket.SequenceFlags
ENTRY_BYTES = 200  # of a text that is known by number, besides its characters
_BOOTTIME, _REALTIME = 6, 1  # builtin_clock.proto


class Tracks:
    """Describes what is new as packets, which `taken` gives.

    Args:
        machine: its number in a trace of several; 0: the first, or only one.

    Attributes:
        machine: the same.
        known_bytes: about how much memory takes what is known by number.
    """

    def __init__(self, machine: int = 0) -> None:
        self._trace, self.machine, self.known_bytes = proto.Trace(), machine, 0
        self._numbers: dict[Hashable, int] = {}
        self._texts: dict[tuple[str, str], int] = {}
        self._named: set[tuple[int, int]] = set()  # processes
        self._others: set[int] = set()  # threads without a track
        self._names: dict[int, tuple[str, int]] = {}  # of threads, each with when it had the name
        self._parents: dict[int, tuple[int, str]] = {}  # of named tracks, each with its name
        self._lanes = Lanes()

    def _packet(self, **content: Any) -> Any:
        """A new packet."""
        of_machine = {"machine_id": self.machine} if self.machine else {}
        return self._trace.packet.add(trusted_packet_sequence_id=SEQUENCE, **of_machine, **content)

    def begin(self, boottime_ns: int, realtime_ns: int, hostname: str = "") -> None:
        """Says which clock the times are by, what the other one was then, and the machine's name, if that is known."""
        if hostname:
            self._packet().system_info.machine_name = hostname
        packet = self._packet(sequence_flags=CLEARED)
        packet.clock_snapshot.primary_trace_clock = _BOOTTIME
        packet.clock_snapshot.clocks.add(clock_id=_BOOTTIME, timestamp=boottime_ns)
        packet.clock_snapshot.clocks.add(clock_id=_REALTIME, timestamp=realtime_ns)

    def taken(self) -> bytes:
        """What was described since the last time."""
        encoded: bytes = self._trace.SerializeToString()
        self._trace = proto.Trace()
        return encoded

    def forget(self) -> None:
        """From now on, texts and all other things of `interned` have to be described anew."""
        self._packet(sequence_flags=CLEARED)
        self._texts.clear()
        self.known_bytes = 0

    def process(self, pid: int, start_ns: int, name: str) -> int:
        """The track of a process, which gets its name as soon as that is known: with the first that is not empty."""
        key = (pid, start_ns)
        number = self._track(key, process={"pid": pid, "start_timestamp_ns": start_ns})
        if name and key not in self._named:
            self._named.add(key)
            self._describe(number, process={"pid": pid, "start_timestamp_ns": start_ns, "process_name": name})
        return number

    def thread(self, process: int, pid: int, tid: int, name: str, at_ns: int) -> int:
        """The track of a thread, by its process's track.

        It has the thread's latest name: batches of several probes are not in order, and an exec changes the name.
        """
        described = {"pid": pid, "tid": tid, "thread_name": name}
        number = self._track((process, "thread", tid), process, thread=described)
        known, since_ns = self._names.get(number, (name, at_ns))
        if name != known and at_ns > since_ns:
            self._describe(number, process, thread=described)
        if at_ns >= since_ns:
            self._names[number] = name, at_ns
        return number

    def interned(self) -> Any:
        """The InternedData of a new packet, for what is known by number in the rest of the trace."""
        packet = self._packet(sequence_flags=NEEDED)
        return packet.interned_data

    def other_thread(self, tid: int, pid: int, name: str) -> None:
        """The name and process of a thread that has no track, such as a waker."""
        if tid not in self._others:
            self._others.add(tid)
            packet = self._packet()
            packet.process_tree.threads.add(tid=tid, tgid=pid, name=name)

    def named(self, parent: int, name: str, apart: Hashable = None) -> int:
        """A track under another; those that only differ in `apart` are shown as one, with rows as needed."""
        number = self._track((parent, name, apart), parent, name=name)
        self._parents[number] = parent, name
        return number

    def lanes(self, tracks: Numbers, begin_ns: Numbers, end_ns: Numbers) -> Numbers:
        """The tracks of slices on named tracks, shape (slices,): for those that overlap, tracks with the same name.

        Perfetto takes the latest begin on a track for that of the slice that ends.
        """
        lanes, found = self._lanes.of(tracks, begin_ns, end_ns), tracks.copy()
        for place in np.flatnonzero(lanes).tolist():
            parent, name = self._parents[int(tracks[place])]
            found[place] = self._track((int(tracks[place]), "lane", int(lanes[place])), parent, name=name)
        return found

    def counter(self, parent: int, name: str, unit: str) -> int:
        """The track of a counter, with the unit of its values."""
        of_bytes = {"unit": proto.CounterDescriptor.UNIT_SIZE_BYTES}
        counter = of_bytes if unit == "bytes" else {"unit_name": unit}
        return self._track((parent, name), parent, name=name, counter=counter)

    def _track(self, key: Hashable, parent: int = 0, **described: Any) -> int:
        if key not in self._numbers:
            number = self._numbers[key] = (self.machine << 32) + len(self._numbers) + 1
            self._describe(number, parent, **described)
        return self._numbers[key]

    def _describe(self, number: int, parent: int = 0, **described: Any) -> None:
        track = proto.TrackDescriptor(uuid=number, **described)
        if parent:
            track.parent_uuid = parent
        self._packet(track_descriptor=track)

    def texts(self, kind: str, texts: Iterable[str]) -> list[int]:
        """Numbers of texts of a kind: a field of InternedData."""
        numbers, fresh = [], []
        for text in texts:
            if (kind, text) not in self._texts:
                self._texts[kind, text] = len(self._texts) + 1
                self.known_bytes += len(text) + ENTRY_BYTES
                fresh.append(text)
            numbers.append(self._texts[kind, text])
        if fresh:
            interned = self.interned()
            for text in fresh:
                entry = getattr(interned, kind).add(iid=self._texts[kind, text])
                if kind == "debug_annotation_string_values":
                    entry.str = text.encode()
                else:
                    entry.name = text
        return numbers

    def slice(self, track: int, name: str, begin_ns: int, end_ns: int) -> None:
        """A single slice."""
        for time_ns, kind in ((begin_ns, "TYPE_SLICE_BEGIN"), (end_ns, "TYPE_SLICE_END")):
            packet = self._packet(timestamp=time_ns)
            packet.track_event.track_uuid = track
            packet.track_event.type = proto.TrackEvent.Type.Value(kind)
            if kind == "TYPE_SLICE_BEGIN":
                packet.track_event.name = name

    def moment(self, track: int, name: str, at_ns: int) -> None:
        """A single mark."""
        packet = self._packet(timestamp=at_ns)
        packet.track_event.track_uuid = track
        packet.track_event.type = proto.TrackEvent.TYPE_INSTANT
        packet.track_event.name = name

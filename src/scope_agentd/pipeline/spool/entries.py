"""The contents of a segment's frames.

The payload of a frame is a serialized `scope.v1.Record`, which begins with its run_id (first byte 0x0A), or a
serialized `scope.v1.Aside`. An Aside is the checkpoint at the start of a segment, or a record that was moved from a
deleted segment.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from scope_agentd.pipeline.spool.layout import Damage, Frame, scan
from scope_agentd.pipeline.spool.runs import OpenRun, OpenRuns, runs_of
from scope_proto.scope.v1.record_pb2 import Record
from scope_proto.scope.v1.spool_pb2 import Aside
from scope_wire.frame import checksum
from scope_wire.limits import RECORD_BYTES

_RECORD_STARTS = b"\x0a"


@dataclass(frozen=True, slots=True)
class Entry:
    """A record in a segment. `data` is the serialized record; `carried`: it was moved from another segment."""

    offset: int
    end: int
    record: Record
    data: bytes
    carried: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """The checkpoint at the start of a segment: the runs that were open there."""

    end: int
    runs: dict[bytes, OpenRun]


def opening(runs: OpenRuns) -> bytes:
    """The payload of a segment's first frame."""
    return Aside(checkpoint=runs.checkpoint()).SerializeToString(deterministic=True)


def carried(data: bytes) -> bytes:
    """The payload for a serialized record that is moved from another segment."""
    payload = Aside(carried=data).SerializeToString()
    return payload if len(payload) <= RECORD_BYTES else data


def to_send(frame: Frame) -> tuple[bytes, int] | None:
    """The serialized record in a frame and its checksum; None: the frame has no record."""
    if frame.payload.startswith(_RECORD_STARTS):
        return frame.payload, frame.crc32
    data = Aside.FromString(frame.payload).carried
    return (data, checksum(data)) if data else None


def entries(data: bytes) -> Iterator[Entry | Opening | Damage]:
    """The contents of a segment, in order."""
    for part in scan(data):
        yield part if isinstance(part, Damage) else _read(part)


def opening_of(data: bytes) -> dict[bytes, OpenRun] | None:
    """The runs that were open at the start of this segment; None: the checkpoint is damaged."""
    first = next(entries(data), None)
    return first.runs if isinstance(first, Opening) else None


def _read(frame: Frame) -> Entry | Opening | Damage:
    payload = frame.payload
    try:
        if payload.startswith(_RECORD_STARTS):
            return Entry(frame.offset, frame.end, Record.FromString(payload), payload, carried=False)
        aside = Aside.FromString(payload)
        if aside.HasField("checkpoint"):
            return Opening(frame.end, runs_of(aside.checkpoint))
        return Entry(frame.offset, frame.end, Record.FromString(aside.carried), aside.carried, carried=True)
    except DecodeError:
        return Damage(frame.offset, frame.end, None)

"""Frames: the format of a record in a segment of the spool, and the checks on it.

A frame is a header, then a serialized `scope.v1.Record`. `scope.v1.Envelope` carries the same bytes of the record.

    offset  size  little-endian
    0       4     magic, b"SCR1"; the digit is the framing's version
    4       4     length of the record, at most `limits.RECORD_BYTES`
    8       4     CRC-32 (zlib's) of the record
    12      4     CRC-32 of the 12 bytes before
"""

import struct
import zlib
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from scope_proto.scope.v1.record_pb2 import Record
from scope_wire.errors import DamagedRecord
from scope_wire.limits import RECORD_BYTES

MAGIC = b"SCR1"
_HEADER = struct.Struct("<4sIII")
HEADER_BYTES = _HEADER.size


@dataclass(frozen=True)
class Header:
    """The header of a frame: length and checksum of the record."""

    length: int
    crc32: int


def checksum(record: bytes | memoryview) -> int:
    """The CRC-32 of a serialized record."""
    return zlib.crc32(record)


def framed(record: bytes) -> bytes:
    """The frame of a serialized record."""
    start = struct.pack("<4sII", MAGIC, len(record), checksum(record))
    return start + struct.pack("<I", zlib.crc32(start)) + record


def read_header(data: bytes | memoryview) -> Header:
    """The header in the first `HEADER_BYTES` bytes.

    Raises:
        DamagedRecord: there are fewer bytes, or they are not a header.
    """
    if len(data) < HEADER_BYTES:
        raise DamagedRecord(f"a frame's header has {HEADER_BYTES} bytes, here are {len(data)}")
    magic, length, crc32, own = _HEADER.unpack_from(data)
    if magic != MAGIC or own != zlib.crc32(data[: HEADER_BYTES - 4]) or length > RECORD_BYTES:
        raise DamagedRecord("this is not the header of a frame")
    return Header(length, crc32)


def opened(record: bytes, crc32: int) -> Record:
    """The record in these bytes, checked.

    Raises:
        DamagedRecord: the checksum is wrong, or the bytes are not a record.
    """
    if checksum(record) != crc32:
        raise DamagedRecord("the record's checksum is wrong: it was damaged on the way")
    try:
        return Record.FromString(record)
    except DecodeError as error:
        raise DamagedRecord(f"these bytes are no record: {error}") from None

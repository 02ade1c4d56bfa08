"""Frames: a reader gets the record that was written, or notices that it is damaged."""

import pytest

from scope_proto.scope.v1.record_pb2 import Record
from scope_wire.errors import DamagedRecord
from scope_wire.frame import HEADER_BYTES, checksum, framed, opened, read_header
from scope_wire.limits import RECORD_BYTES

RECORD = Record(run_id=bytes(range(16)), task_id=bytes(16))


def test_a_frame_gives_its_record_back() -> None:
    """The header has the record's length and checksum; the frame gives the record back."""
    data = RECORD.SerializeToString()
    frame = framed(data)
    header = read_header(frame)
    assert (header.length, header.crc32) == (len(data), checksum(data))
    assert opened(frame[HEADER_BYTES:], header.crc32) == RECORD


def test_every_flipped_bit_is_noticed() -> None:
    """A flipped bit in the header or in the record raises DamagedRecord."""
    frame = framed(RECORD.SerializeToString())
    for bit in range(8 * len(frame)):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedRecord):
            header = read_header(bytes(damaged))
            opened(bytes(damaged[HEADER_BYTES:]), header.crc32)


@pytest.mark.parametrize("size", range(HEADER_BYTES))
def test_a_cut_header_is_none(size: int) -> None:
    """A header that a power cut left incomplete raises DamagedRecord."""
    with pytest.raises(DamagedRecord):
        read_header(framed(b"")[:size])


def test_a_header_that_claims_too_much_is_none() -> None:
    """A length beyond the limit is refused, before the reader allocates memory for it."""
    with pytest.raises(DamagedRecord):
        read_header(framed(bytes(RECORD_BYTES + 1))[:HEADER_BYTES])


def test_sound_bytes_that_are_no_record_are_refused() -> None:
    """Bytes with a correct checksum are refused if they are no record."""
    with pytest.raises(DamagedRecord, match="no record"):
        opened(b"\xff\xff", checksum(b"\xff\xff"))

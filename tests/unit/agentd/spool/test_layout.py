"""The bytes of a segment: a golden file defines version 1."""

import contextlib
import random
import shutil
from pathlib import Path

from tests.unit.agentd.spool.model import Run, take_all

from scope_agentd.pipeline.spool import Spool
from scope_agentd.pipeline.spool.layout import Damage, Frame, scan, segment_header, segment_name, version_of
from scope_proto.scope.v1.record_pb2 import Record
from scope_wire.frame import framed

GOLDEN = Path(__file__).parent / "golden" / "version-1.segment"


def told() -> list[Record]:
    """The records of the golden file."""
    run = Run(7, random.Random(7))
    return [run.start(), run.batch(size=20), run.batch(size=20), run.accounts(), run.end()]


async def test_version_1_is_read(tmp_path: Path) -> None:
    """A spool reads the records of the golden file."""
    shutil.copy(GOLDEN, tmp_path / segment_name(1))
    with contextlib.closing(Spool(tmp_path)) as spool:
        assert await take_all(spool, spool.held().records) == told()
        assert spool.held().damaged_records == 0


def test_version_1_is_written(tmp_path: Path) -> None:
    """A spool writes exactly the golden file: any change of the layout needs a new version."""
    with contextlib.closing(Spool(tmp_path)) as spool:
        for record in told():
            spool.put(record)
        assert (tmp_path / segment_name(1)).read_bytes() == GOLDEN.read_bytes()


def test_reading_goes_on_behind_damage() -> None:
    """A damaged header or content makes only its own frame unreadable."""
    frames = [framed(bytes([number]) * 40) for number in range(5)]
    data = bytearray(segment_header() + b"".join(frames))
    start, length = len(segment_header()), len(frames[0])
    data[start + length] ^= 1  # the header of the second frame
    data[start + 4 * length - 1] ^= 1  # the content of the fourth frame
    parts = list(scan(bytes(data)))
    assert [type(part) for part in parts] == [Frame, Damage, Frame, Damage, Frame]
    assert [part.offset for part in parts] == [start + at * length for at in range(5)]
    assert [part.payload is None for part in parts] == [False, True, False, False, False]


def test_a_damaged_header_has_no_version() -> None:
    """A segment's version counts only if the header's checksum is right."""
    header = bytearray(segment_header())
    assert version_of(bytes(header)) == 1
    header[8] = 2
    assert version_of(bytes(header)) is None
    assert version_of(b"SCOPE") is None

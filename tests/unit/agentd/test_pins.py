"""The files that say whose books the kernel keeps."""

import errno
from pathlib import Path

import pytest

from scope_agentd.pins import Pins
from scope_proto.scope.v1 import record_pb2

RUN = bytes(range(16))
START = record_pb2.Record(run_id=RUN, start=record_pb2.RunStart())


@pytest.fixture
def pins(tmp_path: Path) -> Pins:
    """On a host without a BPF file system."""
    return Pins(tmp_path, "an-installation", bpf_fs=tmp_path / "none")


def test_a_run_is_left_until_it_is_released(pins: Pins) -> None:
    """With its start and what is known of it, in this life of the agent and the next."""
    pins.prepare(RUN, START, ["syscall"])
    (left,) = pins.left()
    assert (left.run_id, left.start, left.recorded) == (RUN, START, False)
    pins.recording(RUN)
    assert [left.recorded for left in pins.left()] == [True]
    pins.release(RUN)
    assert pins.left() == []


def test_a_full_disk_leaves_no_file_behind(pins: Pins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try of a start has a run of its own: halves of its file would add up."""

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="No space left"):
        pins.prepare(RUN, START, ["syscall"])
    pins.release(RUN)
    assert list((tmp_path / "runs").iterdir()) == []

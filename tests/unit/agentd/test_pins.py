"""The files that name the runs whose counters the kernel keeps."""

import errno
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scope_agentd.pins import Pins
from scope_proto.scope.v1 import record_pb2

RUN = bytes(range(16))
START = record_pb2.Record(run_id=RUN, start=record_pb2.RunStart())


@pytest.fixture
def pins(tmp_path: Path) -> Pins:
    """Pins on a host without a BPF file system."""
    return Pins(tmp_path, "an-installation", bpf_fs=tmp_path / "none")


def test_a_run_is_left_until_it_is_released(pins: Pins) -> None:
    """A run is listed, with its start record and whether it recorded, until it is released."""
    pins.prepare(RUN, START, ["syscall"])
    (left,) = pins.left()
    assert (left.run_id, left.start, left.recorded) == (RUN, START, False)
    pins.recording(RUN)
    assert [left.recorded for left in pins.left()] == [True]
    pins.release(RUN)
    assert pins.left() == []


def test_a_full_disk_leaves_no_file_behind(pins: Pins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed write and a release no file stays: each new try has a new run, so files would add up."""

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="No space left"):
        pins.prepare(RUN, START, ["syscall"])
    pins.release(RUN)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_file_that_cannot_be_deleted_is_no_error(
    pins: Pins, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A release logs what it cannot delete: it is called while another run records."""
    pins.prepare(RUN, START, ["syscall"])

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", fails)
    pins.release(RUN)
    assert "cannot delete a run's pin" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        '{"start": "',
        '{"start": 7, "streams": []}',
        '{"start": "////", "streams": []}',
        '{"start": "", "streams": 7}',
        "[]",
    ],
)
def test_a_damaged_file_is_removed(pins: Pins, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """A file cut or damaged by a power cut is logged and removed; the agent starts."""
    file = tmp_path / "runs" / f"{RUN.hex()}.recorded"
    file.write_text(text)
    assert pins.left() == []
    assert "damaged" in caplog.text
    assert not file.exists()


@pytest.fixture
def bpf_fs(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; a BPF file system mounted there is unmounted at the end."""
    folder = tmp_path / "bpf"
    folder.mkdir()
    tried = subprocess.run(["mount", "-t", "bpf", "bpf", folder], capture_output=True)
    if tried.returncode:
        pytest.skip(f"cannot mount: {tried.stderr.decode().strip()}")
    subprocess.run(["umount", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_mounted_file_system_is_private(bpf_fs: Path, tmp_path: Path) -> None:
    """Only its owner can enter a BPF file system that the agent mounts."""
    pins = Pins(tmp_path, "an-installation", bpf_fs)
    assert pins.path(RUN) == bpf_fs / "scope" / "an-installation" / RUN.hex()
    assert bpf_fs.stat().st_mode & 0o777 == 0o700


def test_folders_that_vanish_are_made_anew(bpf_fs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If somebody deletes the folders of pins and of runs, the next run has both, and the log says so."""
    pins = Pins(tmp_path, "an-installation", bpf_fs)
    (bpf_fs / "scope" / "an-installation").rmdir()
    (bpf_fs / "scope").rmdir()
    shutil.rmtree(tmp_path / "runs")
    path = pins.path(RUN)
    pins.prepare(RUN, START, ["syscall"])
    assert path and path.parent.is_dir()
    assert [left.run_id for left in pins.left()] == [RUN]
    assert caplog.text.count("was deleted by somebody else") == 1

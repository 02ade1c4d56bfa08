"""The kernel's event counters of runs, pinned so that they outlive the agent.

    /sys/fs/bpf/scope/INSTALLATION/RUN     the map `scope_accounts` of a run, while it runs
    STATE/runs/RUN.prepared                the run's start, and the streams in the order of their numbers in the map
    STATE/runs/RUN.recorded                the same file, once the run's start is in the spool

The map's time of modification is when its run last was alive, since 1970 UTC; setting it writes to no disk.

Both are made before the first event, and deleted when the run's end is in the spool. If an agent finds some when it
starts, their agent was killed, or ended on a full disk. A reboot deletes the pins but not the files.
"""

import json
import logging
import os
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from scope_bpf.capture.account import Account
from scope_proto.scope.v1 import record_pb2

log = logging.getLogger(__name__)

BPF_FS = Path("/sys/fs/bpf")
_STATES = ("new", "prepared", "recorded")  # of a run's file, as its suffix


@dataclass(frozen=True)
class LeftRun:
    """A run that a killed agent left.

    Attributes:
        start: its RunStart record; `recorded` says whether the record was spooled.
        books: the kernel's counts by stream; empty if they are gone.
        alive_ns: when it last was alive, since 1970 UTC; 0: unknown.
    """

    run_id: bytes
    start: record_pb2.Record
    recorded: bool
    books: Mapping[str, Account]
    alive_ns: int = 0


class Pins:
    """Pins of all runs. Each run's thread makes the calls about the run."""

    def __init__(self, state_dir: Path, installation: str, bpf_fs: Path = BPF_FS) -> None:
        self._files = state_dir / "runs"
        self._files.mkdir(mode=0o700, exist_ok=True)
        self._bpf_fs, self._installation = bpf_fs, installation
        self._folder = _own_folder(bpf_fs, installation)

    def path(self, run_id: bytes) -> Path | None:
        """The path at which to pin a run's counters; None: this host has no BPF file system.

        The folder is made anew if somebody has deleted it.
        """
        if self._folder and not self._folder.is_dir():
            log.error(
                "the folder of pins was deleted by somebody else; if the agent is killed, the counts of the runs that "
                "record now are only those last reported",
                extra={"path": str(self._folder)},
            )
            self._folder = _own_folder(self._bpf_fs, self._installation)
        return self._folder / run_id.hex() if self._folder else None

    def prepare(self, run_id: bytes, start: record_pb2.Record, streams: list[str]) -> None:
        """Writes the run's file, before the run attaches. `streams` are in the order of their numbers."""
        described = {"start": b64encode(start.SerializeToString()).decode(), "streams": streams}
        self._files.mkdir(mode=0o700, exist_ok=True)  # somebody may have deleted it
        fresh = self._file(run_id, "new")  # if the disk is full, this file remains until the run is released
        fresh.write_text(json.dumps(described))
        fresh.replace(self._file(run_id, "prepared"))

    def recording(self, run_id: bytes) -> None:
        """Notes that the run's start is in the spool. Renames only, because the disk may be full."""
        try:
            self._file(run_id, "prepared").replace(self._file(run_id, "recorded"))
        except OSError as error:
            log.warning("cannot note that a run's start is spooled", extra={"reason": str(error)})

    def alive(self, run_id: bytes) -> None:
        """Notes that the run is alive: if its agent is killed, it had recorded until about now."""
        if path := self.path(run_id):
            with suppress(OSError):  # a sampling probe has no map
                os.utime(path)

    def release(self, run_id: bytes) -> None:
        """Deletes pin and file: the run has ended and its counts are reported, or the run never recorded."""
        files = [self._folder / run_id.hex()] if self._folder else []
        for file in (*files, *(self._file(run_id, state) for state in _STATES)):
            try:
                file.unlink(missing_ok=True)
            except OSError as error:  # the next agent finds a run that has ended, and releases it
                log.warning("cannot delete a run's pin", extra={"file": str(file), "reason": error.strerror})

    def left(self) -> list[LeftRun]:
        """All runs found, oldest first. When an agent starts, all of them were left by killed agents."""
        files = sorted(file for state in ("prepared", "recorded") for file in self._files.glob(f"*.{state}"))
        return [found for file in files if (found := self._read(file))]

    def close(self) -> None:
        """Removes the agent's folder if it has no more pins."""
        if self._folder:
            with suppress(OSError):
                self._folder.rmdir()

    def _read(self, file: Path) -> LeftRun | None:
        from scope_bpf.capture.kernel_books import read_pinned
        from scope_bpf.errors import ScopeBpfError
        from scope_bpf.probes import probe_named

        try:
            described = json.loads(file.read_text())
            run_id = bytes.fromhex(file.stem)
            start = record_pb2.Record.FromString(b64decode(described["start"]))
            streams = [str(stream) for stream in described["streams"]]
        except (ValueError, KeyError, TypeError, DecodeError) as error:  # a power cut during writing
            log.error("a run's file is damaged and was removed", extra={"file": str(file), "reason": str(error)})
            if self._folder:
                (self._folder / file.stem).unlink(missing_ok=True)
            file.unlink()
            return None
        path, books, alive_ns = self.path(run_id), {}, 0
        if path and path.exists():
            alive_ns = path.stat().st_mtime_ns
            try:
                probe = probe_named(start.start.definition.probe)
                books = read_pinned(path, streams, probe.btf)
            except ScopeBpfError as error:
                log.error("the kernel's counts of a run cannot be read", extra={"reason": str(error)})
        return LeftRun(run_id, start, file.suffix == ".recorded", books, alive_ns)

    def _file(self, run_id: bytes, state: str) -> Path:
        return self._files / f"{run_id.hex()}.{state}"


def _own_folder(bpf_fs: Path, installation: str) -> Path | None:
    try:
        if not _is_bpf_fs(bpf_fs):
            subprocess.run(["mount", "-t", "bpf", "-o", "mode=0700", "bpf", bpf_fs], check=True, capture_output=True)
        folder = bpf_fs / "scope" / installation
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        log.warning(
            "no BPF file system: if the agent is killed, a run's counts are only those last reported",
            extra={"path": str(bpf_fs), "reason": said.decode(errors="replace").strip()},
        )
        return None
    return folder


def _is_bpf_fs(path: Path) -> bool:
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[2] == wanted:
            return right.startswith("bpf ")
    return False

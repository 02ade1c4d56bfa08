"""Disks of a test's own: files as loop devices, with the kernel's own counters of them."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.tracefs import INSTANCES

SECTOR = 512

_COUNTERS = (
    *("reads", "_", "read_sectors", "read_ms"),
    *("writes", "_", "written_sectors", "write_ms"),
    *("_", "_", "_"),
    *("discards", "_", "discarded_sectors", "_"),
    *("flushes", "_"),
)


@contextmanager
def loop_disk(file: Path, *options: str, size: int = 64 << 20) -> Iterator[str]:
    """A disk of its own until the end of the block: `file`, which is made, or another disk, as a loop device."""
    if not file.is_block_device():
        file.touch()
        os.truncate(file, size)
    made = subprocess.run(["losetup", "--find", "--show", *options, file], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"this host has no loop device: {made.stderr}")
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextmanager
def mounted(disk: str, folder: Path) -> Iterator[Path]:
    """A new ext4 on the disk, at `folder`, which is made, until the end of the block."""
    lazy = "lazy_itable_init=0,lazy_journal_init=0"  # else the kernel writes for some seconds more
    made = subprocess.run(["mkfs.ext4", "-q", "-E", lazy, disk], capture_output=True, text=True)
    folder.mkdir()
    if made.returncode or subprocess.run(["mount", disk, folder]).returncode:
        pytest.skip(f"this host has no ext4: {made.stderr}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def in_memory(folder: Path, size: str) -> Iterator[Path]:
    """A file system in memory with this much room at `folder`, which is made, until the end of the block."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def knows_the_beginning() -> bool:
    """Whether the kernel says when a request is made (since 6.5)."""
    return (INSTANCES.parent / "events" / "block" / "block_io_start").exists()


def of_disk(disk: str) -> Path:
    """The kernel's folder about a disk."""
    return Path("/sys/block", Path(disk).name)


def counters(disk: str) -> Counter[str]:
    """The disk's own counters, Documentation/block/stat.rst."""
    return counters_in((of_disk(disk) / "stat").read_text())


def counters_in(line: str) -> Counter[str]:
    """Counters from a line of the kernel's."""
    return Counter(dict(zip(_COUNTERS, map(int, line.split()), strict=False)))


def assert_counted(disk_ms: int, ours_ns: int) -> None:
    """The disk's own time is ours and a little more, as it begins before and ends after; it is cut to milliseconds."""
    assert ours_ns / 1e6 - 1 <= disk_ms <= ours_ns / 1e6 * 1.1 + 10


def number(device: Path) -> int:
    """The number of a disk or partition as rows have it, from its folder in /sys."""
    major, minor = (device / "dev").read_text().split(":")
    return int(major) << 20 | int(minor)


def python(script: str, *arguments: str | Path) -> list[str]:
    """A command that runs a script."""
    return [sys.executable, "-S", "-E", "-c", script, *map(str, arguments)]


def ended_in_init(lines: list[str], disk: str) -> list[str]:
    """Of the lines of `seen("block/block_rq_complete", in_init=True)`, those of a disk: no program saw these ends."""
    device = number(of_disk(disk))
    return [line for line in lines if f"block_rq_complete: {device >> 20},{device & 0xFFFFF} " in line]


def of(rows: list[dict[str, Any]], disk: str, operation: str = "") -> list[dict[str, Any]]:
    """The rows of a disk, or of one of its operations."""
    return [row for row in rows if row["disk"] == Path(disk).name and operation in ("", row["operation"])]
